"""``flcert plan``: cost and largest certifiable level, before anything is trained."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flcert.cli.options import Json, Scale
from flcert.errors import InputError

if TYPE_CHECKING:
    from flcert.certify import CertificateSettings
    from flcert.core.settings import Choice
    from flcert.pipeline.plan import Plan, Setting
    from flcert.training import Recipe

SINGLE = "single global model"
TRAFFIC = ("its traffic, both ways", "sent in a round", "stored by the server")  # rows that need a model
LEAST_TOLD = 0.05  # the average number of empty groups that is worth a sentence


def plan(
    clients: Annotated[int | None, typer.Option(help="Number of clients n.")] = None,
    groups: Annotated[int | None, typer.Option(help="Number of groups N.")] = None,
    group_size: Annotated[int | None, typer.Option(help="Clients per group, k (FLCert-P).", show_default="n/N")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of training T_e.", show_default="200")] = None,
    participation: Annotated[
        float | None, typer.Option(help="Share beta_e of a group's clients in a round.", show_default="1.0")
    ] = None,
    parameters: Annotated[
        int | None, typer.Option(help="Number of model parameters, for the traffic.", show_default="the preset's")
    ] = None,
    groups_per_client: Annotated[
        int | None, typer.Option(help="Also plan groups where each client serves this many (finite aggregation).")
    ] = None,
    inputs: Annotated[int, typer.Option(help="Test inputs D that share alpha; not part of a preset.")] = 10_000,
    alpha: Annotated[float, typer.Option(help="Failure probability, for groups drawn at random.")] = 0.001,
    selection: Annotated[str, typer.Option(help="safe, or paper for Algorithm 1 to the letter.")] = "safe",
    preset: Annotated[str | None, typer.Option(help="Take n, N, T_e, beta_e and the model from a preset.")] = None,
    scale: Scale = 1.0,
    run: Annotated[
        Path | None, typer.Option(help="Show instead what trusted votes would change in this finished run.")
    ] = None,
    beta: Annotated[float, typer.Option(help="Share of the clients in a round of the single global model.")] = 0.1,
    single_rounds: Annotated[
        int | None, typer.Option(help="Rounds T of the single global model.", show_default="five times T_e")
    ] = None,
    json_: Json = False,
) -> None:
    """Show the cost for a client and the most that can be certified, for each kind of grouping and a single model.

    Example: `flcert plan --clients 1000 --groups 500 --rounds 200 --parameters 139960`

    Example: `flcert plan --preset har --groups 500 --group-size 2`

    Example: `flcert plan --run runs/first`
    """
    if run is not None:
        _print_trade(run, as_json=json_)
        return
    from flcert.certify import CertificateSettings
    from flcert.cli.render import output
    from flcert.core.settings import validated
    from flcert.pipeline.plan import obstacles, plan_single, plans

    given = {
        "num_clients": clients,
        "num_groups": groups,
        "group_size": group_size,
        "rounds": rounds,
        "participation": participation,
        "num_parameters": parameters,
    }
    if scale != 1 and preset is None:
        raise InputError(f"--scale goes with a --preset, got {scale} without one")
    chosen, lacking = _of_preset(preset, scale) if preset else ({"rounds": 200}, "")
    chosen |= {name: value for name, value in given.items() if value is not None}
    chosen |= {"groups_per_client": groups_per_client, "num_inputs": inputs}
    certificate = validated(CertificateSettings, {"alpha": alpha, "selection": selection})
    setting = _setting(chosen, certificate)
    found = plans(setting)
    single = single_rounds if single_rounds is not None else 5 * setting.rounds
    found[SINGLE] = plan_single(setting, single, beta)
    if json_:
        sizes = {**asdict(setting.sizes), **_numbers(setting)}
        typer.echo(json.dumps({"sizes": sizes, "plans": {name: asdict(one) for name, one in found.items()}}))
    else:
        _print(setting, found, obstacles(setting.sizes))
        if lacking and not setting.num_parameters:
            output().print(f"Its model cannot be built here: {lacking}.")


def _print_trade(run: Path, *, as_json: bool) -> None:
    from flcert.cli.options import refuse_foreign_code
    from flcert.cli.render import output, trade_table
    from flcert.report.trade import trade_of_run
    from flcert.runs.directory import RunDirectory

    refuse_foreign_code(run, None)
    trade = trade_of_run(RunDirectory.open(run))
    if trade is None:
        raise InputError(f"{run} has no public or trusted model, or a certificate that does not take trusted votes")
    if as_json:
        curves = {votes: curve.tolist() for votes, curve in trade.curves.items()}
        typer.echo(json.dumps({"model": trade.model, "certified_accuracy": curves}))
        return
    output().print(f"Certified accuracy with T votes of {trade.model} beside those of the groups:\n")
    output().print(trade_table(trade))
    output().print("\nThe votes are those of the run; nothing was trained. Choose T before you look at a test set.")


def _setting(chosen: dict[str, Any], certificate: "CertificateSettings") -> "Setting":
    from flcert.grouping import Sizes
    from flcert.pipeline.plan import Setting

    for name, option in (("num_clients", "--clients"), ("num_groups", "--groups")):
        if name not in chosen:
            raise InputError(f"{option} is needed, but was not given (or give a --preset)")
    average = round(chosen["num_clients"] / max(1, chosen["num_groups"]))
    filled = {"group_size": max(1, average), **chosen}
    sizes = Sizes(**{field.name: filled.pop(field.name) for field in fields(Sizes)})
    return Setting(sizes, certificate=certificate, **filled)


def _numbers(setting: "Setting") -> dict[str, Any]:
    names = ("rounds", "participation", "num_parameters", "num_without", "num_inputs")
    bytes_ = {"bytes_a_round": setting.bytes_sent(), "bytes_stored": setting.bytes_stored()}
    numbers = {name: getattr(setting, name) for name in names} | bytes_
    return numbers | setting.certificate.model_dump(exclude={"also"})


def _of_preset(name: str, scale: float) -> tuple[dict[str, Any], str]:
    """The sizes of a preset, and what its model lacks here, if anything."""
    from flcert.datasets import DATASETS
    from flcert.runs.config import load_config

    config = load_config(preset=name, scale=scale)
    data = DATASETS[config.data.name]
    sizes = {
        "num_clients": config.data.options.get("num_clients") or data.users,
        "num_groups": config.grouping.num_groups,  # type: ignore[attr-defined]
        "rounds": config.recipe.rounds,
        "participation": config.recipe.participation,
    }
    assert data.input_shape is not None
    assert data.num_labels is not None
    try:
        return sizes | _of_model(config.recipe, data.input_shape, data.num_labels), ""
    except InputError as error:  # a public model or table that was not fetched yet
        return sizes, str(error)


def _of_model(recipe: "Recipe", input_shape: tuple[int, ...], num_labels: int) -> dict[str, int]:
    """What a client sends, parameters and running statistics, with and without public features."""
    import numpy as np

    from flcert.training.local import Replica
    from flcert.training.public import public_of
    from flcert.training.start import initial_module

    public = public_of(recipe, np.zeros((1, *input_shape), dtype=np.float32), num_labels)
    whole = public.card.model if public.function and public.card else None

    def numbers(model: "Choice", shape: tuple[int, ...]) -> int:
        module = initial_module(recipe.model_copy(update={"model": model}), shape, num_labels)
        return Replica(module).read().numel() * (recipe.models_per_group or 1)

    return {
        "num_parameters": numbers(recipe.model, public.shape(input_shape)),
        "num_without": numbers(whole, input_shape) if whole else 0,
    }


def _print(setting: "Setting", found: "dict[str, Plan]", impossible: list[str]) -> None:
    from rich.table import Table

    from flcert.cli.render import output

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in found:
        table.add_column(name, justify="right")
    rows = {
        "groups of a client, on average": [f"{one.models_a_client:.2f}" for one in found.values()],
        "rounds of a client, expected": [f"{one.rounds_a_client:,.1f}" for one in found.values()],
        "its traffic, both ways": [_as_bytes(one.bytes_a_client) for one in found.values()],
        "sent in a round": [_as_bytes(setting.bytes_sent()) for _ in found],
        "stored by the server": [
            _as_bytes(setting.bytes_sent() if name == SINGLE else setting.bytes_stored()) for name in found
        ],
        "largest certifiable m": [f"{one.largest_level:,}" for one in found.values()],
    }
    for name, cells in rows.items():
        if setting.num_parameters or name not in TRAFFIC:
            table.add_row(name, *cells)
    console, sizes = output(), setting.sizes
    console.print(f"n = {sizes.num_clients:,} clients, N = {sizes.num_groups:,} groups, k = {sizes.group_size:,} (P)\n")
    console.print(table)
    if setting.num_without:
        sent, stored = (_as_bytes(one(without=True)) for one in (setting.bytes_sent, setting.bytes_stored))
        console.print(
            f"\nWithout public features a client would send {sent} in a round, and the server store {stored}."
        )
    if not setting.num_parameters:
        console.print("\nFor a client's traffic give --parameters or a --preset.")
    for text in [*impossible, *(said for name, one in found.items() for said in _remarks(name, one, setting))]:
        console.print(f"\n{text}")


def _remarks(name: str, plan: "Plan", setting: "Setting") -> list[str]:
    """Remarks on a column of the table."""
    said = []
    if plan.expected_empty_groups >= LEAST_TOLD and plan.likely_votes < setting.sizes.num_groups:
        said.append(
            f"{name} leaves {plan.expected_empty_groups:.1f} groups empty on average; they cast no vote. The largest "
            f"m is that of {setting.sizes.num_groups:,} votes; with {plan.likely_votes:,} it is {plan.likely_level:,}."
        )
    if plan.least_groups > 1:
        said.append(_verdict(name, plan, setting))
    return said


def _verdict(name: str, plan: "Plan", setting: "Setting") -> str:
    what = f"{name} can certify {'' if plan.can_certify else 'nothing '}with N = {setting.sizes.num_groups:,}"
    if plan.can_certify and plan.largest_level == 0:
        what += ", but only if no client is malicious"
    proof = setting.certificate
    rule = "2 D / alpha" if proof.selection == "safe" else "D / alpha"
    return (
        f"{what}: for D = {setting.num_inputs:,} test inputs and alpha = {proof.alpha} it needs at least "
        f"{plan.least_groups:,} groups, more than log2({rule}) with selection = {proof.selection!r}."
    )


def _as_bytes(number: int) -> str:
    value, units = float(number), ("B", "kB", "MB", "GB", "TB", "PB")
    for unit in units:
        if value < 1000 or unit == units[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("the last unit takes any number")
