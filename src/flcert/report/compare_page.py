"""A comparison in files: the table and the curves as CSV, the figure, and an HTML page that needs no network."""

import base64
import csv
import io
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from flcert.core.files import writable_directory, write_atomic
from flcert.report.compare import Comparison, Setting, claim_of
from flcert.report.compare_runs import Run
from flcert.report.figures import rendered

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9")  # Okabe and Ito
STYLES = ("-", "--", "-.", ":")
MOST_LINES = len(COLOURS) * len(STYLES)  # no two lines up to here have the same colour and style
LONGEST_LABEL = 70  # characters of a setting in the legend
STEM = "comparison"


def write_comparison(comparison: Comparison, directory: Path) -> dict[str, Path]:
    """Write the files of a comparison into a directory, and return them by what they are."""
    writable_directory(directory)
    pictures = {form: rendered(figure_of(comparison), form) for form in ("png", "svg")}
    contents = {
        "table": (f"{STEM}.csv", _csv(table_rows(comparison))),
        "curves": (f"{STEM}-curves.csv", _csv(_curve_rows(comparison))),
        "png": (f"{STEM}.png", pictures["png"]),
        "svg": (f"{STEM}.svg", pictures["svg"]),
        "page": (f"{STEM}.html", _page(comparison, pictures["svg"], directory)),
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


def figure_of(comparison: Comparison) -> Figure:
    """Certified accuracy against m as steps, a panel for each test set, a colour and line style for each setting."""
    shown = comparison.settings[:MOST_LINES]
    columns = 1 if max(len(setting.name) for setting in shown) > 40 else 2
    legend = 0.22 * -(-len(shown) // columns)
    drawn = {setting.test_set for setting in shown}
    sets = [(digest, letter) for digest, letter in comparison.test_sets.items() if digest in drawn]
    figure = Figure(figsize=(7.2, 3.8 * len(sets) + legend), layout="constrained")
    for axes, (digest, letter) in zip(figure.subplots(len(sets), squeeze=False).flat, sets, strict=True):
        for number, setting in enumerate(shown):
            if setting.test_set == digest:
                _draw(axes, setting, number, comparison.length)
        axes.set(
            xlabel="malicious clients m", ylabel="certified accuracy", ylim=(0, 1.02), xlim=(0, comparison.length - 1)
        )
        if len(sets) > 1:
            axes.set_title(f"test set {letter}")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    figure.legend(loc="outside lower center", ncols=columns, fontsize="small", frameon=False, handlelength=4)
    return figure


def _draw(axes: Axes, setting: Setting, number: int, length: int) -> None:
    curves, levels = setting.curves(length), np.arange(length)
    mean, colour = curves.mean(axis=0), COLOURS[number % len(COLOURS)]
    name = textwrap.shorten(setting.name, LONGEST_LABEL, placeholder=" …")
    label = name if len(curves) == 1 else f"{name} (mean of {len(curves)})"
    axes.step(levels, mean, where="post", color=colour, linestyle=STYLES[number % len(STYLES)], label=label)
    if len(curves) > 1:
        spread = curves.std(axis=0, ddof=1)
        axes.fill_between(levels, mean - spread, mean + spread, step="post", color=colour, alpha=0.15, linewidth=0)


def _page(comparison: Comparison, picture: bytes, directory: Path) -> bytes:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
    page = environment.get_template("compare.html.j2").render(
        comparison=comparison,
        tables=[[column for column in comparison.columns if column.judged is judged] for judged in (True, False)],
        claim_of=claim_of,
        image=base64.b64encode(picture).decode(),
        undrawn=max(0, len(comparison.settings) - MOST_LINES),
        runs=[(setting, [_described(run, directory) for run in setting.runs]) for setting in comparison.settings],
        stem=STEM,
    )
    return page.encode()


def _described(run: Run, directory: Path) -> dict[str, Any]:
    """Where a run lies as seen from the page, and its seeds."""
    place = Path(os.path.relpath(run.path.resolve(), directory.resolve())).as_posix()
    return {"place": place, "seeds": run.config.split_seeds()[1]}
