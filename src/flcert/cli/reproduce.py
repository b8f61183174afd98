"""``flcert reproduce``: the paper's figures."""

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
    progress_bars,
)

if TYPE_CHECKING:
    from flcert.experiments.reproduce import Reproduction


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="comparison, groups, backdoor, seeds, base-algorithms, empirical, cost or convergence.",
        ),
    ],
    preset: Annotated[
        list[str] | None,
        typer.Option(help="The setting; repeatable. See `flcert presets list`.", show_default="the paper's"),
    ] = None,
    scale: Scale = 1.0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Change a setting of the preset; repeatable."),
    ] = None,
    groups: Annotated[list[int] | None, typer.Option(help="Numbers of groups N; repeatable.")] = None,
    malicious: Annotated[
        list[int] | None, typer.Option(help="Numbers of malicious clients m (empirical, cost); repeatable.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Pairs of seeds (seeds); the paper had 50.")] = 5,
    beta: Annotated[float, typer.Option(help="Share of the clients in a round of the single global model.")] = 0.1,
    copies: Annotated[int, typer.Option(help="Noisy copies of CRFL's model that vote (comparison).")] = 1000,
    single_rounds: Annotated[
        int | None,
        typer.Option(help="Rounds T of the single global model (cost, convergence).", show_default="five times T_e"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory of all figures.")] = Path("results"),
    engine: EngineName = "processes",
    workers: NumWorkers = None,
    scheduler: Scheduler = None,
    timeout: Timeout = None,
    cache: Cache = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a figure of the paper: a table (CSV), a picture (PNG and SVG), and a section of report.html.

    Groups that are in the store are not trained again; the same command goes on where a stopped one was.

    Example: `flcert reproduce groups --preset digits --scale 0.2`
    """
    from flcert.cli.render import output
    from flcert.config import load_config
    from flcert.engines import build
    from flcert.experiments import experiment
    from flcert.experiments.options import checked
    from flcert.experiments.reproduce import reproduce as make
    from flcert.store import Store

    options = checked(
        groups=groups or (),
        malicious=malicious or (),
        repeats=repeats,
        beta=beta,
        copies=copies,
        single_rounds=single_rounds,
    )
    where = build(engine, workers, scheduler=scheduler, timeout=timeout)
    chosen = preset or list(experiment(name).presets)
    settings = {one: load_config(overrides=set_ or [], preset=one, scale=scale) for one in chosen}
    for one, config in settings.items():
        with progress_bars(quiet) as bars:
            made = make(
                name,
                config,
                out,
                label=one if scale == 1 else f"{one}-scale-{scale:g}",
                options=options,
                engine=where,
                store=Store(cache),
                progress=bars,
                announce=bars.announce,
            )
        if json_:
            typer.echo(json.dumps(_as_json(made)))
        else:
            output().print(_sentence(made), soft_wrap=True)


def _as_json(made: "Reproduction") -> dict[str, object]:
    return {
        "table": str(made.table),
        "report": str(made.page),
        "groups": {"trained": made.trained, "reused": made.reused, "failed": list(made.failed)},
        "rows": [dict(zip(made.outcome.header, row, strict=True)) for row in made.outcome.rows],
    }


def _sentence(made: "Reproduction") -> str:
    failed = "".join(f"{one}\n" for one in made.failed)
    return (
        f"{made.table.stem}: {made.trained:,} groups trained, {made.reused:,} reused from the store\n{failed}"
        f"table: {made.table}\npicture: {made.table.with_suffix('.png')}\nreport: {made.page}"
    )
