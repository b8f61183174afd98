"""``flcert run``: train, vote and certify."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from flcert.cli.options import (
    CERTIFICATES,
    GROUPINGS,
    Cache,
    ConfigFile,
    EngineName,
    Json,
    NumWorkers,
    Overrides,
    Preset,
    Quiet,
    Scale,
    Scheduler,
    Timeout,
    look_for_modules_in,
    progress_bars,
)
from flcert.errors import InputError

if TYPE_CHECKING:
    from flcert.pipeline.run import RunResult
    from flcert.runs.config import Config
    from flcert.training import Ensemble


def run(
    config: ConfigFile = None,
    preset: Preset = None,
    scale: Scale = 1.0,
    set_: Overrides = None,
    clients: Annotated[int | None, typer.Option(help="Number of clients n (data.options.num_clients).")] = None,
    grouping: Annotated[str | None, typer.Option(help=f"Kind of groups: {GROUPINGS} (grouping.kind).")] = None,
    groups: Annotated[int | None, typer.Option(help="Number of groups N (grouping.num_groups).")] = None,
    group_size: Annotated[int | None, typer.Option(help="Clients per group, k (grouping.group_size).")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of training T_e (recipe.rounds).")] = None,
    alpha: Annotated[float | None, typer.Option(help="Failure probability, for groups drawn at random.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="One model instead of groups: single (global model) or crfl.")
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(help=f"One more certificate of the same models: {CERTIFICATES}; repeatable (certificate.also)."),
    ] = None,
    attack: Annotated[str | None, typer.Option(help="Simulate an attack as well (attack.name).")] = None,
    malicious: Annotated[int | None, typer.Option(help="Malicious clients in that attack (attack.malicious).")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed for training (recipe.seed).")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run directory.", show_default="runs/<data>-<digest>")
    ] = None,
    engine: EngineName = "processes",
    workers: NumWorkers = None,
    scheduler: Scheduler = None,
    timeout: Timeout = None,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Only check and write the configuration, for `flcert train-group`.")
    ] = False,
    cache: Cache = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train every group, let the models vote, and certify the test set.

    Finished groups are kept in the store, so repeating a stopped command resumes it.

    Example: `flcert run --groups 40 --rounds 30 --out runs/first`
    """
    from flcert.core.store import Store
    from flcert.engines import build
    from flcert.pipeline.baselines import baseline as baseline_of
    from flcert.pipeline.run import run as make
    from flcert.runs.config import load_config

    shortcuts = {
        "data.options.num_clients": clients,
        "grouping.kind": grouping,
        "grouping.num_groups": groups,
        "grouping.group_size": group_size,
        "recipe.rounds": rounds,
        "recipe.seed": seed,
        "certificate.alpha": alpha,
        "attack.name": attack,
        "attack.malicious": malicious,
        "certificate.also": json.dumps(also) if also else None,
    }
    given = [f"{key}={value}" for key, value in shortcuts.items() if value is not None]
    look_for_modules_in(config.parent if config else Path(), Path())
    settings = load_config(config, [*(set_ or []), *given], preset=preset, scale=scale)
    if baseline is not None:
        settings = baseline_of(baseline, settings)
        if grouping or groups or group_size:
            raise InputError("--baseline trains one model of all clients; leave out --grouping, --groups, --group-size")
    if prepare:
        _prepare(settings, out, as_json=json_)
        return
    where = build(engine, workers, scheduler=scheduler, timeout=timeout)
    with progress_bars(quiet) as progress:
        result = make(settings, out, engine=where, store=Store(cache), progress=progress)
    _warn(result.ensemble)
    _print(result, as_json=json_)


def _prepare(settings: "Config", out: Path | None, *, as_json: bool) -> None:
    from flcert.cli.render import output
    from flcert.pipeline.run import prepare

    directory, grouping = prepare(settings, out)
    if as_json:
        typer.echo(json.dumps({"directory": str(directory.path), "groups": len(grouping)}))
        return
    output().print(f"{len(grouping):,} groups, numbered from 0 to {len(grouping) - 1}", soft_wrap=True)
    output().print(f"run directory: {directory.path}", soft_wrap=True)


def _warn(ensemble: "Ensemble") -> None:
    from flcert.cli.render import warn
    from flcert.core.determinism import kernels
    from flcert.core.store import UNKNOWN

    for group, reason in ensemble.failures.items():
        warn(f"group {group} casts no vote and counts as one for the strongest rival: {reason}")
    if ensemble.diverged:
        warn(f"{len(ensemble.diverged)} models are not finite and vote for label 0; is the learning rate too high?")
    if set(ensemble.kernels) - {kernels(), UNKNOWN}:
        kinds = ", ".join(f"{number:,} on {kind}" for kind, number in ensemble.kernels.items())
        warn(f"groups were trained on other kinds of kernels than this machine's, {kernels()}: {kinds}")


def _print(result: "RunResult", *, as_json: bool) -> None:
    from flcert.cli.render import attack_sentence, curve_table, groups_sentence, output
    from flcert.report.points import also_curves, excluded_sentence, overlap_sentence, proof_sentence, public_sentence

    ensemble = result.ensemble
    if as_json:
        counts = {"trained": ensemble.trained, "reused": ensemble.reused, "damaged": ensemble.damaged}
        if result.attacked:
            counts["trained_under_attack"] = result.attacked.trained
        typer.echo(
            json.dumps(
                {
                    "directory": str(result.directory),
                    "groups": counts,
                    "meaning": result.guarantee.meaning,
                    **result.summary.told(),
                }
            )
        )
        return
    summary = result.summary
    console, curve, inputs = output(), np.array(summary.certified_accuracy), summary.inputs
    console.print(f"{groups_sentence(ensemble)}\n")
    also = also_curves(summary)
    console.print(curve_table(curve, inputs, summary.accuracy, "certified accuracy", also))
    console.print(f"\n{proof_sentence(result.guarantee, curve, inputs, right=True)}")
    if summary.excluded:
        console.print(excluded_sentence(summary.excluded))
    if result.guarantee.trusted:
        console.print(result.guarantee.about_trusted)
    if summary.public:
        console.print(public_sentence(summary.public, inputs))
    if result.overlap:
        console.print(overlap_sentence(result.overlap))
    if result.attacked and summary.attack:
        console.print(f"\n{attack_sentence(summary.attack, result.attacked.trained, result.guarantee)}")
    console.print(f"\nrun directory: {result.directory}\nreport: {result.directory / 'report.html'}", soft_wrap=True)
