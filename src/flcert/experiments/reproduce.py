"""Make one of the paper's figures: table, picture, facts, and a section of the page of all figures in a directory."""

import csv
import io
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flcert.config import Config
from flcert.engines import Engine, Processes
from flcert.errors import InputError, check_range
from flcert.experiments import Lab, Options, Outcome, experiment, open_lab
from flcert.experiments.lab import Announce
from flcert.files import first_difference, writable_directory, write_atomic, write_json
from flcert.store import Store
from flcert.training import Progress
from flcert.training.fill import silent


@dataclass(frozen=True)
class Reproduction:
    """A figure that was made.

    Args:
        table: the CSV file; the picture and the facts stand beside it under the same name.
        page: the HTML page of all figures in the directory.
        trained: groups that were trained for it.
        reused: groups that came from the store.
        failed: groups that could not be trained, in words.
        outcome: its rows.
    """

    table: Path
    page: Path
    trained: int
    reused: int
    failed: tuple[str, ...]
    outcome: Outcome


def reproduce(
    name: str,
    config: Config,
    directory: Path,
    *,
    label: str,
    options: Options | None = None,
    engine: Engine | None = None,
    store: Store | None = None,
    progress: Progress = silent,
    announce: Announce = lambda _: None,
    command: str = "",
) -> Reproduction:
    """Run an experiment on a setting and write ``<name>-<label>`` .csv, .png, .svg and .json, and report.html.

    Every group goes through the store, so that an experiment that was stopped goes on, and experiments share what they
    have in common.

    Args:
        name: of the experiment.
        config: the setting, with hashed groups.
        directory: where to write; figures of other experiments there stay, and are on the same page.
        label: what to call the setting.
        options: of the experiment.
        engine: where groups train; by default processes, one for each core.
        store: where models and votes are kept.
        progress: called with a stage, the number done and the total.
        announce: called with what is done next, in words.
        command: that makes the figure, for its section of the page.
    """
    from flcert.report.gallery import draw, figures_in, write_gallery  # Matplotlib loads slowly

    chosen, options, store = experiment(name), options or Options(), store or Store()
    for place in (directory, store.directory):
        writable_directory(place)
    stem = directory / f"{name}-{label}"
    table, facts = Path(f"{stem}.csv"), Path(f"{stem}.json")
    used = options.model_dump(mode="json", include=set(chosen.uses))
    _refuse_another(figures_in(directory).get(stem.name), facts, config, used)
    with open_lab(config, engine or Processes(), store, progress, announce) as lab:
        _check_numbers(options, lab.federation.num_clients)
        outcome = chosen.function(lab, options)
    outcome = replace(outcome, note=" ".join(filter(None, [outcome.note, *lab.remarks()])))
    write_atomic(table, _as_csv(outcome))
    for form, picture in draw(outcome).items():
        write_atomic(Path(f"{stem}.{form}"), picture)
    write_json(facts, _facts(name, label, config, used, lab, outcome) | {"command": command})
    return Reproduction(table, write_gallery(directory), lab.trained, lab.reused, tuple(lab.failed), outcome)


def _refuse_another(made: dict[str, Any] | None, facts: Path, config: Config, options: dict[str, Any]) -> None:
    """Do not write over a figure of other settings."""
    here = {"config": config.canonical(), "options": options}
    there = {name: made.get(name) for name in here} if made else here
    if there != here:
        difference = first_difference(there, here)
        raise InputError(f"{facts} is of other settings ({difference}); give another directory (--out)")


def _check_numbers(options: Options, num_clients: int) -> None:
    """Refuse numbers that do not fit the clients before anything is trained."""
    for number in options.groups:
        check_range("--groups", number, 1, num_clients, "num_clients")
    for number in options.malicious:
        check_range("--malicious", number, 0, num_clients, "num_clients")


def _facts(
    name: str, label: str, config: Config, options: dict[str, Any], lab: Lab, outcome: Outcome
) -> dict[str, Any]:
    """What a stranger needs to make the figure again."""
    return {
        "experiment": name,
        "title": experiment(name).title,
        "label": label,
        "note": outcome.note,
        "data": {
            "name": lab.federation.name,
            "digest": lab.federation.digest(),
            "clients": lab.federation.num_clients,
            "test_inputs": len(lab.truth),
        },
        "options": options,
        "config": config.canonical(),
        "versions": {package: version(package) for package in ("flcert", "torch", "numpy")},
    }


def _as_csv(outcome: Outcome) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(outcome.header)
    writer.writerows(outcome.rows)
    return text.getvalue().encode()
