"""What a figure shows, as plain values: panels with lines."""

from collections.abc import Sequence
from dataclasses import dataclass

LEVELS = "malicious clients m"
"""The label of the axis of the number of malicious clients."""

CERTIFIED = "certified accuracy"
"""The label of the axis of CA@m."""


@dataclass(frozen=True)
class Line:
    """One line of a panel.

    Args:
        label: its label in the legend, which also decides how it is drawn: a method looks alike in all figures.
        points: pairs of x and y.
        band: the lower and upper end of a band around the line at each point, if it has one.
        measured: the values are known at the points only, so they are marked. Otherwise the line is of something that
            is proved for every m, and drawn in steps: a slope would claim what nobody proved.
    """

    label: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float]] = ()
    measured: bool = False


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    Args:
        title: the title above it; empty if the figure's own title says it all.
        x: the label of the horizontal axis, which shows whole numbers.
        y: the label of the vertical axis, which shows a share.
        lines: the lines in it.
        marked: the position and label of a vertical line, if any.
    """

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    marked: tuple[float, str] | None = None


def flat_line(label: str, share: float, last: float) -> Line:
    """A share that holds for every m up to the last one."""
    return Line(label, [(0, share), (last, share)])
