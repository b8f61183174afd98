"""``flcert plan``: cost and largest certifiable level, before anything is trained."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flcert.cli.options import Json, Scale
from flcert.errors import InputError

if TYPE_CHECKING:
    from flcert.plan import Plan, Sizes


def plan(
    clients: Annotated[int | None, typer.Option(help="Number of clients n.")] = None,
    groups: Annotated[int | None, typer.Option(help="Number of groups N.")] = None,
    group_size: Annotated[int | None, typer.Option(help="Clients in a group k (FLCert-P).", show_default="n/N")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of training T_e.", show_default="200")] = None,
    participation: Annotated[
        float | None, typer.Option(help="Share beta_e of a group's clients in a round.", show_default="1.0")
    ] = None,
    parameters: Annotated[
        int | None, typer.Option(help="Parameters of the model, for the bytes.", show_default="the preset's")
    ] = None,
    copies: Annotated[int | None, typer.Option(help="Show finite aggregation with so many groups a client.")] = None,
    inputs: Annotated[int, typer.Option(help="Test inputs D that share alpha; a preset does not tell.")] = 10_000,
    alpha: Annotated[float, typer.Option(help="Failure probability of FLCert-P.")] = 0.001,
    selection: Annotated[str, typer.Option(help="safe, or paper for Algorithm 1 to the letter.")] = "safe",
    preset: Annotated[str | None, typer.Option(help="Take n, N, T_e, beta_e and the model from a preset.")] = None,
    scale: Scale = 1.0,
    beta: Annotated[float, typer.Option(help="Share of the clients in a round of the single global model.")] = 0.1,
    single_rounds: Annotated[
        int | None, typer.Option(help="Rounds T of the single global model.", show_default="five times T_e")
    ] = None,
    json_: Json = False,
) -> None:
    """Show what a client has to do and what can be certified at most, for FLCert-D, FLCert-P and a single model.

    Example: `flcert plan --clients 1000 --groups 500 --rounds 200 --parameters 139960`

    Example: `flcert plan --preset har --groups 500 --group-size 2`
    """
    from flcert import plan as library

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
    chosen = _of_preset(preset, scale) if preset else {"rounds": 200}
    chosen |= {name: value for name, value in given.items() if value is not None}
    sizes = _sizes(chosen, {"num_inputs": inputs, "alpha": alpha, "selection": selection})
    plans = {"FLCert-P": library.plan_sampled(sizes)}
    if sizes.num_groups <= sizes.num_clients:
        plans = {"FLCert-D": library.plan_disjoint(sizes), **plans}
    if copies is not None:
        plans[f"spread, {copies} groups a client"] = library.plan_spread(sizes, copies)
    single = single_rounds if single_rounds is not None else 5 * sizes.rounds
    plans["single global model"] = library.plan_single(sizes, single, beta)
    empty, needed = library.expected_empty_groups(sizes), library.groups_needed(sizes)
    if json_:
        methods = {name: asdict(one) for name, one in plans.items()}
        facts = {"expected_empty_groups": empty, "least_groups_of_p": needed}
        typer.echo(json.dumps({"sizes": asdict(sizes), "plans": methods, **facts}))
    else:
        _print(sizes, plans, empty, needed)


def _sizes(chosen: dict[str, Any], proof: dict[str, Any]) -> "Sizes":
    from flcert.plan import Sizes

    for name, option in (("num_clients", "--clients"), ("num_groups", "--groups")):
        if name not in chosen:
            raise InputError(f"{option} is needed, but was not given (or give a --preset)")
    average = round(chosen["num_clients"] / max(1, chosen["num_groups"]))
    return Sizes(**{"group_size": max(1, average), **chosen, **proof})


def _of_preset(name: str, scale: float) -> dict[str, Any]:
    """The sizes of a preset; its model is built to count what a client sends: parameters and running statistics."""
    from flcert import models
    from flcert.config import load_config
    from flcert.datasets.shapes import SHAPES
    from flcert.presets import USERS
    from flcert.training.local import Replica

    config = load_config(preset=name, scale=scale)
    data = config.data.name
    module = models.build(config.recipe.model, *SHAPES[data], seed=0)
    return {
        "num_clients": config.data.options.get("num_clients") or USERS[data],
        "num_groups": config.grouping.num_groups,  # type: ignore[union-attr]
        "rounds": config.recipe.rounds,
        "participation": config.recipe.participation,
        "num_parameters": Replica(module).read().numel(),
    }


def _print(sizes: "Sizes", plans: "dict[str, Plan]", empty: float, needed: int) -> None:
    from rich.table import Table

    from flcert.cli.render import output

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for name in plans:
        table.add_column(name, justify="right")
    rows = {
        "groups of a client, on average": [f"{one.models_a_client:.2f}" for one in plans.values()],
        "rounds of a client, expected": [f"{one.rounds_a_client:,.1f}" for one in plans.values()],
        "its traffic, both ways": [_as_bytes(one.bytes_a_client) for one in plans.values()],
        "largest certifiable m": [f"{one.largest_level:,}" for one in plans.values()],
    }
    for name, cells in rows.items():
        if sizes.num_parameters or "traffic" not in name:
            table.add_row(name, *cells)
    console = output()
    console.print(f"n = {sizes.num_clients:,} clients, N = {sizes.num_groups:,} groups, k = {sizes.group_size:,} (P)\n")
    console.print(table)
    if not sizes.num_parameters:
        console.print("\nFor a client's traffic give --parameters or a --preset.")
    if "FLCert-D" in plans:
        votes = sizes.num_groups - empty
        console.print(
            f"\nFLCert-D leaves {empty:.1f} groups empty on average; each casts no vote. The largest m is that of "
            f"{sizes.num_groups:,} votes; with {votes:,.0f} it is {votes // 2:,.0f}."
        )
    else:
        console.print("\nFLCert-D is not possible: it has at most as many groups as clients.")
    console.print(_verdict(sizes, needed, plans["FLCert-P"]))


def _verdict(sizes: "Sizes", needed: int, sampled: "Plan") -> str:
    what = f"FLCert-P can certify {'' if sampled.can_certify else 'nothing '}with N = {sizes.num_groups:,}"
    if sampled.can_certify and sampled.largest_level == 0:
        what += ", but only if no client is malicious"
    rule = "2 D / alpha" if sizes.selection == "safe" else "D / alpha"
    return (
        f"{what}: for D = {sizes.num_inputs:,} test inputs and alpha = {sizes.alpha} it needs at least {needed:,} "
        f"groups, more than log2({rule}) with selection = {sizes.selection!r}."
    )


def _as_bytes(number: int) -> str:
    value, units = float(number), ("B", "kB", "MB", "GB", "TB", "PB")
    for unit in units:
        if value < 1000 or unit == units[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("the last unit takes any number")
