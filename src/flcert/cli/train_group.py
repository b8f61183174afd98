"""``flcert train-group``: train some groups of a run, for schedulers that start commands."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flcert.cli.options import Cache, Json, Quiet, look_for_modules_in, progress_bars
from flcert.errors import InputError, RunError, check_range
from flcert.grouping import MAX_GROUPS

if TYPE_CHECKING:
    from flcert.training import Ensemble


def train_group(
    run: Annotated[Path, typer.Option(help="Run directory, made by `flcert run --prepare`.")],
    group: Annotated[list[str], typer.Option(help="Number of a group, or a range such as 0-9; repeatable.")],
    modules: Annotated[
        Path, typer.Option(help="Directory of your own modules, if the configuration names any.")
    ] = Path(),
    cache: Cache = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train one or more groups of a run into the store.

    For job arrays on machines that share a disk: start one job per group, then `flcert run` with the same configuration
    and store, which finds the trained groups.

    Example: `flcert train-group --run runs/first --group 3`
    """
    from flcert.cli.render import output
    from flcert.core.store import Store
    from flcert.pipeline.run import train_some

    look_for_modules_in(modules)
    groups = sorted({number for text in group for number in _numbers(text)})
    with progress_bars(quiet) as progress:
        trained = train_some(run, groups, store=Store(cache), progress=progress)
    _refuse_failures(trained)
    counts = {"trained": sum(one.trained for one in trained), "reused": sum(one.reused for one in trained)}
    if json_:
        typer.echo(json.dumps({"groups": counts}))
    else:
        output().print(f"{counts['trained']:,} trained, {counts['reused']:,} reused from the store")


def _numbers(text: str) -> range:
    """The numbers that ``3`` or ``0-9`` stands for."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip(), flags=re.ASCII)
    if not match:
        raise InputError(f"group must be a number or a range such as 0-9, got {text!r}")
    first, last = int(match[1]), int(match[2] or match[1])
    check_range("group", last, 0, MAX_GROUPS - 1)
    if last < first:
        raise InputError(f"a range of groups must not go backwards, got {text!r}")
    return range(first, last + 1)


def _refuse_failures(trained: "list[Ensemble]") -> None:
    for ensemble in trained:
        for group, reason in ensemble.failures.items():
            raise RunError(f"group {group} could not be trained: {reason}")
