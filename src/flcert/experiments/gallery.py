"""Draw the figures of experiments, and one HTML page with all figures in a directory."""

import base64
from pathlib import Path

import jinja2
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from flcert import report
from flcert.core.files import read_json, write_atomic
from flcert.core.settings import validated
from flcert.errors import InputError
from flcert.experiments import EXPERIMENTS
from flcert.experiments.facts import FigureFacts
from flcert.experiments.outcome import Line, Outcome, Panel
from flcert.report.figures import rendered
from flcert.report.paths import shortened

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000")  # Okabe and Ito: for any colour vision
STYLES = ("-", "--", "-.", ":", (0, (1, 3)))
FEW = 30  # lines with at most this many points get markers


def draw(outcome: Outcome) -> dict[str, bytes]:
    """The figure as PNG and SVG."""
    count = -(-len(outcome.panels) // outcome.columns)
    width = 6.4 if outcome.columns == 1 else 3.6 * outcome.columns
    figure = Figure(figsize=(width, 3.6 * count), layout="constrained")
    for axes, panel in zip(figure.subplots(count, outcome.columns, squeeze=False).flat, outcome.panels, strict=False):
        draw_panel(axes, panel)
    return {form: rendered(figure, form) for form in ("png", "svg")}


def draw_panel(axes: Axes, panel: Panel) -> None:
    """One panel with its lines."""
    for number, line in enumerate(panel.lines):
        _draw_line(axes, line, number)
    if panel.marked:
        axes.axvline(panel.marked[0], color="#555555", linestyle=":", label=panel.marked[1])
    axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y, ylim=(-0.02, 1.02))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.legend(fontsize="small")


def _draw_line(axes: Axes, line: Line, number: int) -> None:
    horizontal, vertical = zip(*line.points, strict=True)
    colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
    marker = "o" if len(line.points) <= FEW else None
    axes.plot(horizontal, vertical, color=colour, linestyle=style, marker=marker, markersize=4, label=line.label)
    if line.spread:
        below = [y - half for y, half in zip(vertical, line.spread, strict=True)]
        above = [y + half for y, half in zip(vertical, line.spread, strict=True)]
        axes.fill_between(horizontal, below, above, color=colour, alpha=0.25)


def figures_in(directory: Path) -> dict[str, FigureFacts]:
    """The facts of each experiment whose table is in the directory, by file name; refuse damaged ones."""
    found = {}
    for table in sorted(directory.glob("*.csv")):
        file = table.with_suffix(".json")
        if file.exists() and file.stem.startswith(tuple(f"{name}-" for name in EXPERIMENTS)):
            values = read_json(file)
            known = {"format": 1, **values} if isinstance(values, dict) else {}
            found[file.stem] = validated(FigureFacts, known, f"{file} is damaged; delete it: ")
    return found


def write_gallery(directory: Path) -> Path:
    """Write report.html with a section for each experiment whose facts and picture are in the directory."""
    sections = []
    for stem, facts in figures_in(directory).items():
        picture = directory / f"{stem}.svg"
        if picture.exists():
            image = base64.b64encode(picture.read_bytes()).decode()
            sections.append({**dict(facts), "config": shortened(facts.config), "stem": stem, "image": image})
    if not sections:
        raise InputError(f"{directory} holds no experiment; make one with flcert reproduce")
    loader = jinja2.FileSystemLoader([Path(__file__).parent, Path(report.__file__).parent])
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
    page = directory / "report.html"
    write_atomic(page, environment.get_template("gallery.html.j2").render(sections=sections).encode())
    return page
