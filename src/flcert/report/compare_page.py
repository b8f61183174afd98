"""A comparison in files: the table and the curves as CSV, the figure, and an HTML page that needs no network."""

import csv
import io
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from flcert.core.files import writable_directory, write_atomic
from flcert.datasets import written
from flcert.report.compare import Comparison, Setting, claim_of
from flcert.report.compare_runs import Run
from flcert.report.drawing import files_of, picture
from flcert.report.inline import panels_on_page
from flcert.report.panels import CERTIFIED, LEVELS, Line, Panel
from flcert.report.styles import MOST_LINES

LONGEST_LABEL = 70  # characters of a setting in the legend
STEM = "comparison"


def write_comparison(comparison: Comparison, directory: Path) -> dict[str, Path]:
    """Write the files of a comparison into a directory, and return them by what they are."""
    writable_directory(directory)
    pictures = files_of(picture(title_of(comparison), panels_of(comparison)))
    contents = {
        "table": (f"{STEM}.csv", _csv(table_rows(comparison))),
        "curves": (f"{STEM}-curves.csv", _csv(_curve_rows(comparison))),
        **{form: (f"{STEM}.{form}", content) for form, content in pictures.items()},
        "page": (f"{STEM}.html", _page(comparison, directory)),
    }
    for name, content in contents.values():
        write_atomic(directory / name, content)
    return {what: directory / name for what, (name, _) in contents.items()}


def table_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A row for each setting: its name and certificate, and the mean, standard deviation and mark of each figure."""
    rows = []
    for setting in comparison.settings:
        row: dict[str, Any] = {
            "setting": setting.name,
            "repeats": len(setting.runs),
            "test_set": comparison.test_sets[setting.test_set],
            "certificate": setting.guarantee.kind,
            "failure_probability": setting.guarantee.failure_probability,
        }
        for column in comparison.columns:
            cell = comparison.cell(setting, column)
            row[column.name] = column.plain(cell.mean) if cell else None
            if column.judged:
                row[f"{column.name}_standard_deviation"] = cell.spread if cell else None
                row[f"{column.name}_mark"] = cell.mark if cell else ""
        rows.append(row)
    return rows


def _curve_rows(comparison: Comparison) -> list[dict[str, Any]]:
    rows = []
    for setting in comparison.settings:
        curves = setting.curves(comparison.length)
        spread = curves.std(axis=0, ddof=1).tolist() if len(curves) > 1 else [None] * comparison.length
        for m, (mean, deviation) in enumerate(zip(curves.mean(axis=0).tolist(), spread, strict=True)):
            figures = {"m": m, "certified_accuracy": mean, "standard_deviation": deviation}
            rows.append({"setting": setting.name, **figures, "repeats": len(curves)})
    return rows


def _csv(rows: Sequence[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def panels_of(comparison: Comparison) -> list[Panel]:
    """Certified accuracy against m: a panel for each test set, a line for each setting."""
    shown = comparison.settings[:MOST_LINES]
    labels = _labels(shown)
    drawn = {setting.test_set for setting in shown}
    sets = [(digest, letter) for digest, letter in comparison.test_sets.items() if digest in drawn]
    return [
        Panel(
            f"test set {letter}" if len(sets) > 1 else "",
            LEVELS,
            CERTIFIED,
            [
                _line(label, setting, comparison.length)
                for label, setting in zip(labels, shown, strict=True)
                if setting.test_set == digest
            ],
        )
        for digest, letter in sets
    ]


def _labels(settings: Sequence[Setting]) -> list[str]:
    """The settings' names for the legend: shortened, and numbered where that makes two of them the same."""
    names = [textwrap.shorten(setting.name, LONGEST_LABEL, placeholder=" …") for setting in settings]
    return [f"{name} ({at})" if names.count(name) > 1 else name for at, name in enumerate(names, start=1)]


def _line(name: str, setting: Setting, length: int) -> Line:
    """The mean over the repeats, with a band of one standard deviation on either side."""
    curves = setting.curves(length)
    mean = curves.mean(axis=0)
    spread = curves.std(axis=0, ddof=1) if len(curves) > 1 else None
    band = [] if spread is None else list(zip((mean - spread).tolist(), (mean + spread).tolist(), strict=True))
    label = name if len(curves) == 1 else f"{name} (mean of {len(curves)})"
    return Line(label, list(enumerate(mean.tolist())), band)


def title_of(comparison: Comparison) -> str:
    """What the figure shows: whose accuracy it is."""
    names = dict.fromkeys(written(run.manifest.data.name) for run in comparison.runs)
    return f"Certified accuracy, {' and '.join(names)}"


def _page(comparison: Comparison, directory: Path) -> bytes:
    panels = panels_of(comparison)
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
    page = environment.get_template("compare.html.j2").render(
        comparison=comparison,
        tables=[[column for column in comparison.columns if column.judged is judged] for judged in (True, False)],
        claim_of=claim_of,
        title=title_of(comparison),
        image=panels_on_page(panels, min(2, len(panels)), STEM, title_of(comparison)),
        undrawn=max(0, len(comparison.settings) - MOST_LINES),
        runs=[(setting, [_described(run, directory) for run in setting.runs]) for setting in comparison.settings],
        stem=STEM,
    )
    return page.encode()


def _described(run: Run, directory: Path) -> dict[str, Any]:
    """Where a run lies as seen from the page, and its seeds."""
    place = Path(os.path.relpath(run.path.resolve(), directory.resolve())).as_posix()
    return {"place": place, "seeds": run.config.split_seeds()[1]}
