"""``flcert store``: what the store of trained groups holds, and how to free space."""

import json
from typing import Annotated

import typer

from flcert.cli.options import Cache, Json

store = typer.Typer(no_args_is_help=True, help="Show the store of trained groups, and free space in it.")


@store.command()
def info(cache: Cache = None, json_: Json = False) -> None:
    """Print where the store is and how much it holds.

    Example: `flcert store info`
    """
    from flcert.core.store import Store

    opened = Store(cache)
    sizes = [entry.lstat().st_size for entry in opened.entries()]
    if json_:
        typer.echo(json.dumps({"directory": str(opened.directory), "files": len(sizes), "bytes": sum(sizes)}))
    else:
        typer.echo(f"{opened.directory}: {len(sizes):,} files, {sum(sizes) / 1e6:,.1f} MB")


@store.command()
def prune(
    days: Annotated[float, typer.Option(min=0, help="Delete what has not been used for this many days.")] = 30,
    cache: Cache = None,
) -> None:
    """Delete stored models and votes that have not been used lately, and temporary files of commands that were killed.

    Run directories keep their own models and votes.

    Example: `flcert store prune --days 7`
    """
    from flcert.core.store import Store

    opened = Store(cache)
    files, freed = opened.prune(days)
    left = opened.remove_leftovers()
    typer.echo(f"deleted {files:,} files, freed {freed / 1e6:,.1f} MB")
    if left:
        typer.echo(f"deleted {left:,} temporary files of commands that were killed")
