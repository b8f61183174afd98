"""The models of all groups: from the store, or trained by an engine if the store lacks them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from flcert import aggregators
from flcert.attacks import AttackPlan
from flcert.core.determinism import kernels
from flcert.core.store import Arrays, Entry, Store, derived
from flcert.datasets import Federation
from flcert.engines import Engine, Inline, Workers
from flcert.errors import RunError
from flcert.grouping import Grouping
from flcert.training.checks import check_reachable, check_recipe
from flcert.training.compression import Dtype, compressed, expanded
from flcert.training.context import Context
from flcert.training.ensemble import Ensemble
from flcert.training.examples import Featured, features_of_clients
from flcert.training.fill import Job, fill, is_finite, state
from flcert.training.group import train_group
from flcert.training.keys import SERVER, compressed_entry, features_digest, model_entry, recipe_sources
from flcert.training.public import Public, public_of
from flcert.training.recipe import Recipe
from flcert.training.start import initial_digest
from flcert.training.tasks import GroupTask

UNUSABLE = "the data of all its clients are unusable"


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
        recipe: how they train.
        engine: where they train; by default in this process.
        store: where models are kept; by default the platform's cache directory.
    """
    recipe = recipe or Recipe()
    check_recipe(federation, grouping, recipe)
    with Workers(engine or Inline(), federation) as workers:
        return train_groups(Context(workers, store or Store()), grouping, recipe)


def train_groups(
    context: Context, grouping: Grouping, recipe: Recipe, attack: AttackPlan | None = None, public: Public | None = None
) -> Ensemble:
    """Do what ``train`` does, in the caller's context and with a recipe that ``check_recipe`` accepts.

    Each model is stored as soon as it is done, so that a killed run loses only the groups in flight. Under an attack
    only groups that hold a malicious client differ; the others keep the same keys as without one.

    Args:
        context: where to train, and where models are kept.
        grouping: who trains together.
        recipe: how they train.
        attack: who attacks, and how, in a simulation.
        public: what all groups share; by default what the recipe names, read now.
    """
    federation = context.federation
    public = public or public_of(recipe, federation.test_inputs, federation.num_labels)
    check_reachable(context.workers.engine, recipe, attack)
    tasks = _tasks(federation, grouping, recipe, attack, public)
    entries = _model_entries(federation, tasks)
    names = ["" if owned is None else owned[recipe.rounds].key for owned in entries]
    featured = _featured(context, recipe, public, tasks, entries)
    failures = {
        name: reason
        for name, task in zip(names, tasks, strict=True)
        if task and (reason := featured.failure(task.members))
    }
    jobs = {
        name: Job(owned, partial(_with_examples, context.store, featured, task))
        for name, task, owned in zip(names, tasks, entries, strict=True)
        if task is not None and owned is not None and name not in failures
    }
    filled = fill(context, train_group, jobs, context.stage("train"))
    failures |= filled.failures
    kinds = {name: context.store.kernels(name) for name in jobs if name not in failures}
    return Ensemble(
        grouping=grouping,
        recipe=recipe,
        input_shape=federation.input_shape,
        input_dtype=federation.input_dtype,
        num_labels=federation.num_labels,
        keys=tuple(
            None if owned is None or name in failures else {number: one.key for number, one in owned.items()}
            for name, owned in zip(names, entries, strict=True)
        ),
        load=context.store.load,
        public=public,
        origins={one.key: one.made_from for owned in entries if owned for one in owned.values()},
        failures={group: failures[name] for group, name in enumerate(names) if name in failures}
        | {group: UNUSABLE for group, task in enumerate(tasks) if task is None and len(grouping.members[group])},
        diverged=frozenset(group for group, name in enumerate(names) if name in filled.diverged),
        trained=filled.computed,
        reused=filled.reused,
        damaged=filled.damaged,
        kernels=dict(sorted(Counter(kinds[name] for name in names if name in kinds).items())),
    )


def refuse_without_models(ensemble: Ensemble) -> None:
    """End a run in which no group has a model."""
    if not ensemble.model_keys():
        group, reason = next(iter(ensemble.failures.items()))
        raise RunError(f"no group could be trained; group {group}: {reason}")


