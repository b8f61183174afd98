"""Models and votes of all groups: computed by an engine where the store lacks them."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from flcert import aggregators, models
from flcert.datasets import Federation
from flcert.engines import Engine, Inline, Workers
from flcert.errors import RunError
from flcert.grouping import Grouping
from flcert.store import Arrays, Store
from flcert.training.ensemble import Ensemble
from flcert.training.fill import Job, Progress, fill, silent
from flcert.training.group import GroupTask, group_key, group_seed, recipe_sources, train_group
from flcert.training.recipe import Recipe
from flcert.training.vote import Votes, VoteTask, vote_on_test_set, votes_key
from flcert.voting import NO_VOTE


def train(
    federation: Federation,
    grouping: Grouping,
    recipe: Recipe | None = None,
    *,
    engine: Engine | None = None,
    store: Store | None = None,
) -> Ensemble:
    """Train a model for every group that has clients, or take it from the store.

    Args:
        federation: the clients' data.
        grouping: who trains together.
        recipe: how.
        engine: where; by default in this process.
        store: where models are kept; by default the platform's cache directory.
    """
    recipe = recipe or Recipe()
    check_recipe(federation, recipe)
    with Workers(engine or Inline(), federation) as workers:
        return train_groups(workers, grouping, recipe, store or Store())


def train_groups(
    workers: Workers, grouping: Grouping, recipe: Recipe, store: Store, progress: Progress = silent
) -> Ensemble:
    """What ``train`` does, with workers that the caller has and a recipe that ``check_recipe`` accepts.

    Each model is stored as soon as it is done, so that a killed run loses only the groups in flight.
    """
    federation = workers.federation
    sources = recipe_sources(recipe)
    tasks = [
        GroupTask(tuple(members.tolist()), recipe, group_seed(recipe, group), sources) if len(members) else None
        for group, members in enumerate(grouping.members)
    ]
    keys = _model_keys(federation, tasks)
    names = ["" if owned is None else owned[recipe.rounds] for owned in keys]
    jobs = {
        name: Job(owned, partial(_itself, task))
        for name, task, owned in zip(names, tasks, keys, strict=True)
        if task is not None and owned is not None
    }
    tally = fill(store, workers, train_group, jobs, partial(progress, "train"))
    return Ensemble(
        grouping=grouping,
        recipe=recipe,
        input_shape=federation.input_shape,
        input_dtype=federation.input_dtype,
        num_labels=federation.num_labels,
        keys=tuple(None if name in tally.failures else owned for name, owned in zip(names, keys, strict=True)),
        load=partial(load_model, store),
        failures={group: tally.failures[name] for group, name in enumerate(names) if name in tally.failures},
        trained=tally.computed,
        reused=tally.reused,
        damaged=tally.damaged,
    )


def votes_on_test_set(
    workers: Workers, ensemble: Ensemble, rounds: int, store: Store, progress: Progress = silent
) -> Votes:
    """The votes of every group on the test inputs, (groups x inputs), -1 for a group without a model.

    Equal to ``ensemble.votes(federation.test_inputs)``, but in parallel, and from the store where it can be.

    Args:
        workers: where.
        ensemble: the trained groups.
        rounds: after which round of ``recipe.snapshots``.
        store: where votes are kept.
        progress: called with a stage, the number done and the total.
    """
    model_keys, digest = ensemble.model_keys(rounds), workers.federation.test_digest()
    jobs = {key: Job({0: votes_key(key, digest)}, partial(_vote_task, ensemble, key)) for key in model_keys.values()}
    tally = fill(store, workers, _stored_votes, jobs, partial(progress, "vote"))
    for key, reason in tally.failures.items():
        raise RunError(f"the model of key {key} cannot vote: {reason}")
    table = np.full((len(ensemble.keys), len(workers.federation.test_labels)), NO_VOTE, dtype=np.int32)
    for group, key in model_keys.items():
        table[group] = load_model(store, jobs[key].keys[0])["votes"]
    return table


def check_recipe(federation: Federation, recipe: Recipe) -> None:
    """Refuse a recipe whose names, options or output width do not fit, before anything is trained."""
    aggregators.build(recipe.aggregator)
    module = models.build(recipe.model, federation.input_shape, federation.num_labels, recipe.seed)
    models.check_output(module, torch.from_numpy(np.array(federation.test_inputs[0])), federation.num_labels)


def load_model(store: Store, key: str) -> Arrays:
    """The arrays under ``key``, which were there a moment ago."""
    arrays = store.read(key)
    if arrays is None:
        raise RunError(f"{store.path(key)} was deleted while it was needed; run the same command again")
    return arrays


def _model_keys(federation: Federation, tasks: Sequence[GroupTask | None]) -> list[dict[int, str] | None]:
    """For each group the key of its model after each round that is kept."""
    digests = {position: federation.client_digest(position) for task in tasks if task for position in task.members}
    return [
        {number: group_key(federation, task, digests, number) for number in task.recipe.snapshots} if task else None
        for task in tasks
    ]


def _itself(task: GroupTask) -> GroupTask:
    return task


def _vote_task(ensemble: Ensemble, key: str) -> VoteTask:
    return VoteTask(ensemble.recipe.model, ensemble.load(key))


def _stored_votes(federation: Federation, task: VoteTask) -> dict[int, Arrays]:
    return {0: {"votes": vote_on_test_set(federation, task)}}
