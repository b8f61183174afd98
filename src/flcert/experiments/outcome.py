"""The result of an experiment: rows for a table, and panels for a figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Curve = NDArray[np.float64]
Row = tuple[str | int | float, ...]

LEVELS = "malicious clients m"
"""The axis of a panel in which the public model alone is a flat line."""


@dataclass(frozen=True)
class Line:
    """One line of a panel.

    Args:
        label: its label in the legend.
        points: pairs of x and y.
        spread: half the height of a band around the line at each point, if it has one.
    """

    label: str
    points: Sequence[tuple[float, float]]
    spread: Sequence[float] = ()


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    Args:
        title: the title above it.
        x: the label of the horizontal axis.
        y: the label of the vertical axis, which shows a share.
        lines: the lines in it.
        marked: the position and label of a vertical line, if any.
    """

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    marked: tuple[float, str] | None = None


@dataclass(frozen=True)
class Outcome:
    """The result of an experiment.

    Args:
        header: names of the table's columns.
        rows: rows of the table.
        panels: panels of the figure, row by row.
        columns: number of panels side by side.
        note: what to keep in mind when reading it.
    """

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
        replace(panel, lines=[*panel.lines, Line("public model alone", [(0, accuracy), (_last(panel), accuracy)])])
        if (panel.x, panel.y) == (LEVELS, "certified accuracy")
        else panel
        for panel in outcome.panels
    ]
    return replace(outcome, panels=panels)


def _last(panel: Panel) -> float:
    return max(x for line in panel.lines for x, _ in line.points)


def outcome_of_both(varied: str, curves: Mapping[tuple[str, str | int], Curve], note: str = "") -> Outcome:
    """CA against m for both of the paper's methods side by side, with a line for each value of what varies.

    Args:
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
        panels.append(Panel(method, LEVELS, "certified accuracy", lines))
    return Outcome(
        header=("method", varied, "m", "certified_accuracy"),
        rows=[row for key, curve in curves.items() for row in curve_rows(key, curve, length)],
        panels=panels,
        columns=2,
        note=note,
    )
