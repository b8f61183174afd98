"""The HTML page of a run: one file, no network."""

import base64
import csv
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from flcert.certify import Figures, Guarantee, kind_class
from flcert.core.files import write_atomic
from flcert.report import figures
from flcert.report.chart import Chart
from flcert.report.paths import shortened
from flcert.report.points import (
    also_curves,
    chosen_levels,
    excluded_sentence,
    levels_of_all,
    overlap_sentence,
    proof_sentence,
    public_sentence,
    sentences,
    telling_level,
    widened,
)
from flcert.report.targets import targets_of_run
from flcert.report.trade import trade_of_run, why_no_trade
from flcert.runs.directory import RunDirectory
from flcert.runs.records import AttackFigures, Manifest, Samples, Summary


def write_report(run_directory: RunDirectory) -> Path:
    """Draw the figures and write report.html from what the run directory holds; return the page's path."""
    manifest, summary = run_directory.manifest(), run_directory.summary()
    curve = np.array(summary.certified_accuracy)
    guarantee, config, groups = run_directory.guarantee(), run_directory.config(), manifest.groups
    also = also_curves(summary)
    wide = widened(curve, also)
    page = _template().render(
        images=_images(run_directory, manifest, summary),
        summary=summary,
        manifest=manifest,
        rows=[
            (m, wide[m], round(wide[m] * summary.inputs), [one.at(m) for one in also])
            for m in levels_of_all(curve, also)
        ],
        sentence=proof_sentence(guarantee, curve, summary.inputs, right=True),
        excluded=excluded_sentence(summary.excluded),
        public=public_sentence(summary.public, summary.inputs) if summary.public else "",
        overlap=overlap_sentence(manifest.public.overlap) if manifest.public and manifest.public.overlap else "",
        guarantee=guarantee,
        notes=[note for kind, figures in summary.also.items() if (note := _note(kind, figures, guarantee))],
        config=shortened(config.canonical()),
        failed=[(group, facts.failure) for group, facts in enumerate(groups) if facts.failure],
        substitutes=sum(bool(facts.substitute) for facts in groups),
        empty=sum(facts.clients == 0 for facts in groups),
        dropped=sum(len(facts.dropped) for facts in groups),
        chart=Chart(wide, summary.accuracy, also),
        telling=telling_level(curve),
        trade=None if why_no_trade(run_directory) else trade_of_run(run_directory),
        targets=targets_of_run(run_directory, chosen_levels(curve), telling_level(curve)),
        stamped=_on_stamped(summary.attack),
        data={
            "curve": wide.tolist(),
            "sentences": sentences(guarantee, wide, summary.inputs),
            "chart": Chart.box,
            "samples": _explained(run_directory.samples(), guarantee),
        },
    )
    target = run_directory.path / "report.html"
    write_atomic(target, page.encode())
    return target


def _note(kind: str, figures: Figures, own: Guarantee) -> str:
    """What to know about a further certificate; runs of format 1 did not record it."""
    return figures.note or ("" if ":" in kind else kind_class(kind).note_beside(own))


def _images(run_directory: RunDirectory, manifest: Manifest, summary: Summary) -> dict[str, str]:
    """Write the figures to files, and return them as base64-encoded SVG."""
    images = {}
    for name, figure in _draw(run_directory, manifest, summary).items():
        drawn = {form: figures.rendered(figure, form) for form in ("png", "svg")}
        for form, picture in drawn.items():
            write_atomic(run_directory.path / "figures" / f"{name}.{form}", picture)
        images[name] = base64.b64encode(drawn["svg"]).decode()
    return images


def _on_stamped(attack: AttackFigures | None) -> float:
    """CA@m on inputs with the trigger, for m attackers."""
    curve = (attack.certified_accuracy_on_stamped_inputs or ()) if attack else ()
    return curve[attack.malicious] if attack and attack.malicious < len(curve) else 0.0


def _explained(samples: Samples | None, guarantee: Guarantee) -> dict[str, Any] | None:
    """The samples as JSON values, each with a sentence about what is proved for it."""
    if samples is None:
        return None
    inputs = []
    for one in samples.inputs:
        name = samples.names.get(one.label, str(one.label))
        sentence = guarantee.sentence_for_input(name, one.level, abstained=one.abstained)
        inputs.append({**one.model_dump(mode="json"), "sentence": sentence})
    return {**samples.told(), "names": samples.names, "inputs": inputs}


def _draw(run_directory: RunDirectory, manifest: Manifest, summary: Summary) -> dict[str, Figure]:
    certificate, truth, curve = run_directory.certificate(), run_directory.truth(), np.array(summary.certified_accuracy)
    drawn = {
        "curve": figures.curve_figure(curve, summary.accuracy, summary.public.accuracy if summary.public else None),
        "levels": figures.levels_figure(certificate, truth),
        "sizes": figures.sizes_figure(np.array([facts.clients for facts in manifest.groups])),
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
