"""Make one of the paper's figures: table, picture, facts, and a section of the page of all figures in a directory."""

import csv
import io
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flcert.core.files import first_difference, writable_directory, write_atomic, write_json
from flcert.core.store import Store
from flcert.engines import Engine, Processes
from flcert.errors import InputError, check_range
from flcert.experiments import Lab, Options, Outcome, experiment, open_lab
from flcert.experiments.facts import FigureFacts
from flcert.experiments.lab import Announce
from flcert.experiments.outcome import with_public_line
from flcert.runs.config import Config
from flcert.training import Progress
from flcert.training.context import silent


@dataclass(frozen=True)
class Reproduction:
    """A figure that was made.

    Args:
        table: the CSV file; the picture and the facts are beside it under the same name.
        page: the HTML page of all figures in the directory.
        trained: number of groups that were trained for it.
        reused: number of groups that came from the store.
        failed: which groups could not be trained, and why.
        outcome: its rows and panels.
    """

    table: Path
    page: Path
    trained: int
    reused: int
    failed: tuple[str, ...]
    outcome: Outcome


@dataclass(frozen=True)
class Request:
    """Which figure to make, and for which setting.

    Args:
        name: the experiment's name.
        config: the setting, with the groups of FLCert-D.
        label: what to call the setting.
        options: the experiment's options.
        command: the command that makes the figure, to show on the page.
    """

    name: str
    config: Config
    label: str
    options: Options = Options()  # noqa: RUF009 (frozen)
    command: str = ""

    @property
    def used(self) -> dict[str, Any]:
        """The options that the experiment uses, as JSON values."""
        return self.options.model_dump(mode="json", include=set(experiment(self.name).uses))


def reproduce(
    request: Request,
    directory: Path,
    *,
    engine: Engine | None = None,
    store: Store | None = None,
    progress: Progress = silent,
    announce: Announce = lambda _: None,
) -> Reproduction:
    """Run an experiment on a setting and write ``<name>-<label>`` .csv, .png, .svg and .json, and report.html.

    Every group goes through the store, so a stopped experiment can be resumed, and experiments share the groups they
    have in common.

    Args:
        request: what to make.
        directory: where to write; figures of other experiments there are kept and shown on the same page.
        engine: where groups train; by default one process for each core.
        store: where models and votes are kept.
        progress: called with a stage, the number done and the total.
        announce: called with a description of each step.
    """
    from flcert.experiments.gallery import draw, figures_in, write_gallery  # Matplotlib loads slowly

    chosen, store = experiment(request.name), store or Store()
    for place in (directory, store.directory):
        writable_directory(place)
    stem = directory / f"{request.name}-{request.label}"
    table, facts = Path(f"{stem}.csv"), Path(f"{stem}.json")
    _refuse_another(figures_in(directory).get(stem.name), facts, request)
    with open_lab(request.config, engine or Processes(), store, progress, announce) as lab:
        _check_numbers(request.options, lab.federation.num_clients)
        outcome = chosen.function(lab, request.options)
    note = " ".join(filter(None, [outcome.note, *lab.remarks()]))
    outcome = replace(with_public_line(outcome, lab.public_accuracy), note=note)
    write_atomic(table, _as_csv(outcome))
    for form, picture in draw(outcome).items():
        write_atomic(Path(f"{stem}.{form}"), picture)
    write_json(facts, _facts(request, lab, outcome).model_dump(mode="json"))
    return Reproduction(table, write_gallery(directory), lab.trained, lab.reused, tuple(lab.failed), outcome)


def _refuse_another(made: FigureFacts | None, facts: Path, request: Request) -> None:
    """Refuse to overwrite a figure of other settings."""
    here = {"config": request.config.canonical(), "options": request.used}
    there = {"config": made.config, "options": made.options} if made else here
    if there != here:
        difference = first_difference(there, here)
        raise InputError(f"{facts} is of other settings ({difference}); give another directory (--out)")


def _check_numbers(options: Options, num_clients: int) -> None:
    """Refuse numbers that do not fit the clients before anything is trained."""
    for number in options.groups:
        check_range("--groups", number, 1, num_clients, "num_clients")
    for number in options.malicious:
        check_range("--malicious", number, 0, num_clients, "num_clients")


def _facts(request: Request, lab: Lab, outcome: Outcome) -> FigureFacts:
    """Everything needed to make the figure again."""
    return FigureFacts(
        experiment=request.name,
        title=experiment(request.name).title,
        label=request.label,
        note=outcome.note,
        data={
            "name": lab.federation.name,
            "digest": lab.federation.digest(),
            "clients": lab.federation.num_clients,
            "test_inputs": len(lab.truth),
        },
        options=request.used,
        config=request.config.canonical(),
        versions={package: version(package) for package in ("flcert", "torch", "numpy")},
        command=request.command,
    )


def _as_csv(outcome: Outcome) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(outcome.header)
    writer.writerows(outcome.rows)
    return text.getvalue().encode()
