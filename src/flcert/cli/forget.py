"""``flcert forget``: exact unlearning."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from flcert.cli.options import Cache, EngineName, Json, NumWorkers, Quiet, Scheduler, Timeout, progress_bars


def forget(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    clients: Annotated[list[str], typer.Argument(help="Ids of the clients to forget.")],
    modules: Annotated[Path, typer.Option(help="Directory of your own modules, if the run uses any.")] = Path(),
    engine: EngineName = "processes",
    workers: NumWorkers = None,
    scheduler: Scheduler = None,
    timeout: Timeout = None,
    cache: Cache = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a run what it would have been without some clients, byte for byte.

    Only the groups that held them are trained again. Votes, certificate and report are updated, and what this
    run had put into the store of those groups is deleted.

    Example: `flcert forget runs/first client-0003 client-0117`
    """
    from flcert.cli.render import output
    from flcert.engines import build
    from flcert.forgetting import forget as make
    from flcert.store import Store

    sys.path.insert(0, str(modules.resolve()))
    where = build(engine, workers, scheduler=scheduler, timeout=timeout)
    with progress_bars(quiet) as progress:
        done = make(run, clients, engine=where, store=Store(cache), progress=progress)
    ensemble = done.result.ensemble
    if json_:
        counts = {"held": done.groups, "trained": ensemble.trained, "reused": ensemble.reused, "deleted": done.deleted}
        typer.echo(json.dumps({"directory": str(run), "groups": counts, **done.result.summary}))
        return
    groups = (
        f"{done.groups:,} groups had held them: {ensemble.trained:,} trained, {ensemble.reused:,} reused from the store"
    )
    deleted = f"{done.deleted:,} files of models and votes deleted from the store"
    output().print(f"{groups}; {deleted}\nrun directory: {run}", soft_wrap=True)
