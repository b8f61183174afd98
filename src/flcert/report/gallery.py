"""Figures of experiments, and one HTML page of all that are in a directory."""

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flcert.errors import InputError
from flcert.files import read_json, write_atomic
from flcert.report.figures import rendered

if TYPE_CHECKING:
    from flcert.experiments.outcome import Line, Outcome, Panel

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000")  # Okabe and Ito: told apart with any colour vision
STYLES = ("-", "--", "-.", ":", (0, (1, 3)))
FEW = 30  # points of a line up to which each gets a marker


def draw(outcome: "Outcome") -> dict[str, bytes]:
    """The figure as PNG and SVG."""
    count = -(-len(outcome.panels) // outcome.columns)
    width = 6.4 if outcome.columns == 1 else 3.6 * outcome.columns
    figure = Figure(figsize=(width, 3.6 * count), layout="constrained")
    for axes, panel in zip(figure.subplots(count, outcome.columns, squeeze=False).flat, outcome.panels, strict=False):
        _draw_panel(axes, panel)
    return {form: rendered(figure, form) for form in ("png", "svg")}


def _draw_panel(axes: Axes, panel: "Panel") -> None:
    for number, line in enumerate(panel.lines):
        _draw_line(axes, line, number)
    if panel.marked:
        axes.axvline(panel.marked[0], color="#555555", linestyle=":", label=panel.marked[1])
    axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y, ylim=(-0.02, 1.02))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.legend(fontsize="small")


def _draw_line(axes: Axes, line: "Line", number: int) -> None:
    horizontal, vertical = zip(*line.points, strict=True)
    colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
    marker = "o" if len(line.points) <= FEW else None
    axes.plot(horizontal, vertical, color=colour, linestyle=style, marker=marker, markersize=4, label=line.label)
    if line.spread:
        below = [y - half for y, half in zip(vertical, line.spread, strict=True)]
        above = [y + half for y, half in zip(vertical, line.spread, strict=True)]
        axes.fill_between(horizontal, below, above, color=colour, alpha=0.25)


def write_gallery(directory: Path) -> Path:
    """Write report.html with a section for each experiment whose facts and picture are in the directory."""
    sections = []
    for facts in sorted(directory.glob("*.json")):
        picture = facts.with_suffix(".svg")
        values = read_json(facts)
        if isinstance(values, dict) and "experiment" in values and picture.exists():
            image = base64.b64encode(picture.read_bytes()).decode()
            sections.append({**values, "stem": facts.stem, "image": image})
    if not sections:
        raise InputError(f"{directory} holds no experiment; make one with flcert reproduce")
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
    page = directory / "report.html"
    write_atomic(page, environment.get_template("gallery.html.j2").render(sections=sections).encode())
    return page
