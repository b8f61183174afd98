"""``flcert report``: draw a run's figures and page again."""

from pathlib import Path
from typing import Annotated

import typer


def report(run: Annotated[Path, typer.Argument(help="A run directory.")]) -> None:
    """Draw the figures and write report.html again from what the run directory holds.

    Example: `flcert report runs/first`
    """
    from flcert.report.page import write_report
    from flcert.rundir import RunDirectory

    typer.echo(write_report(RunDirectory.open(run)))
