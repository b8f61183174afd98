"""``flcert sweep``: run all combinations of some settings, and compare them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flcert.cli.options import (
    Cache,
    EngineName,
    Json,
    NumWorkers,
    Quiet,
    Scale,
    Scheduler,
    Timeout,
    look_for_modules_in,
    progress_bars,
)
from flcert.errors import InputError, RunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flcert.pipeline.sweep import Swept
    from flcert.runs.config import Config


def sweep(
    config: Annotated[
        Path | None, typer.Argument(help="A TOML or JSON file.", show_default="scikit-learn's digits")
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary", metavar="KEY=VALUE,...", help="A setting and its values, e.g. recipe.rounds=10,20; repeatable."
        ),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="The paper's settings; see `flcert presets list`.")] = None,
    scale: Scale = 1.0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Change a setting of all runs; repeatable."),
    ] = None,
    repeats: Annotated[int, typer.Option(help="Runs with different seeds for each combination.")] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Directory of the sweep.", show_default="runs/sweep-<digest>")
    ] = None,
    engine: EngineName = "processes",
    workers: NumWorkers = None,
    scheduler: Scheduler = None,
    timeout: Timeout = None,
    cache: Cache = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run every combination of the varied settings, and put the runs side by side.

    All combinations are checked before anything trains. Each is an ordinary run directory in that of the sweep.
    Finished groups are kept in the store, so repeating a stopped command resumes it.

    Example: `flcert sweep config.toml --vary grouping.num_groups=20,50 --vary recipe.aggregator=fedavg,median`
    """
    from flcert.cli.render import warn
    from flcert.core.store import Store
    from flcert.engines import build
    from flcert.pipeline.sweep import combined, default_directory, variation
    from flcert.pipeline.sweep import sweep as make
    from flcert.runs.config import load_config

    varied, fixed = [variation(text) for text in vary or []], set_ or []
    for one in varied:
        if one.key in [text.partition("=")[0].strip() for text in fixed]:
            raise InputError(f"{one.key} is both varied and set; leave out --set {one.key}")
    look_for_modules_in(config.parent if config else Path(), Path())

    def load(changes: "Sequence[str]") -> "Config":
        return load_config(config, [*fixed, *changes], preset=preset, scale=scale)

    combinations = combined(load, varied, repeats)
    where = build(engine, workers, scheduler=scheduler, timeout=timeout)
    directory = out or default_directory(combinations, varied)
    with progress_bars(quiet) as bars:
        swept = make(combinations, directory, engine=where, store=Store(cache), progress=bars, announce=bars.announce)
    for name, reason in swept.failed.items():
        warn(f"{name} failed: {reason}")
    _print(swept, as_json=json_)
    if swept.failed:
        raise RunError(f"{len(swept.failed):,} of {len(combinations):,} runs failed; the same command tries them again")


def _print(swept: "Swept", *, as_json: bool) -> None:
    from flcert.cli.compare import print_comparison
    from flcert.cli.render import output

    groups = swept.groups()
    told = {"directory": str(swept.directory), "groups": groups, "failed": swept.failed}
    if not as_json:
        output().print(f"{groups['trained']:,} groups trained, {groups['reused']:,} reused from the store\n")
    if swept.comparison is not None:
        print_comparison(swept.comparison, swept.files, told, as_json=as_json)
    elif as_json:
        typer.echo(json.dumps(told))
