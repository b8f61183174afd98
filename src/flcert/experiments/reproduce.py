"""Make the paper's figures: table, picture, facts, and a section of the page of all figures in a directory."""

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from flcert.core.files import first_difference, writable_directory, write_atomic, write_json
from flcert.core.store import Store
from flcert.datasets import Federation, written
from flcert.engines import Engine, Processes
from flcert.errors import FlcertError, InputError, check_range
from flcert.experiments import Lab, Options, Outcome, experiment
from flcert.experiments.facts import PAGE, FigureFacts
from flcert.experiments.lab import Announce, check_config, opened
from flcert.experiments.outcome import with_public_line
from flcert.pipeline.run import federation_of
from flcert.runs.config import Config
from flcert.training import Context, Progress
from flcert.training.checks import check_recipe
from flcert.training.context import silent

SCALED = "-scale-"  # between a preset and its scale in the label of a setting


def label_of(preset: str, scale: float) -> str:
    """What to call a preset at a scale in names of files.

    >>> label_of("har", 1), label_of("har", 0.5)
    ('har', 'har-scale-0.5')
    """
    return preset if scale == 1 else f"{preset}{SCALED}{scale:g}"


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
        label: what to call the setting in names of files.
        options: the experiment's options.
        command: the command that makes the figure, to show on the page.
    """

    name: str
    config: Config
    label: str
    options: Options = Options()  # noqa: RUF009 (frozen)
    command: str = ""

    @property
    def stem(self) -> str:
        """The name of the figure's files, without their ends."""
        return f"{self.name}-{self.label}"

    @property
    def setting(self) -> str:
        """What to call the setting in titles."""
        name, _, scale = self.label.partition(SCALED)
        return f"{written(name)} at scale {scale}" if scale else written(name)

    @property
    def used(self) -> dict[str, Any]:
        """The options that the experiment uses, as JSON values."""
        return self.options.model_dump(mode="json", include=set(experiment(self.name).uses))


@dataclass(frozen=True)
class Refused:
    """A figure that could not be made.

    Args:
        figure: its name: the experiment and the setting.
        reason: why not.
    """

    figure: str
    reason: str


def _unheard(what: str) -> None:
    """Announce nothing."""


@dataclass(frozen=True)
class Site:
    """Where figures are made, and who is told about it.

    Args:
        directory: where to write; figures of other experiments there are kept and shown on the same page.
        engine: where groups train; by default one process for each core.
        store: where models and votes are kept.
        progress: called with a stage, the number done and the total.
        announce: called with a description of each step.
    """

    directory: Path
    engine: Engine = field(default_factory=Processes)
    store: Store = field(default_factory=Store)
    progress: Progress = silent
    announce: Announce = _unheard


def reproduce(request: Request, site: Site) -> Reproduction:
    """Run an experiment on a setting and write ``<name>-<label>`` .csv, .png, .svg, .pdf and .json, and report.html.

    Every group goes through the store, so a stopped experiment can be resumed, and experiments share the groups they
    have in common.
    """
    from flcert.experiments.gallery import write_gallery  # Matplotlib loads slowly

    _check([request], site)
    with _opened(request.config, [request], site) as context:
        made = _make(request, site, context)
    write_gallery(site.directory)
    return made


def reproduce_all(requests: Sequence[Request], site: Site) -> Iterator[Reproduction | Refused]:
    """Make several figures, each as ``reproduce`` does, and go on if a setting cannot do an experiment.

    What is wrong with the options, or with any of the settings, is refused before anything is trained. Requests of the
    same setting that follow each other share workers. The page is written at the end, also if that comes early.
    """
    from flcert.experiments.gallery import write_gallery

    _check(requests, site)
    sets = [(config, list(same)) for config, same in groupby(requests, key=lambda request: request.config)]
    if len(sets) > 1:
        for config, same in sets:
            _check_fit(config, same, federation_of(config))
    made = 0
    try:
        for config, same in sets:
            with _opened(config, same, site) as context:
                for request in same:
                    one = _made_or_refused(request, site, context)
                    made += isinstance(one, Reproduction)
                    yield one
    finally:
        if made:
            write_gallery(site.directory)


def _made_or_refused(request: Request, site: Site, context: Context) -> Reproduction | Refused:
    try:
        return _make(request, site, context)
    except FlcertError as error:
        return Refused(request.stem, str(error))


@contextmanager
def _opened(config: Config, requests: Sequence[Request], site: Site) -> Iterator[Context]:
    """The data and workers of a setting, once its recipe and the options of its figures are known to fit the data."""
    with opened(config, site.engine, site.store, site.progress) as context:
        _check_fit(config, requests, context.federation)
        yield context


def _make(request: Request, site: Site, context: Context) -> Reproduction:
    from flcert.experiments.gallery import draw

    lab = Lab(request.config, context, site.announce, request.setting)
    outcome = experiment(request.name).function(lab, request.options)
    note = " ".join(filter(None, [outcome.note, *lab.remarks()]))
    outcome = replace(with_public_line(outcome, lab.public_accuracy), note=note)
    stem = site.directory / request.stem
    write_atomic(Path(f"{stem}.csv"), _as_csv(outcome))
    for form, picture in draw(outcome).items():
        write_atomic(Path(f"{stem}.{form}"), picture)
    write_json(Path(f"{stem}.json"), _facts(request, lab, outcome).model_dump(mode="json"))
    page = site.directory / PAGE
    return Reproduction(Path(f"{stem}.csv"), page, lab.trained, lab.reused, tuple(lab.failed), outcome)


def _check(requests: Sequence[Request], site: Site) -> None:
    """Refuse what can be known to be wrong before any data are read."""
    from flcert.experiments.gallery import figures_in

    for request in requests:
        check_config(request.config)
    for place in (site.directory, site.store.directory):
        writable_directory(place)
    there = figures_in(site.directory)
    for request in requests:
        _refuse_another(there.get(request.stem), site.directory / f"{request.stem}.json", request)


def _refuse_another(made: FigureFacts | None, facts: Path, request: Request) -> None:
    """Refuse to overwrite a figure of other settings."""
    here = {"config": request.config.canonical(), "options": request.used}
    there = {"config": made.config, "options": made.options} if made else here
    if there != here:
        difference = first_difference(there, here)
        raise InputError(f"{facts} is of other settings ({difference}); give another directory (--out)")


def _check_fit(config: Config, requests: Sequence[Request], federation: Federation) -> None:
    """Refuse numbers that do not fit the clients, and a recipe that no figure could use, before anything is trained."""
    num_clients = federation.num_clients
    check_recipe(federation, config.grouping.groups_of(federation.ids, federation.forgotten), config.recipe)
    for request in requests:
        for number in request.options.groups:
            check_range("--groups", number, 1, num_clients, "num_clients")
        for number in request.options.malicious:
            check_range("--malicious", number, 0, num_clients, "num_clients")


def _facts(request: Request, lab: Lab, outcome: Outcome) -> FigureFacts:
    """Everything needed to make the figure again."""
    return FigureFacts(
        experiment=request.name,
        title=outcome.title,
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
        panels=tuple(outcome.panels),
        columns=outcome.columns,
    )


def _as_csv(outcome: Outcome) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(outcome.header)
    writer.writerows(outcome.rows)
    return text.getvalue().encode()
