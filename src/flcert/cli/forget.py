"""``flcert forget``: exact unlearning."""

import json
from pathlib import Path
from typing import Annotated

import typer

from flcert.cli.options import (
    Cache,
    EngineName,
    Json,
    NumWorkers,
    Quiet,
    Scheduler,
    Timeout,
    look_for_modules_in,
    progress_bars,
)


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
    """Turn a run into what it would have been without some clients' data, byte for byte; everybody keeps their group.

    Only the groups that held them are trained again. Votes, certificate and report are updated, and everything in the
    store that was made from their data, as they are now, is deleted.

    Example: `flcert forget runs/first client-0003 client-0117`
    """
    from flcert.cli.render import output, warn
    from flcert.core.store import Store
    from flcert.engines import build
    from flcert.pipeline.forget import forget as make

    look_for_modules_in(modules)
    where = build(engine, workers, scheduler=scheduler, timeout=timeout)
    with progress_bars(quiet) as progress:
        done = make(run, clients, engine=where, store=Store(cache), progress=progress)
    ensemble = done.result.ensemble
    if json_:
        counts = {"held": done.groups, "trained": ensemble.trained, "reused": ensemble.reused, "deleted": done.deleted}
        counts |= {"of_unknown_origin": done.unknown, "of_other_data": done.other_data}
        typer.echo(json.dumps({"directory": str(run), "groups": counts, **done.result.summary.told()}))
        return
    groups = (
        f"{done.groups:,} groups had held them: {ensemble.trained:,} trained, {ensemble.reused:,} reused from the store"
    )
    deleted = f"{done.deleted:,} entries made from their data deleted from the store"
    if done.unknown:
        warn(
            f"{done.unknown:,} entries of the store do not say what they were made from, because an older version of "
            "flcert wrote them; `flcert store prune --days 0` deletes all that is there"
        )
    if done.other_data:
        warn(
            f"{done.other_data:,} entries in the store were made from other data of clients with these ids, which may "
            "be older data of the same clients or belong to another data set; `flcert store prune --days 0` deletes "
            "all that is there"
        )
    if done.unfinished:
        warn(
            f"{done.unfinished:,} temporary files in the store belong to commands that may still run, here or on "
            "another machine, and may hold models; forget again when those have ended"
        )
    output().print(f"{groups}; {deleted}\nrun directory: {run}", soft_wrap=True)
