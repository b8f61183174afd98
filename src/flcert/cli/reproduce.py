"""``flcert reproduce``: the paper's figures."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flcert.cli.options import (
    FIGURES,
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
from flcert.errors import RunError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flcert.experiments.reproduce import Refused, Reproduction, Request, Site

ALL = "all"


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="comparison, groups, backdoor, seeds, base-algorithms, empirical, cost, convergence, or all.",
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
    """Make figures of the paper: for each a table (CSV), a picture (PNG, SVG, PDF), and a section of report.html.

    - `comparison`: certified accuracy of FLCert beside the single global model and CRFL
    - `groups`: the impact of the number of groups N
    - `backdoor`: what is proved on inputs with a trigger
    - `seeds`: the impact of the seeds of grouping and training
    - `base-algorithms`: FedAvg, Krum, trimmed mean, median and FLTrust inside the groups
    - `empirical`: test accuracy and attack success rate under known attacks
    - `cost`: certified accuracy against the rounds of training
    - `convergence`: accuracy by round of a group's model and of the single global model
    - `all`: all eight; if a setting cannot do one of them, the others are made, and the exit code is 1

    Groups in the store are not trained again, so repeating a stopped command resumes it.

    Example: `flcert reproduce groups --preset digits --scale 0.2`

    Example: `flcert reproduce all --preset mnist-0.5-public`
    """
    from flcert.core.store import Store
    from flcert.engines import build
    from flcert.experiments import EXPERIMENTS, IN_ORDER, experiment
    from flcert.experiments.options import checked
    from flcert.experiments.reproduce import Refused, Request, Site, label_of
    from flcert.runs.config import load_config

    given = {
        "groups": groups or None,
        "malicious": malicious or None,
        "repeats": repeats,
        "beta": beta,
        "copies": copies,
        "single_rounds": single_rounds,
    }
    if name not in (ALL, *EXPERIMENTS):
        raise unknown_name("experiment", name, (ALL, *EXPERIMENTS))
    chosen = {one: experiment(one) for one in (IN_ORDER if name == ALL else [name])}
    options = checked(name, [option for one in chosen.values() for option in one.uses], **given)
    presets = preset or list(dict.fromkeys(own for one in chosen.values() for own in one.presets))
    settings = {one: load_config(overrides=set_ or [], preset=one, scale=scale) for one in presets}
    requests = []
    for one, (figure, about) in product(settings, chosen.items()):
        if preset or one in about.presets:
            used = {option: value for option, value in given.items() if option in about.uses}
            command = _command(figure, one, scale, set_ or [], used)
            requests.append(Request(figure, settings[one], label_of(one, scale), options, command))
    site = Site(out, build(engine, workers, scheduler=scheduler, timeout=timeout), Store(cache))
    made: list[Reproduction | Refused] = []
    try:
        _make(requests, site, made, quiet)
    finally:  # the bars are gone by now, and what was made is told even if the command was stopped
        _tell(made, as_json=json_)
    if refused := [result.figure for result in made if isinstance(result, Refused)]:
        raise RunError(f"{len(refused)} of {len(requests)} figures could not be made: {', '.join(refused)}")


def _make(requests: "Sequence[Request]", site: "Site", made: "list[Reproduction | Refused]", quiet: bool) -> None:
    """Make figures, with one display of progress for all of them, and add each to a list as soon as it is made."""
    from flcert.experiments.reproduce import reproduce as make
    from flcert.experiments.reproduce import reproduce_all

    with progress_bars(quiet) as bars:
        if len(requests) == 1:
            made.append(make(requests[0], replace(site, progress=bars, announce=bars.announce)))
            return

        def announce(what: str) -> None:
            bars.announce(f"figure {len(made) + 1} of {len(requests)}, {requests[len(made)].stem}: {what}")

        bars(FIGURES, 0, len(requests))
        for one in reproduce_all(requests, replace(site, progress=bars, announce=announce)):
            made.append(one)
            bars(FIGURES, len(made), len(requests))


def _tell(made: "Sequence[Reproduction | Refused]", *, as_json: bool) -> None:
    """Print what was made, and what could not be made and why."""
    from flcert.cli.render import output, warn
    from flcert.experiments.reproduce import Refused

    page = None
    for one in made:
        if as_json:
            typer.echo(json.dumps(asdict(one) if isinstance(one, Refused) else _as_json(one)))
        elif isinstance(one, Refused):
            warn(f"{one.figure} cannot be made: {one.reason}")
        else:
            output().print(_sentence(one), soft_wrap=True)
            page = one.page
    if page:
        output().print(f"report: {page}", soft_wrap=True)


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
        "figure": made.table.stem,
        "table": str(made.table),
        "pictures": [str(made.table.with_suffix(form)) for form in (".png", ".svg", ".pdf")],
        "report": str(made.page),
        "groups": {"trained": made.trained, "reused": made.reused, "failed": list(made.failed)},
        "note": made.outcome.note,
        "rows": [dict(zip(made.outcome.header, row, strict=True)) for row in made.outcome.rows],
    }


def _sentence(made: "Reproduction") -> str:
    failed = "".join(f"{one}\n" for one in made.failed)
    return (
        f"{made.table.stem}: {made.trained:,} groups trained, {made.reused:,} reused from the store\n{failed}"
        f"table: {made.table}\npicture: {made.table.with_suffix('.png')}, .svg and .pdf"
    )
