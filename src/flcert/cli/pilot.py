"""``flcert pilot``: choose the number of groups on clients that are no part of the federation."""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from flcert.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from flcert.pipeline.pilot import Candidate, Piloted
    from flcert.runs.config import Config

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)  # of n, for the columns of the table


def pilot(
    config: Annotated[
        Path | None, typer.Argument(help="A TOML or JSON file.", show_default="scikit-learn's digits")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="The paper's settings; see `flcert presets list`.")] = None,
    scale: Scale = 1.0,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Change a setting, e.g. recipe.rounds=50; repeatable."),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Numbers of groups N to try, e.g. 50,100,250.", show_default="one client a group, 2, 5, ..."),
    ] = None,
    trainings: Annotated[int, typer.Option(help="Groups to train for each N.")] = 24,
    share: Annotated[
        float | None, typer.Option(help="Share of the clients that are set apart (pilot.share).", show_default="0.05")
    ] = None,
    target_m: Annotated[
        int | None,
        typer.Option(help="Recommend the N that certifies most against so many.", show_default="best area"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Directory for pilot.json, pilot.csv and a figure.")
    ] = None,
    engine: EngineName = "processes",
    workers: NumWorkers = None,
    scheduler: Scheduler = None,
    timeout: Timeout = None,
    cache: Cache = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict certified accuracy for several numbers of groups from a few groups of pilot clients.

    Pilot clients are chosen by a keyed hash of their ids and take no part in the federation: they can spoil the choice
    of N, but no certificate. The command that is printed leaves the same clients out. Trained groups are kept in the
    store, so repeating a stopped command resumes it.

    Example: `flcert pilot --preset digits --share 0.3 --groups 28,70,140 --target-m 14`
    """
    from flcert.core.store import Store
    from flcert.engines import build
    from flcert.pipeline.pilot import pilot as make
    from flcert.runs.config import Pilot, load_config

    look_for_modules_in(config.parent if config else Path(), Path())
    given = [*(set_ or []), *([] if share is None else [f"pilot.share={share}"])]
    try:
        settings = load_config(config, given, preset=preset, scale=scale)
    except InputError as error:
        raise _refusal(error, given) from None
    settings = settings.model_copy(update={"pilot": settings.pilot or Pilot()})
    where = build(engine, workers, scheduler=scheduler, timeout=timeout)
    with progress_bars(quiet) as bars:
        found = make(
            settings,
            _numbers(groups),
            trainings,
            target_m=target_m,
            engine=where,
            store=Store(cache),
            progress=bars,
        )
    words = [*([str(config)] if config else []), *(["--preset", preset] if preset else [])]
    words += [
        *(["--scale", f"{scale:g}"] if scale != 1 else []),
        *(part for one in set_ or [] for part in ("--set", one)),
    ]
    best = found.best(target_m)
    command = _command(words, settings, best.num_groups) if best else None
    facts = _facts(found, best, target_m, command)
    if out:
        _write(out, found, facts)
    if json_:
        typer.echo(json.dumps(facts))
    else:
        _print(found, best, target_m, command)


def _refusal(error: InputError, given: list[str]) -> InputError:
    """What to say of a configuration that is refused: first of all that its groups share clients, if they do."""
    from flcert.grouping import KINDS
    from flcert.grouping.kind import DisjointKind
    from flcert.pipeline.pilot import shares_clients

    chosen = dict(text.split("=", 1) for text in given if "=" in text).get("grouping.kind", "")
    shares = chosen in KINDS and not issubclass(KINDS[chosen], DisjointKind)
    return shares_clients(chosen) if shares and str(error).startswith("grouping.") else error


def _numbers(text: str | None) -> list[int]:
    try:
        return [int(part) for part in text.split(",")] if text else []
    except ValueError:
        raise InputError(f"groups must be whole numbers with commas between them, got {text!r}") from None


def _command(words: list[str], config: "Config", num_groups: int) -> str:
    """The command that runs the federation without the pilot clients."""
    from flcert.runs.config import Pilot

    chosen = config.pilot or Pilot()
    apart = ["--set", f"pilot.share={chosen.share:g}"]
    if chosen.key != Pilot().key:
        apart += ["--set", f"pilot.key={chosen.key}"]
    return shlex.join(["flcert", "run", *words, *apart, "--groups", str(num_groups)])


def _facts(found: "Piloted", best: "Candidate | None", target: int | None, command: str | None) -> dict[str, Any]:
    return {
        "clients": found.num_clients,
        "pilot_clients": found.num_pilot,
        "pilot_inputs": found.num_inputs,
        "target_m": target,
        "recommended": best.num_groups if best else None,
        "command": command,
        "candidates": [
            {
                "groups": one.num_groups,
                "votes": one.num_votes,
                "sizes": one.sizes,
                "trained": one.trained,
                "certified_accuracy": one.forecast.curve.tolist(),
                "standard_error": one.forecast.error.tolist(),
                "seconds": one.seconds,
                "bytes_a_client": one.bytes_a_client,
                "bytes_stored": one.bytes_stored,
            }
            for one in found.candidates
        ],
    }


def _write(out: Path, found: "Piloted", facts: dict[str, Any]) -> None:
    """Write pilot.json, pilot.csv and the figure."""
    import numpy as np

    from flcert.core.files import writable_directory, write_atomic, write_json
    from flcert.report.drawing import files_of
    from flcert.report.figures import forecast_figure

    writable_directory(out)
    write_json(out / "pilot.json", facts)
    lines, curves = ["groups,m,certified_accuracy,low,high"], {}
    for one in found.candidates:
        ends = np.array([one.forecast.interval(m) for m in range(len(one.forecast.curve))])
        rows = enumerate(zip(one.forecast.curve.tolist(), *ends.T.tolist(), strict=True))
        lines += [f"{one.num_groups},{m},{share:.6f},{low:.6f},{high:.6f}" for m, (share, low, high) in rows]
        curves[f"N = {one.num_groups:,}"] = (one.forecast.curve, ends[:, 0], ends[:, 1])
    write_atomic(out / "pilot.csv", ("\n".join(lines) + "\n").encode())
    title = f"Predicted certified accuracy, n = {found.num_clients:,} clients"
    for form, picture in files_of(forecast_figure(title, curves)).items():
        write_atomic(out / f"pilot.{form}", picture)


def _print(found: "Piloted", best: "Candidate | None", target: int | None, command: str | None) -> None:
    from flcert.cli.render import output

    console = output()
    console.print(
        f"{found.num_pilot:,} pilot clients are set apart, {found.num_clients:,} are left. Groups of pilot clients "
        f"voted on {found.num_inputs:,} {found.whose}.\n"
    )
    console.print(_table(found, target))
    console.print(
        "\nPredicted certified accuracy, and where 95 % of runs would be. Time is that of training on this machine, "
        "traffic that of a client in all rounds, both ways.\n"
    )
    console.print(_recommendation(found, best, target) if best else _nothing(found, target))
    if command:
        console.print(f"\n{command}", soft_wrap=True)


def _table(found: "Piloted", target: int | None) -> "Table":
    from rich.table import Table

    from flcert.cli.plan_tables import as_bytes

    levels = sorted({*(round(share * found.num_clients) for share in SHARES), *([] if target is None else [target])})
    reached = max(len(one.forecast.curve) for one in found.candidates) // 2
    levels = [m for m in levels if m <= reached or m == target]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("N", "clients", *(f"CA@{m:,}" for m in levels), "time", "traffic", "stored"):
        table.add_column(heading, justify="right")
    for one in found.candidates:
        small, large = one.sizes
        size = f"{small:,}" if small == large else f"{small:,} to {large:,}"
        cells = [_share(one, m) for m in levels]
        time = "not measured" if one.seconds is None else _as_time(one.seconds)
        table.add_row(
            f"{one.num_groups:,}", size, *cells, time, as_bytes(one.bytes_a_client), as_bytes(one.bytes_stored)
        )
    return table


def _share(one: "Candidate", m: int) -> str:
    if m > one.most:
        return "0"
    low, high = one.forecast.interval(m)
    return f"{one.forecast.at(m):.1%} ({100 * low:.1f}-{100 * high:.1f})"


def _recommendation(found: "Piloted", best: "Candidate", target: int | None) -> str:
    what = "area under the curve" if target is None else f"CA@{target:,}"
    if len(found.candidates) == 1:
        return f"N = {best.num_groups:,} is the only number of groups that was tried."
    text = f"N = {best.num_groups:,} has the largest predicted {what}."
    low = best.interval(target)[0]
    close = [one for one in found.candidates if one is not best and one.interval(target)[1] > low]
    named = ", ".join(f"{one.num_groups:,}" for one in close)
    return f"{text} The intervals of N = {named} overlap with its own." if close else text


def _nothing(found: "Piloted", target: int | None) -> str:
    """Why no number of groups is recommended."""
    against = "" if target is None else f" against m = {target:,}"
    if target is None or target <= max(one.most for one in found.candidates):
        return f"Next to no input is predicted to be certified{against}, so no number of groups is recommended."
    least = 2 * target  # of groups that share no client: each client changes one vote
    more = f", more than there are clients ({found.num_clients:,})" if least > found.num_clients else ""
    which = "None of these numbers of groups" if len(found.candidates) > 1 else "This number of groups"
    verb = "can" if len(found.candidates) > 1 else "cannot"
    return f"{which} {verb} certify m = {target:,}; that takes at least {least:,} groups{more}."


def _as_time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
