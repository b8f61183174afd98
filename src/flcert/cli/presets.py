"""``flcert presets``: the paper's settings."""

from typing import Annotated

import typer

from flcert import presets as library

presets = typer.Typer(no_args_is_help=True, help="Show the settings of the paper's experiments.")


@presets.command("list")
def list_() -> None:
    """Print the names of all presets.

    Example: `flcert presets list`
    """
    for name in library.names():
        typer.echo(f"{name:<14} {library.text(name).splitlines()[0].removeprefix('# ')}")


@presets.command()
def show(name: Annotated[str, typer.Argument(help="A preset's name.")]) -> None:
    """Print a preset, which is a configuration that `flcert run` can read.

    Example: `flcert presets show mnist-0.1`
    """
    typer.echo(library.text(name), nl=False)
