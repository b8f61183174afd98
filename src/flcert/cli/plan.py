"""``flcert plan``: cost and largest certifiable level, before anything is trained."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flcert.cli.options import GROUPINGS, ConfigFile, Json, Overrides, Preset, Scale, look_for_modules_in
from flcert.errors import InputError, check_range

if TYPE_CHECKING:
    from flcert.runs.config import Config

USUAL_ROUNDS = 200  # where nothing but sizes is known


def plan(
    config: ConfigFile = None,
    preset: Preset = None,
    scale: Scale = 1.0,
    set_: Overrides = None,
    clients: Annotated[
        int | None, typer.Option(help="Number of clients n; without a configuration, of any federation.")
    ] = None,
    grouping: Annotated[str | None, typer.Option(help=f"Kind of groups: {GROUPINGS} (grouping.kind).")] = None,
    groups: Annotated[
        str | None, typer.Option(help="Number of groups N, or several: 20,50,100 (grouping.num_groups).")
    ] = None,
    group_size: Annotated[int | None, typer.Option(help="Clients per group, k (FLCert-P).", show_default="n/N")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of training T_e (recipe.rounds).")] = None,
    participation: Annotated[
        float | None, typer.Option(help="Share beta_e of a group's clients in a round (recipe.participation).")
    ] = None,
    parameters: Annotated[
        int | None, typer.Option(help="Number of model parameters, for the traffic.", show_default="the recipe's")
    ] = None,
    groups_per_client: Annotated[
        int | None, typer.Option(help="Also plan groups where each client serves this many (finite aggregation).")
    ] = None,
    inputs: Annotated[
        int | None,
        typer.Option(help="Test inputs D that share alpha.", show_default="the test set's if known, or 10,000"),
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Failure probability, for groups drawn at random.")] = None,
    selection: Annotated[str | None, typer.Option(help="safe, or paper for Algorithm 1 to the letter.")] = None,
    target_m: Annotated[
        int | None, typer.Option("--target-m", help="Count the groups that must agree to certify this m.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw how many groups must agree for each m: a .svg, .png or .pdf file.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Show instead what trusted votes would change in this finished run.")
    ] = None,
    beta: Annotated[float, typer.Option(help="Share of the clients in a round of the single global model.")] = 0.1,
    single_rounds: Annotated[
        int | None, typer.Option(help="Rounds T of the single global model.", show_default="five times T_e")
    ] = None,
    json_: Json = False,
) -> None:
    """Show the cost for a client and the most that can be certified, for a configuration and other kinds of groups.

    A configuration is read as `flcert run` reads it. With --clients but no file, preset or --set, only sizes are known.

    Example: `flcert plan --preset mnist-0.1 --groups 20,50,100,500 --target-m 20 --figure agreement.svg`

    Example: `flcert plan experiment.toml --set voting.trusted.votes=10`

    Example: `flcert plan --clients 1000 --groups 500 --rounds 200 --parameters 139960`

    Example: `flcert plan --run runs/first`
    """
    if run is not None:
        _print_trade(run, as_json=json_)
        return
    from flcert.cli.plan_tables import check_figure, draw, print_planned, told
    from flcert.grouping import DEFAULT_KIND, kind_class
    from flcert.pipeline.plan import plan_single
    from flcert.pipeline.plan_config import Asked, Clients, clients_of, fitting, planned, with_usual_size
    from flcert.runs.config import load_config

    look_for_modules_in(config.parent if config else Path(), Path())
    numbers = _numbers(groups)
    if clients is not None:
        check_range("num_clients", clients, 1, 2**40)
    if figure is not None:
        check_figure(figure)
    bare = clients is not None and config is None and preset is None and not set_
    if bare and not numbers and "num_groups" in kind_class(grouping or DEFAULT_KIND).model_fields:
        raise InputError("--groups is needed, but was not given (or give a configuration)")
    shortcuts = {
        "data.options.num_clients": None if bare else clients,
        "grouping.kind": grouping,
        "recipe.rounds": USUAL_ROUNDS if bare and rounds is None else rounds,
        "recipe.participation": participation,
        "certificate.alpha": alpha,
        "certificate.selection": selection,
    }
    given = [*(set_ or []), *(f"{key}={value}" for key, value in shortcuts.items() if value is not None)]

    def load(more: list[str]) -> "Config":
        return load_config(config, [*given, *more], preset=preset, scale=scale)

    def known(config: "Config") -> Clients:
        return Clients(clients, known_from="--clients") if bare and clients is not None else clients_of(config)

    optional = {"group_size": group_size, "groups_per_client": groups_per_client}
    wanted = {name: value for name, value in optional.items() if value is not None}
    sized = with_usual_size(load, known)
    configs = [fitting(sized, certain, wanted) for certain in [{"num_groups": one} for one in numbers] or [{}]]
    found = planned(configs, known(configs[0]), Asked(inputs, parameters, group_size, groups_per_client), target_m)
    setting = found.overviews[0].setting
    single = plan_single(setting, single_rounds if single_rounds is not None else 5 * setting.rounds, beta)
    if figure is not None:
        draw(found, figure)
    if json_:
        typer.echo(json.dumps(told(found, single)))
    else:
        print_planned(found, single)


def _numbers(groups: str | None) -> list[int]:
    """The numbers of groups in a list with commas."""
    from flcert.grouping import MAX_GROUPS

    if groups is None:
        return []
    try:
        numbers = [int(one) for one in groups.split(",")]
    except ValueError:
        raise InputError(f"--groups must be a whole number, or several: 20,50,100, got {groups!r}") from None
    return [check_range("num_groups", number, 1, MAX_GROUPS) for number in dict.fromkeys(numbers)]


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
