"""A whole run: data, groups, models, votes, certificate, report; every stage reuses what is there."""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flcert import attacks, datasets, models
from flcert.attacks import AttackPlan
from flcert.backdoors import backdoor_for
from flcert.certify import Certificate, tally
from flcert.conclusion import FLOWER, conclude
from flcert.config import Config
from flcert.datasets import Federation
from flcert.engines import Engine, Inline, Processes, Workers
from flcert.errors import InputError, IntegrityError, check_range
from flcert.evaluation import evaluate_attack
from flcert.files import writable_directory
from flcert.further import check_further
from flcert.grouping import Grouping
from flcert.guarantee import KIND_OF_GROUPING, Guarantee
from flcert.registry import Choice
from flcert.rundir import RunDirectory
from flcert.store import Arrays, Store
from flcert.training import Ensemble, Progress
from flcert.training.compression import expanded
from flcert.training.fill import silent
from flcert.training.group import recipe_sources
from flcert.training.train import (
    check_recipe,
    compressed_ensemble,
    ranks_on_test_set,
    refuse_without_models,
    train_groups,
    votes_on_test_set,
)


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Args:
        directory: where everything was written.
        summary: the figures in short, as in summary.json.
        guarantee: which theorem, with its numbers.
        certificate: of the test inputs.
        ensemble: the trained groups; it knows what was trained and what was reused.
        attacked: the same under the simulated attack, if there is one.
    """

    directory: Path
    summary: dict[str, Any]
    guarantee: Guarantee
    certificate: Certificate
    ensemble: Ensemble
    attacked: Ensemble | None = None


def run(
    config: Config | None = None,
    directory: Path | None = None,
    *,
    engine: Engine | None = None,
    store: Store | None = None,
    progress: Progress = silent,
) -> RunResult:
    """Train, vote and certify as ``config`` says, and write a run directory.

    Args:
        config: what to do; by default scikit-learn's digits.
        directory: where to write; by default ``runs/<data>-<digest of the config>``.
        engine: where groups train; by default processes, one for each core.
        store: where models are kept; by default the platform's cache directory.
        progress: called with a stage, the number done and the total.
    """
    config, store = config or Config(), store or Store()
    writable_directory(store.directory)
    federation, grouping, plan = checked(config)
    run_directory = RunDirectory.claim(directory or default_directory(config, federation), config)
    with Workers(engine or Processes(), federation) as workers:
        ensemble = train_groups(workers, grouping, config.recipe, store, progress)
        if config.compression:
            ensemble = compressed_ensemble(ensemble, config.compression, store)
        return certify_models(run_directory, config, workers, ensemble, plan, store, progress)


def certify_models(
    run_directory: RunDirectory,
    config: Config,
    workers: Workers,
    ensemble: Ensemble,
    plan: AttackPlan | None,
    store: Store,
    progress: Progress,
) -> RunResult:
    """What comes after training: votes, certificate and report, and a simulated attack if there is one.

    Args:
        run_directory: where to write.
        config: of the run.
        workers: where models vote; they hold the federation.
        ensemble: the trained groups, whose models are in the store.
        plan: the attack.
        store: where models and votes are kept.
        progress: called with a stage, the number done and the total.
    """
    refuse_without_models(ensemble)
    for group, key in ensemble.model_keys().items():
        run_directory.adopt_model(group, key, store)
    votes = {
        number: votes_on_test_set(workers, ensemble, number, store, progress) for number in config.recipe.snapshots
    }
    proof, failed = config.certificate, len(ensemble.failures)
    guarantee = Guarantee.of(
        ensemble.grouping, num_failed=failed, alpha=proof.alpha, selection=proof.selection, tails=proof.tails
    )
    counted = tally(ranks_on_test_set(workers, ensemble, store, progress)) if "runoff" in proof.also else None
    figures, attacked = None, None
    if plan:
        figures, attacked = evaluate_attack(workers, ensemble, plan, guarantee, store, progress)
    concluded = conclude(
        run_directory,
        config,
        workers.federation.subject,
        ensemble,
        votes,
        guarantee,
        counted=counted,
        attack_figures=figures,
        progress=progress,
    )
    return RunResult(run_directory.path, concluded.summary, guarantee, concluded.certificate, ensemble, attacked)


def prepare(config: Config, directory: Path | None = None) -> tuple[RunDirectory, Grouping]:
    """Check everything as ``run`` does and claim the run directory, but train nothing.

    Returns:
        The directory, which now holds the configuration, and the groups that are to be trained.
    """
    federation, grouping, _ = checked(config)
    return RunDirectory.claim(directory or default_directory(config, federation), config), grouping


def train_some(
    directory: Path, groups: Collection[int], *, store: Store | None = None, progress: Progress = silent
) -> list[Ensemble]:
    """Train some groups of a prepared run into the store, in this process; ``run`` then finds them there.

    Args:
        directory: of the run; it holds the configuration.
        groups: which.
        store: where models are kept; by default the platform's cache directory.
        progress: called with a stage, the number done and the total.

    Returns:
        The chosen groups' models; and those under the configuration's attack, if there is one.
    """
    store = store or Store()
    writable_directory(store.directory)
    config = RunDirectory.prepared(directory).config()
    federation, grouping, plan = checked(config)
    for group in groups:
        check_range("group", group, 0, len(grouping) - 1)
    nobody = np.array([], dtype=np.int64)
    members = tuple(clients if group in groups else nobody for group, clients in enumerate(grouping.members))
    chosen = replace(grouping, members=members)  # with their numbers, which a recipe may depend on
    with Workers(Inline(), federation) as workers:
        trained = [train_groups(workers, chosen, config.recipe, store, progress)]
        if plan:
            trained.append(train_groups(workers, chosen, config.recipe, store, partial(_attacked, progress), plan))
    return trained


def _attacked(progress: Progress, stage: str, done: int, total: int) -> None:
    progress(f"attacked {stage}", done, total)


def federation_of(config: Config) -> Federation:
    """The data of a configuration, without clients that were forgotten."""
    if config.data.name == FLOWER:
        raise InputError("the data of a run over Flower clients are theirs; only its ServerApp can go on with it")
    return datasets.load(config.data.name, **config.data.options).without(config.forget)


def checked(config: Config) -> tuple[Federation, Grouping, AttackPlan | None]:
    """Data, groups and attack of a configuration, refused before anything is trained if they do not fit."""
    federation = federation_of(config)
    grouping = config.grouping.build(federation.ids)
    check_recipe(federation, grouping, config.recipe)
    check_further(config.certificate.also, KIND_OF_GROUPING[grouping.kind])
    if "runoff" in config.certificate.also and config.recipe.smoothing:
        raise InputError("a run-off needs the scores of models; with recipe.smoothing there are only votes")
    if config.compression and config.attack:
        raise InputError("an attack is simulated on models as they are trained; leave out compression or attack")
    return federation, grouping, _attack_plan(config, federation)


def _attack_plan(config: Config, federation: Federation) -> AttackPlan | None:
    """The attack that the configuration asks for, refused before anything is trained if it does not fit."""
    if config.attack is None:
        return None
    choice = Choice(name=config.attack.name, options=config.attack.options)
    if choice.name == "backdoor":
        choice = backdoor_for(config)
    inputs, labels = (torch.tensor(np.array(array)) for array in federation.client(0))
    poisoned, _ = attacks.build(choice).poison(inputs, labels, federation.num_labels)
    module = models.build(config.recipe.model, federation.input_shape, federation.num_labels, config.recipe.seed)
    models.check_output(module, poisoned[-1], federation.num_labels)
    return attacks.plan(choice, config.attack.malicious, federation.ids, config.attack.seed)


def default_directory(config: Config, federation: Federation) -> Path:
    """``runs/<data>-<digest>``: the same configuration finds its own directory again."""
    name = re.sub(r"[^\w.-]+", "-", federation.name).strip("-.")
    return Path("runs") / f"{name}-{config.digest()}"


def open_ensemble(run_directory: RunDirectory) -> Ensemble:
    """The ensemble of a finished run, its models read from the run's own directory."""
    config, manifest = run_directory.config(), run_directory.manifest()
    if manifest["sources"] != list(recipe_sources(config.recipe)):
        raise IntegrityError(
            f"the module of model {config.recipe.model.name!r} is not as it was when this run was trained"
        )
    data, groups, rounds = manifest["data"], manifest["groups"], config.recipe.rounds
    group_of = {entry["model"]: group for group, entry in enumerate(groups) if entry["model"]}

    def load(key: str) -> Arrays:
        arrays = run_directory.load_model(group_of[key], key)
        return expanded(arrays) if config.compression else arrays

    return Ensemble(
        grouping=Grouping(config.grouping.kind, data["clients"], run_directory.members()),
        recipe=config.recipe,
        input_shape=tuple(data["input_shape"]),
        input_dtype=data["input_dtype"],
        num_labels=data["labels"],
        keys=tuple({rounds: entry["model"]} if entry["model"] else None for entry in groups),
        load=load,
        failures={group: entry["failure"] for group, entry in enumerate(groups) if entry["failure"]},
    )
