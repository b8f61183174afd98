"""Options that several commands share, and their progress bars."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from flcert.certify import KINDS as CERTIFICATE_KINDS
from flcert.errors import InputError
from flcert.grouping import KINDS as GROUPING_KINDS


def listed(titles: Mapping[str, str]) -> str:
    """Names with their meanings, for a help text.

    >>> listed({"a": "first", "b": "second"})
    'a (first), b (second)'
    """
    return ", ".join(f"{name} ({title})" for name, title in titles.items())


CERTIFICATES = f"{listed({name: kind.title for name, kind in CERTIFICATE_KINDS.items()})}, or an import path"
GROUPINGS = f"{listed({name: kind.title for name, kind in GROUPING_KINDS.items()})}, or an import path"

ConfigFile = Annotated[Path | None, typer.Argument(help="A TOML or JSON file.", show_default="scikit-learn's digits")]
Preset = Annotated[str | None, typer.Option(help="The paper's settings; see `flcert presets list`.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="KEY=VALUE", help="Change a setting, e.g. recipe.rounds=50; repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Scale = Annotated[
    float,
    typer.Option(
        help="Fraction of the preset, in (0, 1]: scales clients, groups and training examples; its root scales rounds."
    ),
]
EngineName = Annotated[
    str, typer.Option("--engine", help="Where groups train and models vote: processes, inline or dask.")
]
NumWorkers = Annotated[
    int | None, typer.Option("--workers", help="Worker processes to start.", show_default="one for each core")
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="Address of a Dask cluster, e.g. tcp://host:8786.", show_default="a local cluster"),
]
Timeout = Annotated[
    float | None,
    typer.Option(help="Seconds to wait for the Dask scheduler and its workers.", show_default="30"),
]
OwnModules = Annotated[
    Path | None, typer.Option("--modules", help="Directory of your own modules, if a certificate is yours.")
]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", help="Directory of the store of trained groups.", show_default="the platform's cache"),
]

EXIT_INTERRUPTED = 130

FIGURES = "figures"

STAGES = {
    "train": "training groups",
    "votes": "voting",
    "ranks": "ranking labels",
    "attacked train": "attacked groups",
    "attacked votes": "their votes",
}


def refuse_foreign_code(run: Path, modules: Path | None) -> None:
    """Refuse to import code that a run directory names, unless the user says where it is.

    Args:
        run: the run directory, which somebody else may have made.
        modules: the directory of the user's own modules, if given.
    """
    from flcert.core.files import read_json

    named = {"manifest.json": "guarantee", "config.json": "grouping"}
    for file, table in named.items():
        values = read_json(run / file) if (run / file).exists() else {}
        kind = (values.get(table) or {}).get("kind", "") if isinstance(values, dict) else ""
        if modules is None and isinstance(kind, str) and ":" in kind:
            raise InputError(f"{run / file} names code of its author's ({kind}); to run it, say where it is: --modules")


def look_for_modules_in(*places: Path) -> None:
    """Look for users' own modules in these directories first."""
    sys.path[:0] = [str(place.resolve()) for place in places]


KEPT = "what was finished is kept, and the same command goes on from there"


@contextmanager
def progress_bars(quiet: bool, stopped: str = KEPT) -> Iterator["ProgressBars"]:
    """Show a bar for each stage on standard error; Ctrl-C ends the command and says how to resume.

    Args:
        quiet: show none.
        stopped: what Ctrl-C leaves behind.
    """
    bars = ProgressBars(quiet)
    try:
        yield bars
    except KeyboardInterrupt:
        bars.stop()
        typer.echo(f"stopped; {stopped}", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        bars.stop()


class ProgressBars:
    """Moves the bar of a stage; a stage gets its bar when it first reports."""

    def __init__(self, quiet: bool) -> None:
        columns = (
            TextColumn("{task.description:<16}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._bars = Progress(*columns, console=Console(stderr=True), disable=quiet)
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` are done."""
        self._bars.start()
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(STAGES.get(stage, stage))
        self._bars.update(self._tasks[stage], completed=done, total=total)

    def announce(self, what: str) -> None:
        """Print what comes next above the bars, and reset the bars, except that of whole figures."""
        self._bars.start()
        if not self._bars.disable:
            self._bars.console.print(what, style="bold")
        for stage, task in self._tasks.items():
            if stage != FIGURES:
                self._bars.reset(task)

    def stop(self) -> None:
        """Stop the bars, and leave them on the screen."""
        if self._tasks:
            self._bars.stop()
