"""The HTML page of a run: one file, no network."""

import base64
import csv
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from numpy.typing import NDArray

from flcert.files import write_atomic
from flcert.guarantee import Guarantee
from flcert.report import figures
from flcert.report.chart import Chart
from flcert.report.points import (
    Curve,
    chosen_levels,
    levels_of_all,
    other_curves,
    proof_sentence,
    telling_level,
    widened,
)
from flcert.rundir import RunDirectory


def write_report(run_directory: RunDirectory) -> Path:
    """Draw the figures and write report.html from what the run directory holds; returns the page's path."""
    manifest = run_directory.manifest()
    summary = run_directory.summary()
    curve = np.array(summary["certified_accuracy"])
    drawn = _draw(run_directory, manifest, curve, summary["accuracy"])
    images = {}
    for name, figure in drawn.items():
        for form in ("png", "svg"):
            write_atomic(run_directory.path / "figures" / f"{name}.{form}", figures.rendered(figure, form))
        images[name] = base64.b64encode(figures.rendered(figure, "svg")).decode()
    guarantee = run_directory.guarantee()
    others = other_curves(summary.get("also", {}), summary["inputs"])
    wide = widened(curve, others)
    page = _template().render(
        images=images,
        summary=summary,
        manifest=manifest,
        rows=[
            (m, wide[m], round(wide[m] * summary["inputs"]), [other.at(m) for other in others])
            for m in levels_of_all(curve, others)
        ],
        sentence=proof_sentence(guarantee, curve, summary["inputs"], right=True),
        guarantee=guarantee,
        config=run_directory.config().canonical(),
        failed=[(group, entry["failure"]) for group, entry in enumerate(manifest["groups"]) if entry["failure"]],
        substitutes=sum(bool(entry.get("substitute")) for entry in manifest["groups"]),
        empty=sum(entry["clients"] == 0 for entry in manifest["groups"]),
        dropped=sum(len(entry.get("dropped", ())) for entry in manifest["groups"]),
        chart=Chart(wide, summary["accuracy"], others),
        telling=telling_level(curve),
        stamped=_on_stamped(summary.get("attack")),
        data={
            "curve": wide.tolist(),
            "inputs": summary["inputs"],
            "chart": Chart.box,
            "samples": _explained(run_directory.samples(), guarantee),
        },
    )
    target = run_directory.path / "report.html"
    write_atomic(target, page.encode())
    return target


def _on_stamped(attack: dict[str, Any] | None) -> float:
    """CA@m on inputs with the trigger, for as many clients as attacked."""
    curve = attack.get("certified_accuracy_on_stamped_inputs", ()) if attack else ()
    return float(curve[attack["malicious"]]) if attack and attack["malicious"] < len(curve) else 0.0


def _explained(samples: dict[str, Any] | None, guarantee: Guarantee) -> dict[str, Any] | None:
    """The samples, each with a sentence about what is proved for it."""
    for one in samples["inputs"] if samples else ():
        name = samples["names"].get(str(one["label"]), str(one["label"])) if samples else ""
        one["sentence"] = guarantee.sentence_for_input(name, one["level"], abstained=one["abstained"])
    return samples


def _draw(run_directory: RunDirectory, manifest: dict[str, Any], curve: Curve, accuracy: float) -> dict[str, Any]:
    certificate, truth = run_directory.certificate(), run_directory.truth()
    sizes = np.array([entry["clients"] for entry in manifest["groups"]])
    drawn = {
        "curve": figures.curve_figure(curve, accuracy),
        "levels": figures.levels_figure(certificate, truth),
        "sizes": figures.sizes_figure(sizes),
    }
    by_round = _curves_by_round(run_directory.path / "rounds.csv")
    if by_round:
        drawn["rounds"] = figures.rounds_figure(list(by_round), list(by_round.values()), chosen_levels(curve)[:-1])
    return drawn


def _curves_by_round(path: Path) -> dict[int, NDArray[np.float64]]:
    if not path.exists():
        return {}
    values: dict[int, list[float]] = {}
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            values.setdefault(int(row["round"]), []).append(float(row["certified_accuracy"]))
    return {number: np.array(curve) for number, curve in values.items()}


def _template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True).get_template("page.html.j2")
