"""Make one of the paper's figures: table, picture, facts, and a section of the page of all figures in a directory."""

import csv
import io
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flcert.config import Config
from flcert.engines import Engine, Processes
from flcert.errors import InputError
from flcert.experiments import Lab, Options, Outcome, experiment, open_lab
from flcert.experiments.lab import Announce
from flcert.files import read_json, writable_directory, write_atomic, write_json
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
    """
    from flcert.report.gallery import draw, write_gallery  # Matplotlib loads slowly

    chosen, options, store = experiment(name), options or Options(), store or Store()
    for place in (directory, store.directory):
        writable_directory(place)
    stem = directory / f"{name}-{label}"
    table, facts = Path(f"{stem}.csv"), Path(f"{stem}.json")
    _refuse_another(facts, config, options)
    with open_lab(config, engine or Processes(), store, progress, announce) as lab:
        outcome = chosen.function(lab, options)
    outcome = replace(outcome, note=" ".join(filter(None, [outcome.note, *lab.remarks()])))
    write_atomic(table, _as_csv(outcome))
    for form, picture in draw(outcome).items():
        write_atomic(Path(f"{stem}.{form}"), picture)
    write_json(facts, _facts(name, label, config, options, lab, outcome))
    return Reproduction(table, write_gallery(directory), lab.trained, lab.reused, tuple(lab.failed), outcome)


def _refuse_another(facts: Path, config: Config, options: Options) -> None:
    """Do not write over a figure of other settings."""
    if facts.exists():
        made = read_json(facts)
        if (made.get("config"), made.get("options")) != (config.canonical(), options.model_dump(mode="json")):
            raise InputError(f"{facts} belongs to a figure of other settings; give another directory (--out)")


def _facts(name: str, label: str, config: Config, options: Options, lab: Lab, outcome: Outcome) -> dict[str, Any]:
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
        "options": options.model_dump(mode="json"),
        "config": config.canonical(),
        "versions": {package: version(package) for package in ("flcert", "torch", "numpy")},
    }


def _as_csv(outcome: Outcome) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(outcome.header)
    writer.writerows(outcome.rows)
    return text.getvalue().encode()
