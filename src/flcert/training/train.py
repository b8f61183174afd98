"""Models and votes of all groups: computed by an engine where the store lacks them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from flcert import aggregators, attacks, models
from flcert.aggregators import Round
from flcert.attacks import AttackPlan
from flcert.datasets import Federation
from flcert.engines import Engine, Inline, Workers
from flcert.errors import FlcertError, InputError, RunError
from flcert.grouping import Grouping
from flcert.isolation import one_thread, own_generators
from flcert.registry import Choice
from flcert.store import Arrays, Store
from flcert.training import augmentation
from flcert.training.compression import DTYPES, Dtype, compressed, compressed_key, expanded
from flcert.training.ensemble import Ensemble
from flcert.training.fill import Job, Progress, fill, silent, state
from flcert.training.group import GroupTask, group_key, recipe_sources, train_group
from flcert.training.local import Replica
from flcert.training.panel import Votes, chunks
from flcert.training.recipe import Recipe
from flcert.training.vote import VoteTask, rank_on_test_set, vote_on_test_set, votes_key
from flcert.voting import NO_VOTE

ALIKE = (
    "sampled groups must all train alike: Theorem 1 needs a model that depends on a group's clients, not on which draw "
    "it was"
)


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
    check_recipe(federation, grouping, recipe)
    with Workers(engine or Inline(), federation) as workers:
        return train_groups(workers, grouping, recipe, store or Store())


def train_groups(
    workers: Workers,
    grouping: Grouping,
    recipe: Recipe,
    store: Store,
    progress: Progress = silent,
    attack: AttackPlan | None = None,
) -> Ensemble:
    """What ``train`` does, with workers that the caller has and a recipe that ``check_recipe`` accepts.

    Each model is stored as soon as it is done, so that a killed run loses only the groups in flight. Under an attack
    only groups that hold a malicious client differ; the others have the keys that they have without one.
    """
    federation = workers.federation
    tasks = [
        _task(recipe.of_group(group), members, attack) if len(members) else None
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


def refuse_without_models(ensemble: Ensemble) -> None:
    """End a run in which no group has a model."""
    if not ensemble.model_keys():
        group, reason = next(iter(ensemble.failures.items()))
        raise RunError(f"no group could be trained; group {group}: {reason}")


def votes_on_test_set(
    workers: Workers,
    ensemble: Ensemble,
    rounds: int,
    store: Store,
    progress: Progress = silent,
    trigger: Choice | None = None,
) -> Votes:
    """The votes of every group on the test inputs, (groups x inputs), -1 for a group without a model.

    Equal to ``ensemble.votes(federation.test_inputs)``, but in parallel, and from the store where it can be.

    Args:
        workers: where.
        ensemble: the trained groups.
        rounds: after which round of ``recipe.snapshots``.
        store: where votes are kept.
        progress: called with a stage, the number done and the total.
        trigger: stamped on the inputs, if given.
    """
    model_keys, digest = ensemble.model_keys(rounds), workers.federation.test_digest()
    keys = {key: votes_key(key, digest, ensemble.recipe.smoothing, trigger) for key in model_keys.values()}
    _fill_votes(vote_on_test_set, workers, ensemble, rounds, keys, store, partial(progress, "vote"), trigger)
    table = np.full((len(ensemble.keys), len(workers.federation.test_labels)), NO_VOTE, dtype=np.int32)
    for group, key in model_keys.items():
        table[group] = load_model(store, keys[key])["votes"]
    return table


def ranks_on_test_set(
    workers: Workers, ensemble: Ensemble, store: Store, progress: Progress = silent
) -> list[NDArray[np.integer]]:
    """For each group that has a model the order in which it puts the labels on each test input.

    The arguments are those of ``votes_on_test_set``.
    """
    model_keys, digest = ensemble.model_keys(), workers.federation.test_digest()
    keys = {key: votes_key(key, digest, what="ranks") for key in model_keys.values()}
    _fill_votes(rank_on_test_set, workers, ensemble, ensemble.recipe.rounds, keys, store, partial(progress, "rank"))
    return [load_model(store, keys[key])["ranks"] for key in model_keys.values()]  # type: ignore[misc]


def _fill_votes(
    function: Callable[[Federation, VoteTask], dict[int, Arrays]],
    workers: Workers,
    ensemble: Ensemble,
    rounds: int,
    keys: dict[str, str],
    store: Store,
    report: Callable[[int, int], None],
    trigger: Choice | None = None,
) -> None:
    """Let the models vote whose results the store lacks, as many together as can be asked together.

    Args:
        function: makes the results of a panel of models.
        workers: where.
        ensemble: the trained groups.
        rounds: after which round.
        keys: under which key the results of each model belong, by the model's key.
        store: where.
        report: called with the number of models done and their total.
        trigger: stamped on the inputs, if given.
    """
    lacking = [key for key, result in keys.items() if state(store, [result]) != "present"]
    owners, there = ensemble.owners(rounds), len(keys) - len(lacking)
    jobs = {
        chunk[0]: Job(
            {seat: keys[key] for seat, key in enumerate(chunk)}, partial(_vote_task, ensemble, owners, chunk, trigger)
        )
        for chunk in chunks(lacking, ensemble.seats)
    }

    def report_models(done: int, _: int) -> None:
        report(there + min(done * ensemble.seats, len(lacking)), len(keys))

    tally = fill(store, workers, function, jobs, report_models)
    for key, reason in tally.failures.items():
        raise RunError(f"the model of key {key} cannot vote: {reason}")


def compressed_ensemble(ensemble: Ensemble, dtype: Dtype, store: Store) -> Ensemble:
    """The same groups with compressed models, which are put into the store."""
    for key in {key for owned in ensemble.keys if owned for key in owned.values()}:
        small = compressed_key(key, dtype)
        if state(store, [small]) != "present":
            store.write(small, compressed(ensemble.load(key), dtype))
    keys = tuple(
        owned and {rounds: compressed_key(key, dtype) for rounds, key in owned.items()} for owned in ensemble.keys
    )
    return replace(ensemble, keys=keys, load=partial(_load_compressed, store))


def _load_compressed(store: Store, key: str) -> Arrays:
    return expanded(load_model(store, key))


def check_recipe(federation: Federation, grouping: Grouping, recipe: Recipe) -> None:
    """Refuse a recipe whose names, options or output width do not fit, before anything is trained."""
    if grouping.num_clients != federation.num_clients:
        raise InputError(f"the grouping is of {grouping.num_clients} clients, the data of {federation.num_clients}")
    check_alike(grouping, recipe)
    module = models.build(recipe.model, federation.input_shape, federation.num_labels, recipe.seed)
    models.check_output(module, torch.from_numpy(np.array(federation.test_inputs[0])), federation.num_labels)
    if recipe.augmentation:
        _check_augmentation(recipe.augmentation, federation)
    for choice in (recipe.of_group(group).aggregator for group in range(max(1, len(recipe.variants)))):
        _check_aggregator(choice, Replica(module), federation)


def check_alike(grouping: Grouping, recipe: Recipe) -> None:
    """Refuse a recipe by which two draws of the same group would train differently."""
    if grouping.kind == "sampled" and (recipe.seeds == "per-group" or recipe.variants):
        raise InputError(f"{ALIKE}; seeds='per-group' and variants go with hashed or enumerated groups")


def _check_augmentation(choice: Choice, federation: Federation) -> None:
    """Refuse an augmentation that cannot change this kind of inputs, or makes something else of them."""
    example = torch.from_numpy(np.array(federation.test_inputs[:2]))
    change = augmentation.build(choice)
    try:
        changed = change(example, torch.Generator().manual_seed(0))
    except FlcertError:
        raise
    except Exception as error:  # a user's code may raise anything
        raise InputError(f"augmentation {choice.name!r} raised {type(error).__name__}: {error}") from None
    if not isinstance(changed, torch.Tensor) or (changed.shape, changed.dtype) != (example.shape, example.dtype):
        got = _kind(changed) if isinstance(changed, torch.Tensor) else type(changed).__name__
        raise InputError(f"augmentation {choice.name!r} must give {_kind(example)}, got {got}")


def _check_aggregator(choice: Choice, replica: Replica, federation: Federation) -> None:
    """Refuse a rule that lacks a root set, or that does not turn a round without movement into an update."""
    aggregator = aggregators.build(choice)
    if aggregators.uses_root(aggregator) and len(federation.root_labels) == 0:
        raise InputError(f"aggregator {choice.name!r} needs a root set of the server (data.options.num_root)")
    still = torch.zeros_like(replica.read())
    calm = Round(still.repeat(3, 1), torch.tensor([1, 1, 1]), replica.num_parameters, still)
    try:
        with one_thread(), own_generators():
            update = aggregator(calm)
    except Exception as error:  # a user's code may raise anything
        raise InputError(f"aggregator {choice.name!r} raised {type(error).__name__}: {error}") from None
    if not isinstance(update, torch.Tensor) or (update.shape, update.dtype) != (still.shape, still.dtype):
        got = _kind(update) if isinstance(update, torch.Tensor) else type(update).__name__
        raise InputError(f"aggregator {choice.name!r} must give {_kind(still)}, got {got}")


def _kind(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}"


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


def keys_of_groups(
    federation: Federation, grouping: Grouping, recipe: Recipe, attack: AttackPlan | None = None
) -> list[set[str]]:
    """For each group the keys of all that the store may hold of it.

    These are its models after every round that is kept, compressed or not, with the attack and without, and their votes
    on the test inputs, stamped with the attack's trigger or not.
    """
    stamps = [None, getattr(attacks.build(attack.choice), "trigger", None) if attack else None]
    keys: list[set[str]] = [set() for _ in grouping.members]
    for plan in (None, attack) if attack else (None,):
        tasks = [
            _task(recipe.of_group(group), members, plan) if len(members) else None
            for group, members in enumerate(grouping.members)
        ]
        for own, owned in zip(keys, _model_keys(federation, tasks), strict=True):
            for trained in (owned or {}).values():
                own |= _keys_of_model(trained, federation.test_digest(), recipe, stamps)
    return keys


def _keys_of_model(trained: str, digest: str, recipe: Recipe, stamps: Iterable[Choice | None]) -> set[str]:
    stored = {trained, *(compressed_key(trained, dtype) for dtype in DTYPES)}
    votes = {votes_key(model, digest, recipe.smoothing, stamp) for model in stored for stamp in stamps}
    return stored | votes | {votes_key(model, digest, what="ranks") for model in stored}


def _task(recipe: Recipe, members: NDArray[np.int64], attack: AttackPlan | None) -> GroupTask:
    part = _part(attack, members)
    return GroupTask(tuple(members.tolist()), recipe, recipe_sources(recipe, part), part)


def _part(attack: AttackPlan | None, members: NDArray[np.int64]) -> AttackPlan | None:
    """The attack as one group sees it: by its own malicious members; None where it has none."""
    controlled = attack.malicious & set(members.tolist()) if attack else frozenset()
    return replace(attack, malicious=controlled) if attack and controlled else None


def _itself(task: GroupTask) -> GroupTask:
    return task


def _vote_task(ensemble: Ensemble, owners: dict[str, int], keys: Sequence[str], trigger: Choice | None) -> VoteTask:
    return VoteTask(tuple(ensemble.voter(owners[key], key) for key in keys), trigger)
