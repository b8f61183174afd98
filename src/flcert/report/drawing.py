"""How figures are drawn: sizes, type, axes, steps and legends, the same everywhere."""

import io
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from flcert.report.panels import Line, Panel
from flcert.report.styles import INK, Style, styles_of

NARROW, WIDE = 3.5, 7.0
"""Widths in inches: one column of a paper, and both."""

FORMS = ("png", "svg", "pdf")
"""The files of a figure."""

POINTS = 8  # size of all text
SETTINGS: Any = {
    **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize", "figure.titlesize", "legend.fontsize"), POINTS),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), POINTS),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.6),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "grid.color": INK,
    "grid.alpha": 0.15,
    "grid.linewidth": 0.5,
    "legend.handlelength": 3.2,
    "svg.fonttype": "none",  # text that can be searched, copied and edited
    "svg.hashsalt": "flcert",
    "pdf.fonttype": 42,  # the same in PDF: TrueType
}
LETTERS_AN_INCH = 16  # about, at this size
LINE_HEIGHT = 0.16  # of the legend, in inches
HANDLE = 0.55  # width of a label's piece of line and the space around it
MARKED = 7  # steps have about so many marks, however many m there are


@contextmanager
def style() -> Iterator[None]:
    """Within this block, or in a function that has it as decorator, Matplotlib draws in our style."""
    with matplotlib.rc_context(SETTINGS):
        yield


@style()
def one_panel(title: str, height: float = 2.3, width: float = NARROW) -> tuple[Figure, Axes]:
    """A figure with a title and one set of axes, with whole numbers along the horizontal one."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(_wrapped(title, width))
    axes = figure.add_subplot()
    whole_numbers(axes)
    return figure, axes


@style()
def picture(title: str, panels: Sequence[Panel], columns: int = 1) -> Figure:
    """The figure of several panels: one column of a paper wide, or two if panels stand side by side; one legend.

    Args:
        title: what it shows.
        panels: its panels, row by row.
        columns: number of panels side by side.
    """
    rows, width = -(-len(panels) // columns), NARROW if columns == 1 else WIDE
    styles = styles_of_panels(panels)
    each = 2.1 if columns <= 2 else 1.6
    text = _wrapped(title, width)
    height = rows * each + LINE_HEIGHT * (_legend_lines(list(styles), width) + text.count("\n") + 2)
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(text)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flat
    for axes, panel in zip(grid, panels, strict=False):
        draw_panel(axes, panel, styles)
        axes.label_outer()
    add_legend(figure)
    return figure


@style()
def panel_figure(panel: Panel, styles: dict[str, Style], width: float) -> Figure:
    """One panel by itself, without a legend: for HTML pages, where panels stack on narrow screens."""
    figure = Figure(figsize=(width, 0.66 * width), layout="constrained")
    draw_panel(figure.add_subplot(), panel, styles)
    return figure


def styles_of_panels(panels: Sequence[Panel]) -> dict[str, Style]:
    """How to draw each line of a figure, by its label, the same in all panels."""
    marked = {panel.marked[1]: Style(INK, (1, 3)) for panel in panels if panel.marked}
    return styles_of(line.label for panel in panels for line in panel.lines) | marked


def draw_panel(axes: Axes, panel: Panel, styles: dict[str, Style]) -> None:
    """Draw one panel with its lines."""
    for line in panel.lines:
        draw_line(axes, line, styles[line.label])
    if panel.marked:
        place, label = panel.marked
        axes.axvline(place, color=INK, linestyle=_linestyle(styles[label]), label=label)
    axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    whole_numbers(axes)
    shares(axes)


def draw_line(axes: Axes, line: Line, style: Style) -> None:
    """Draw a line: in steps if it is proved, and as marked points that a thin line joins if it was measured."""
    across, up = zip(*line.points, strict=True)
    axes.plot(
        across,
        up,
        drawstyle="default" if line.measured else "steps-post",  # CA@m holds up to the next whole number
        color=style.colour,
        linestyle=_linestyle(style),
        linewidth=0.8 if line.measured else None,
        marker=style.mark or None,
        markevery=1 if line.measured else max(1, len(across) // MARKED),
        label=line.label,
    )
    if line.band:
        low, high = zip(*line.band, strict=True)
        step = None if line.measured else "post"
        axes.fill_between(across, low, high, step=step, color=style.colour, alpha=0.2, linewidth=0)  # type: ignore[arg-type]


def whole_numbers(axes: Axes) -> None:
    """Label the horizontal axis with whole numbers."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 5, 10], integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.0f}"))


def shares(axes: Axes) -> None:
    """Make the vertical axis one of percentages, from 0 to 100."""
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))


def add_legend(figure: Figure) -> None:
    """Give a figure its one legend, below the panels."""
    entries: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        width = figure.get_figwidth()
        labels = [_wrapped(label, width - HANDLE) for label in entries]
        columns = _legend_columns(list(entries), width)
        figure.legend(list(entries.values()), labels, loc="outside lower center", ncols=columns)


def rendered(figure: Figure, form: str) -> bytes:
    """The figure in one of ``FORMS``; the same figure always gives the same bytes."""
    buffer = io.BytesIO()
    metadata = {{"svg": "Date", "png": "Software", "pdf": "CreationDate"}[form]: None}
    with style():
        figure.savefig(buffer, format=form, metadata=metadata, dpi=300)
    return buffer.getvalue()


def files_of(figure: Figure) -> dict[str, bytes]:
    """The figure in all of ``FORMS``."""
    return {form: rendered(figure, form) for form in FORMS}


def _linestyle(style: Style) -> tuple[int, tuple[float, ...]] | str:
    return (0, style.dashes) if style.dashes else "-"


def _wrapped(text: str, width: float) -> str:
    return textwrap.fill(text, round(width * LETTERS_AN_INCH))


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """How many columns of the legend fit into a figure of this width."""
    each = HANDLE + max(map(len, labels), default=0) / LETTERS_AN_INCH
    return max(1, min(len(labels), 4, int(width / each)))


def _legend_lines(labels: Sequence[str], width: float) -> int:
    """How many lines of text the legend has."""
    lines = [_wrapped(label, width - HANDLE).count("\n") + 1 for label in labels]
    return sum(lines) if max(lines) > 1 else -(-len(labels) // _legend_columns(labels, width))
