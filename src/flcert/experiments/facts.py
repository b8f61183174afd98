"""The JSON file beside a figure: what a stranger needs to make it again."""

from typing import Any, Final, Literal

from flcert.core.settings import Strict

FORMAT: Final = 2


class FigureFacts(Strict):
    """The facts of one figure.

    Args:
        experiment: its name.
        title: what it shows.
        label: what to call the setting.
        note: what to keep in mind when reading it.
        data: name, digest, clients and test inputs.
        options: of the experiment.
        config: the setting.
        versions: of what computed it.
        command: that makes it.
        format: the number of this layout; files of format 1 do not have it.
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
    format: Literal[1, 2] = FORMAT
