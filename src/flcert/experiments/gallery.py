"""Draw the figures of experiments, and one HTML page with all figures in a directory."""

import base64
from pathlib import Path
from typing import Any

import jinja2

from flcert import report
from flcert.core.files import read_json, write_atomic
from flcert.core.settings import validated
from flcert.errors import InputError
from flcert.experiments import EXPERIMENTS
from flcert.experiments.facts import PAGE, FigureFacts
from flcert.experiments.outcome import Outcome
from flcert.report.drawing import files_of, picture
from flcert.report.inline import panels_on_page
from flcert.report.paths import shortened


def draw(outcome: Outcome) -> dict[str, bytes]:
    """The files of the figure, by their form."""
    return files_of(picture(outcome.title, outcome.panels, outcome.columns))


def figures_in(directory: Path) -> dict[str, FigureFacts]:
    """The facts of each experiment whose table is in the directory, in the paper's order; refuse damaged ones."""
    found = {}
    for name in EXPERIMENTS:
        for table in sorted(directory.glob(f"{name}-*.csv")):
            file = table.with_suffix(".json")
            if file.exists():
                values = read_json(file)
                known = {"format": 1, **values} if isinstance(values, dict) else {}
                found[file.stem] = validated(FigureFacts, known, f"{file} is damaged; delete it: ")
    return found


def write_gallery(directory: Path) -> Path:
    """Write report.html with a section for each experiment whose facts and picture are in the directory."""
    sections = [
        _section(stem, facts, directory / f"{stem}.svg")
        for stem, facts in figures_in(directory).items()
        if (directory / f"{stem}.svg").exists()
    ]
    if not sections:
        raise InputError(f"{directory} holds no experiment; make one with flcert reproduce")
    loader = jinja2.FileSystemLoader([Path(__file__).parent, Path(report.__file__).parent])
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
    page = directory / PAGE
    write_atomic(page, environment.get_template("gallery.html.j2").render(sections=sections).encode())
    return page


def _section(stem: str, facts: FigureFacts, file: Path) -> dict[str, Any]:
    """What the page says of a figure; before format 3, its facts have no panels, and the picture is shown as it is."""
    shown = {**dict(facts), "config": shortened(facts.config), "stem": stem}
    if not facts.panels:
        picture = base64.b64encode(file.read_bytes()).decode()
        return {**shown, "title": f"{facts.title}: {facts.label}", "picture": picture}
    return {**shown, "drawn": panels_on_page(facts.panels, facts.columns, stem, facts.title)}
