"""``flcert pretrain``: train a public model."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flcert.cli.data import DataDirectory, bytes_on_stderr
from flcert.cli.options import Json, Quiet, look_for_modules_in, progress_bars
from flcert.errors import InputError

if TYPE_CHECKING:
    from flcert.pretraining import Fit, Plan
    from flcert.public import PublicModel


def pretrain(
    name: Annotated[str | None, typer.Argument(help="A public model, see --list.", show_default="digits-28")] = None,
    with_: Annotated[
        str | None, typer.Option("--with", help="Add public sources that are downloaded: pen, fonts, or pen,fonts.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Train on a data set of yours instead, all of which is public (data.name).")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="An option of the data or the model; repeatable."),
    ] = None,
    model: Annotated[str, typer.Option(help="The network (recipe.model).")] = "cnn",
    steps: Annotated[int | None, typer.Option(help="Steps of training.", show_default="chosen for the data")] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="The largest learning rate.", show_default="chosen for the data")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides everything random.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file to write.", show_default="the public models of the cache"),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a file that was made with other settings.")
    ] = False,
    data_dir: DataDirectory = None,
    list_: Annotated[bool, typer.Option("--list", help="List the public models that have a name, and stop.")] = False,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a public model: weights that are fixed before a federation begins and that no client can influence.

    The file has a card that says what the model was trained on, how, and how accurate it is on examples of its own
    sources that were kept apart. The same command with the same arguments finds the finished file; a file of other
    arguments is kept unless you give --replace. Some models of the list are made of published weights, without
    training.

    Example: `flcert pretrain digits-28`

    Example: `flcert pretrain digits-28 --with pen,fonts`

    Example: `flcert pretrain --data folder --set data.options.path=public --model mlp --out public.safetensors`
    """
    from flcert.pretraining import HEADS, finished
    from flcert.pretraining import pretrain as make

    if list_:
        _list(as_json=json_)
        return
    chosen = {"steps": steps, "learning_rate": learning_rate, "seed": seed}
    given = {key: value for key, value in chosen.items() if value is not None}
    if name in HEADS:
        _head(name, {"--with": with_, "--data": data, "--set": set_, "--steps": steps}, out, replace, as_json=json_)
        return
    if data is None:
        if set_:
            raise InputError(f"--set goes with --data, got {set_[0]!r} without it")
        plan = _digits_plan(name, with_, model, given, data_dir, quiet)
    else:
        if name or with_:
            raise InputError(f"--data takes neither a name nor --with, got {name or with_!r}")
        plan = _data_plan(data, set_ or [], model, given, out)
    path = _path(plan.card.name, out)
    there = finished(plan.card, path, replace=replace)
    if there is None:
        with progress_bars(quiet, "nothing was written, and the same command starts over") as progress:
            done = make(plan, path, progress)
    _print(there or done, path, found=there is not None, as_json=json_)


def _head(name: str, given: dict[str, Any], out: Path | None, replace: bool, *, as_json: bool) -> None:
    """Write a head that needs no training."""
    from flcert.pretraining import finished, head
    from flcert.public import write

    for option, value in given.items():
        if value is not None:
            raise InputError(f"{name!r} is made without training and takes no {option}, got {value!r}")
    path, made = _path(name, out), head(name)
    assert made.card is not None
    there = finished(made.card, path, replace=replace)
    if there is None:
        write(path, made)
    _print(there or made, path, found=there is not None, as_json=as_json)


def _digits_plan(
    name: str | None, with_: str | None, model: str, given: dict[str, Any], data_dir: Path | None, quiet: bool
) -> "Plan":
    from flcert.core.settings import Choice
    from flcert.pretraining import MORE_STEPS, STEPS, additions, of_digits
    from flcert.public.names import BASE

    more = [one.strip() for one in with_.split(",")] if with_ is not None else []
    chosen = additions(BASE if name is None else name, more)
    with bytes_on_stderr(quiet) as report:
        settings = _fit(given, steps=MORE_STEPS if chosen else STEPS)
        return of_digits(chosen, Choice(name=model), settings, data_dir, report)


def _data_plan(data: str, set_: list[str], model: str, given: dict[str, Any], out: Path | None) -> "Plan":
    from flcert.datasets import load
    from flcert.pretraining import of_data
    from flcert.runs.config import load_config

    if out is None:
        raise InputError("--data needs --out, the file to write")
    for change in set_:
        if not change.startswith(("data.options.", "recipe.model.")):
            raise InputError(f"--set takes data.options.* and recipe.model.options.* here, got {change!r}")
    look_for_modules_in(Path())
    config = load_config(None, [f"data.name={data}", f"recipe.model.name={model}", *set_])
    return of_data(config.data, load(config.data.name, **config.data.options), config.recipe.model, _fit(given))


def _fit(given: dict[str, Any], **defaults: Any) -> "Fit":
    from flcert.core.settings import validated
    from flcert.pretraining import Fit

    return validated(Fit, {**defaults, **given})


def _path(name: str, out: Path | None) -> Path:
    from flcert.public.model import SUFFIX, public_directory

    if out is None:
        return public_directory() / f"{name}{SUFFIX}"
    if out.suffix != SUFFIX:
        raise InputError(f"--out must end in {SUFFIX}, got {out}")
    return out


def _list(*, as_json: bool) -> None:
    from rich.table import Table

    from flcert.cli.render import output
    from flcert.pretraining import catalogue
    from flcert.public.model import SUFFIX, public_directory

    rows = {name: (title, (public_directory() / f"{name}{SUFFIX}").is_file()) for name, title in catalogue().items()}
    if as_json:
        typer.echo(json.dumps({name: {"title": title, "there": there} for name, (title, there) in rows.items()}))
        return
    table = Table("name", "file", "made of", box=None, pad_edge=False, header_style="bold")
    for name, (title, there) in rows.items():
        table.add_row(name, "present" if there else "-", title)
    output().print(table)


def _print(model: "PublicModel", path: Path, *, found: bool, as_json: bool) -> None:
    from flcert.cli.render import output

    card = model.card
    assert card is not None
    if as_json:
        shown = {"file": str(path), "found": found, "digest": model.digest, "card": card.model_dump(mode="json")}
        typer.echo(json.dumps(shown))
        return
    examples = sum(source.examples for source in card.sources) - card.held_out
    console = output()
    if found:
        console.print(f"{card.name} is there already", soft_wrap=True)
    how = f"trained on {examples:,} public examples"
    if card.accuracy is not None:
        how += f", accuracy {card.accuracy:.1%} on {card.held_out:,} others of the same sources"
    console.print(f"{card.name}: {how}\nfile: {path}", soft_wrap=True)
