"""The JSON file beside a figure: everything needed to make it again."""

from typing import Any, Final, Literal

from pydantic import Field

from flcert.core.settings import Strict
from flcert.report.panels import Panel

FORMAT: Final = 3

PAGE = "report.html"
"""The page of all figures in a directory."""


class FigureFacts(Strict):
    """The facts of one figure.

    Args:
        experiment: its name.
        title: what it shows, and of which setting; before format 3 without the setting.
        label: what to call the setting in names of files.
        note: what to keep in mind when reading it.
        data: name, digest, clients and test inputs.
        options: the experiment's options.
        config: the setting.
        versions: versions of the packages that computed it.
        command: the command that makes it.
        panels: what is drawn, row by row; before format 3 there is only the picture.
        columns: number of panels side by side.
        format: the number of this format; files of format 1 do not have it.
    """

    experiment: str
    title: str
    label: str
    note: str
    data: dict[str, Any]
    options: dict[str, Any]
    config: dict[str, Any]
    versions: dict[str, str]
    command: str = ""
    panels: tuple[Panel, ...] = ()
    columns: int = Field(default=1, gt=0)
    format: Literal[1, 2, 3] = FORMAT
