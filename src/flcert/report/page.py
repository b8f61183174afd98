"""The HTML page of a run: one file, no network."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from numpy.typing import NDArray

from flcert.certify import Figures, Guarantee, kind_class
from flcert.core.files import write_atomic
from flcert.datasets import written
from flcert.report import figures
from flcert.report.chart import Chart
from flcert.report.drawing import files_of
from flcert.report.inline import inlined, legend, on_page
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
from flcert.report.styles import styles_of
from flcert.report.targets import targets_of_run
from flcert.report.trade import trade_of_run, why_no_trade
from flcert.runs.directory import RunDirectory
from flcert.runs.records import AttackFigures, Manifest, Samples, Summary

WITHOUT_ATTACK = "accuracy without attack"


def write_report(run_directory: RunDirectory) -> Path:
    """Draw the figures and write report.html from what the run directory holds; return the page's path."""
    manifest, summary = run_directory.manifest(), run_directory.summary()
    curve = np.array(summary.certified_accuracy)
    guarantee, config, groups = run_directory.guarantee(), run_directory.config(), manifest.groups
    also = also_curves(summary)
    wide, method = widened(curve, also), config.grouping.title
    styles = styles_of([method, WITHOUT_ATTACK, *(one.title for one in also)])
    page = _template().render(
        images=_images(run_directory, manifest, summary),
        legend=legend({label: replace(one, mark="") for label, one in styles.items()}),
        own=styles[method],
        usual=styles[WITHOUT_ATTACK],
        others=[(one, styles[one.title]) for one in also],
        on_page=on_page,
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


def _images(run_directory: RunDirectory, manifest: Manifest, summary: Summary) -> dict[str, Markup]:
    """Write the figures to files, and return them as parts of the page."""
    images = {}
    for name, figure in _draw(run_directory, manifest, summary).items():
        drawn = files_of(figure)
        for form, picture in drawn.items():
            write_atomic(run_directory.path / "figures" / f"{name}.{form}", picture)
        images[name] = inlined(drawn["svg"], name, figure.get_suptitle())
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
    whose, method = (
        f"{written(manifest.data.name)}, N = {len(manifest.groups):,}",
        run_directory.config().grouping.title,
    )
    public = summary.public.accuracy if summary.public else None
    title = f"Certified accuracy, {whose}"
    drawn = {
        "curve": figures.curve_figure(title, method, curve, summary.accuracy, public),
        "levels": figures.levels_figure(f"Certified security levels, {whose}", certificate, truth),
        "sizes": figures.sizes_figure(f"Group sizes, {whose}", np.array([facts.clients for facts in manifest.groups])),
    }
    by_round = _curves_by_round(run_directory.path / "rounds.csv")
    if by_round:
        levels = chosen_levels(curve)[:-1] or [0]
        drawn["rounds"] = figures.rounds_figure(
            f"Certified accuracy by round, {whose}", list(by_round), list(by_round.values()), levels
        )
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
