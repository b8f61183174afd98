"""The result of an experiment: rows for a table, and panels for a figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flcert.report.panels import CERTIFIED, LEVELS, Line, Panel, flat_line

Curve = NDArray[np.float64]
Row = tuple[str | int | float, ...]


@dataclass(frozen=True)
class Outcome:
    """The result of an experiment.

    Args:
        title: what it shows, and of which setting.
        header: names of the table's columns.
        rows: rows of the table.
        panels: panels of the figure, row by row.
        columns: number of panels side by side.
        note: what to keep in mind when reading it.
    """

    title: str
    header: tuple[str, ...]
    rows: Sequence[Row]
    panels: Sequence[Panel]
    columns: int = 1
    note: str = ""


def at(curve: Curve, m: int) -> float:
    """CA@m; a curve is zero past its end."""
    return float(curve[m]) if m < len(curve) else 0.0


def curve_rows(labels: tuple[str | int | float, ...], curve: Curve, length: int) -> list[Row]:
    """Rows (*labels, m, CA@m) for every m below ``length``."""
    return [(*labels, m, at(curve, m)) for m in range(length)]


def curve_line(label: str, curve: Curve, length: int) -> Line:
    """CA@m against m."""
    return Line(label, [(m, at(curve, m)) for m in range(length)])


def with_public_line(outcome: Outcome, accuracy: float | None) -> Outcome:
    """The outcome with the flat line of the public model alone beside certified accuracy, if there is such a model."""
    if accuracy is None:
        return outcome
    panels = [
        replace(panel, lines=[*panel.lines, flat_line("public model alone", accuracy, _last(panel))])
        if (panel.x, panel.y) == (LEVELS, CERTIFIED)
        else panel
        for panel in outcome.panels
    ]
    return replace(outcome, panels=panels)


def _last(panel: Panel) -> float:
    return max(x for line in panel.lines for x, _ in line.points)


def outcome_of_both(title: str, varied: str, curves: Mapping[tuple[str, str | int], Curve], note: str = "") -> Outcome:
    """CA against m for both of the paper's methods side by side, with a line for each value of what varies.

    Args:
        title: of the figure.
        varied: the name of the column of what varies; whole numbers are shown as N = ...
        curves: by method and setting.
        note: what to keep in mind.
    """
    length = max(len(curve) for curve in curves.values())
    panels = []
    for method in reversed(list(dict.fromkeys(name for name, _ in curves))):
        lines = [
            curve_line(f"N = {setting:,}" if isinstance(setting, int) else setting, curve, length)
            for (name, setting), curve in curves.items()
            if name == method
        ]
        panels.append(Panel(method, LEVELS, CERTIFIED, lines))
    return Outcome(
        title=title,
        header=("method", varied, "m", "certified_accuracy"),
        rows=[row for key, curve in curves.items() for row in curve_rows(key, curve, length)],
        panels=panels,
        columns=2,
        note=note,
    )
