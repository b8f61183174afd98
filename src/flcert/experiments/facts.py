"""The JSON file beside a figure: everything needed to make it again."""

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
        options: the experiment's options.
        config: the setting.
        versions: versions of the packages that computed it.
        command: the command that makes it.
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
    format: Literal[1, 2] = FORMAT
