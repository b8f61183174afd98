"""``flcert report``: redraw a run's figures and page."""

from pathlib import Path
from typing import Annotated

import typer

from flcert.cli.options import look_for_modules_in, refuse_foreign_code


def report(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    modules: Annotated[
        Path | None, typer.Option(help="Directory of your own modules, if a certificate is yours.")
    ] = None,
) -> None:
    """Redraw the figures and rewrite report.html from what the run directory holds.

    Example: `flcert report runs/first`
    """
    from flcert.report.page import write_report
    from flcert.runs.directory import RunDirectory

    refuse_foreign_code(run, modules)
    look_for_modules_in(*([modules] if modules else []))
    typer.echo(write_report(RunDirectory.open(run)))
