"""``flcert reproduce``: the paper's figures."""

import json
import shlex
from collections.abc import Mapping
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
    groups: Annotated[
        list[int] | None, typer.Option(help="Number of groups N (groups, base-algorithms, empirical); repeatable.")
    ] = None,
    malicious: Annotated[
        list[int] | None, typer.Option(help="Number of malicious clients m (empirical, cost); repeatable.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="Number of pairs of seeds (seeds); the paper used 50.", show_default="5")
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(
            help="Share of the clients in a round of the single global model (comparison, empirical, cost, "
            "convergence).",
            show_default="0.1",
        ),
    ] = None,
    copies: Annotated[
        int | None,
        typer.Option(help="Number of noisy copies of CRFL's model that vote (comparison).", show_default="1000"),
    ] = None,
    single_rounds: Annotated[
        int | None,
        typer.Option(help="Rounds T of the single global model (cost, convergence).", show_default="five times T_e"),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory for all figures.")] = Path("results"),
    engine: EngineName = "processes",
    workers: NumWorkers = None,
    scheduler: Scheduler = None,
    timeout: Timeout = None,
    cache: Cache = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a figure of the paper: a table (CSV), a picture (PNG and SVG), and a section of report.html.

    Groups in the store are not trained again, so repeating a stopped command resumes it.

    Example: `flcert reproduce groups --preset digits --scale 0.2`
    """
    from flcert.cli.render import output
    from flcert.core.store import Store
    from flcert.engines import build
    from flcert.experiments import experiment
    from flcert.experiments.lab import check_config
    from flcert.experiments.options import checked
    from flcert.experiments.reproduce import Request
    from flcert.experiments.reproduce import reproduce as make
    from flcert.pipeline.run import federation_of
    from flcert.runs.config import load_config

    given = {
        "groups": groups or None,
        "malicious": malicious or None,
        "repeats": repeats,
        "beta": beta,
        "copies": copies,
        "single_rounds": single_rounds,
    }
    options = checked(name, experiment(name).uses, **given)
    where = build(engine, workers, scheduler=scheduler, timeout=timeout)
    chosen = preset or list(experiment(name).presets)
    settings = {one: load_config(overrides=set_ or [], preset=one, scale=scale) for one in chosen}
    for config in settings.values():  # report what is wrong or missing before anything is trained
        check_config(config)
        if len(settings) > 1:
            federation_of(config)
    for one, config in settings.items():
        label = one if scale == 1 else f"{one}-scale-{scale:g}"
        request = Request(name, config, label, options, _command(name, one, scale, set_ or [], given))
        with progress_bars(quiet) as bars:
            made = make(request, out, engine=where, store=Store(cache), progress=bars, announce=bars.announce)
        if json_:
            typer.echo(json.dumps(_as_json(made)))
        else:
            output().print(_sentence(made), soft_wrap=True)


def _command(name: str, preset: str, scale: float, settings: list[str], given: Mapping[str, object]) -> str:
    """The command that makes a figure, without the options for where to train and write."""
    words = ["flcert", "reproduce", name, "--preset", preset]
    if scale != 1:
        words += ["--scale", f"{scale:g}"]
    for setting in settings:
        words += ["--set", setting]
    for option, value in given.items():
        for one in value if isinstance(value, list) else [value] if value is not None else []:
            words += [f"--{option.replace('_', '-')}", str(one)]
    return shlex.join(words)


def _as_json(made: "Reproduction") -> dict[str, object]:
    return {
        "table": str(made.table),
        "pictures": [str(made.table.with_suffix(form)) for form in (".png", ".svg")],
        "report": str(made.page),
        "groups": {"trained": made.trained, "reused": made.reused, "failed": list(made.failed)},
        "note": made.outcome.note,
        "rows": [dict(zip(made.outcome.header, row, strict=True)) for row in made.outcome.rows],
    }


def _sentence(made: "Reproduction") -> str:
    failed = "".join(f"{one}\n" for one in made.failed)
    return (
        f"{made.table.stem}: {made.trained:,} groups trained, {made.reused:,} reused from the store\n{failed}"
        f"table: {made.table}\npicture: {made.table.with_suffix('.png')} and .svg\nreport: {made.page}"
    )
