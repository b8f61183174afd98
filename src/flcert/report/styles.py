"""One colour, line style and mark for each method, in every figure and on every page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

INK = "#000000"
"""The colour of text and axes; on HTML pages it becomes that of the page's text."""

DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1, 1.5), (7, 2, 1.5, 2), (3, 1, 1, 1, 1, 1))
"""Line styles: lengths of strokes and gaps in widths of the line; none for a solid line."""

MARKS = ("o", "s", "^", "D", "v")

COLOURS = ("#7a4fd0", "#998f1f", "#b0306a", "#3f93b5", "#8c5a2b", "#c46be0")
"""For lines that are no named method: distinguishable with any colour vision, on white and on black."""


@dataclass(frozen=True)
class Style:
    """How a line is drawn.

    Args:
        colour: as in HTML.
        dashes: one of ``DASHES``.
        mark: one of ``MARKS``; empty for a line without points of its own.
    """

    colour: str
    dashes: tuple[float, ...]
    mark: str = ""

    def dash_array(self, width: float) -> str:
        """The dashes of a line of this width, as SVG wants them.

        >>> Style(INK, (5, 2)).dash_array(2)
        '10 4'
        """
        return " ".join(f"{width * length:g}" for length in self.dashes) or "none"


METHODS = {  # the colours of Okabe and Ito, which nothing else has
    "FLCert-D": Style("#0072b2", DASHES[0], "o"),
    "FLCert-P": Style("#d55e00", DASHES[1], "s"),
    "CRFL": Style("#009e73", DASHES[2], "^"),
    "single global model": Style(INK, DASHES[3], "D"),
    "public model alone": Style("#cc79a7", DASHES[2]),
    "accuracy without attack": Style(INK, DASHES[1]),
}
"""The style of each named method. A longer name that begins like this is a variant of it: same colour and mark."""

PREFIX = "a group of "

MOST_LINES = len(COLOURS) * len(DASHES)
"""So many lines of one figure look different, whatever their labels are; both numbers have no common divisor."""


def styles_of(labels: Iterable[str]) -> dict[str, Style]:
    """How to draw each of a figure's lines; the order of the labels matters only for those that are no method.

    >>> styles_of(["FLCert-P", "N = 5"])["FLCert-P"] == METHODS["FLCert-P"]
    True
    """
    found: dict[str, Style] = {}
    for label in labels:
        if label not in found:
            found[label] = _of_method(label, list(found.values())) or _next(list(found.values()))
    return found


def _of_method(label: str, taken: Sequence[Style]) -> Style | None:
    """The style of the method that a label names; with other dashes if a variant of it is in the figure already."""
    own = next((style for name, style in METHODS.items() if label.removeprefix(PREFIX).startswith(name)), None)
    if own is None:
        return None
    free = [dashes for dashes in (own.dashes, *DASHES) if replace(own, dashes=dashes) not in taken]
    return replace(own, dashes=free[0]) if free else None


def _next(taken: Sequence[Style]) -> Style:
    number = sum(style.colour in COLOURS for style in taken)
    return Style(COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)], MARKS[number % len(MARKS)])