def compressed_ensemble(ensemble: Ensemble, dtype: Dtype, store: Store) -> Ensemble:
    """The same groups with compressed models, which are put into the store."""
    diverged: set[str] = set()
    entries = {
        key: derived(compressed_entry(key, dtype), ensemble.origins.get(key, ()))
        for owned in ensemble.keys
        if owned
        for key in owned.values()
    }
    for key, entry in entries.items():
        if state(store, [entry], diverged) != "present":
            small = compressed(ensemble.load(key), dtype)
            store.write(entry, small, kernels())
            diverged |= set() if is_finite(small) else {entry.key}
    made = replace(
        ensemble,
        keys=tuple(owned and {rounds: entries[key].key for rounds, key in owned.items()} for owned in ensemble.keys),
        load=partial(_load_compressed, store),
        origins={entry.key: entry.made_from for entry in entries.values()},
    )
    groups = frozenset(group for group, key in made.model_keys().items() if key in diverged)
    return replace(made, diverged=groups)


def _load_compressed(store: Store, key: str) -> Arrays:
    return expanded(store.load(key))


def _model_entries(federation: Federation, tasks: Sequence[GroupTask | None]) -> list[dict[int, Entry] | None]:
    """For each group, the entry of its model after each round that is kept."""
    digests = {position: federation.client_digest(position) for task in tasks if task for position in task.members}
    return [
        {number: model_entry(federation, task, digests, number) for number in task.recipe.snapshots} if task else None
        for task in tasks
    ]


def group_entries(
    federation: Federation, grouping: Grouping, recipe: Recipe, attack: AttackPlan | None = None
) -> list[dict[int, Entry] | None]:
    """For each group, the entry of its model after each round that is kept, without training anything."""
    public = public_of(recipe, federation.test_inputs, federation.num_labels)
    return _model_entries(federation, _tasks(federation, grouping, recipe, attack, public))


def _tasks(
    federation: Federation, grouping: Grouping, recipe: Recipe, attack: AttackPlan | None, public: Public
) -> list[GroupTask | None]:
    """The task of each group that has clients with data, without the features of its examples."""
    starts = Starts(federation, public)
    return [
        _task(starts, recipe.of_group(group), held, attack) if len(held := federation.holders(members)) else None
        for group, members in enumerate(grouping.members)
    ]


class Starts:
    """The digests of the weights that groups start from, each computed once."""

    def __init__(self, federation: Federation, public: Public) -> None:
        self._federation, self.public = federation, public
        self._known: dict[tuple[str, int], str] = {}

    def digest(self, recipe: Recipe) -> str:
        """The digest for one group's recipe."""
        wanted = recipe.model.model_dump_json(), recipe.seed
        if wanted not in self._known:
            shape, labels = self.public.shape(self._federation.input_shape), self._federation.num_labels
            self._known[wanted] = initial_digest(recipe, shape, labels, self.public.start)
        return self._known[wanted]


def _task(starts: Starts, recipe: Recipe, members: NDArray[np.int64], attack: AttackPlan | None) -> GroupTask:
    part, public = _part(attack, members), starts.public
    return GroupTask(
        members=tuple(members.tolist()),
        recipe=recipe,
        sources=recipe_sources(recipe, part),
        attack=part,
        initial=starts.digest(recipe),
        start=public.start,
        features=features_digest(public.function, recipe.features) if public.function and recipe.features else "",
    )


def _part(attack: AttackPlan | None, members: NDArray[np.int64]) -> AttackPlan | None:
    """The attack as one group sees it: by its own malicious members; None if it has none."""
    controlled = attack.malicious & set(members.tolist()) if attack else frozenset()
    return replace(attack, malicious=controlled) if attack and controlled else None


def _featured(
    context: Context,
    recipe: Recipe,
    public: Public,
    tasks: Sequence[GroupTask | None],
    entries: Sequence[dict[int, Entry] | None],
) -> Featured:
    """The features that groups need whose models are not there yet; nothing if models receive the inputs."""
    if public.function is None or recipe.features is None:
        return Featured({}, {})
    owners: dict[int, AttackPlan | None] = {}
    for task, owned in zip(tasks, entries, strict=True):
        if task is not None and owned is not None and state(context.store, owned.values()) != "present":
            malicious = task.attack.malicious if task.attack else frozenset()
            owners |= {one: task.attack if one in malicious else None for one in task.members}
            if aggregators.uses_root(aggregators.build(task.recipe.aggregator)):
                owners[SERVER] = None
    return features_of_clients(context, public.function, recipe.features, owners)


def _with_examples(store: Store, featured: Featured, task: GroupTask) -> GroupTask:
    """The task as a worker needs it."""
    if not task.features:
        return task
    if any(member not in featured.keys for member in task.members):
        raise RunError("models were deleted from the store while they were needed; run the same command again")
    examples = tuple(store.load(featured.keys[member]) for member in task.members)
    server = featured.keys.get(SERVER)
    return replace(task, examples=examples, server=store.load(server) if server else None)
