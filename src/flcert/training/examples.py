"""Public features in a training: those of each client's examples and of the test inputs, computed once and stored."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flcert import attacks
from flcert.attacks import AttackPlan, triggers
from flcert.core.determinism import one_thread, seed_everything
from flcert.core.seeding import derive
from flcert.core.settings import Choice
from flcert.core.store import Arrays
from flcert.datasets import Federation
from flcert.errors import RunError
from flcert.features import Features, PublicFunction, of_client
from flcert.training import augmentation
from flcert.training.context import Context
from flcert.training.device import array, tensor
from flcert.training.ensemble import features
from flcert.training.fill import Job, fill
from flcert.training.keys import SERVER, block_features_entry, features_entry

BLOCK = 500  # test inputs whose features are stored together


@dataclass(frozen=True)
class FeaturesTask:
    """One client whose examples pass a public function.

    Args:
        owner: the position of the client, or ``SERVER``.
        function: the public function.
        settings: how many changed copies of each example to add, and how.
        attack: the attack of a client that poisons its data first, if it does.
    """

    owner: int
    function: PublicFunction
    settings: Features
    attack: AttackPlan | None = None


@dataclass(frozen=True)
class BlockTask:
    """Some test inputs that pass a public function, each alone.

    Args:
        rows: which of them.
        function: the public function.
        trigger: stamped on the inputs first, if given.
    """

    rows: slice
    function: PublicFunction
    trigger: Choice | None = None


@dataclass(frozen=True)
class Featured:
    """The features of clients.

    Args:
        keys: where those of each client are stored, by position.
        failures: why a client has none.
    """

    keys: Mapping[int, str]
    failures: Mapping[int, str]

    def failure(self, members: Iterable[int]) -> str | None:
        """Why a group of these clients cannot train; None if it can."""
        return next((self.failures[member] for member in members if member in self.failures), None)


def features_of_clients(
    context: Context,
    function: PublicFunction,
    settings: Features,
    owners: Mapping[int, AttackPlan | None],
) -> Featured:
    """Put the features of clients' examples into the store, unless they are there.

    Each client is a job of its own: whatever its data do to a worker, nobody else's features change.

    Args:
        context: where to compute and store them.
        function: the public function.
        settings: copies and their augmentation.
        owners: the clients' positions, each with the attack by which it poisons its data, if it does.
    """
    entries = {
        owner: features_entry(context.federation, owner, function, settings, attack) for owner, attack in owners.items()
    }
    jobs = {
        entries[owner].key: Job({0: entries[owner]}, partial(FeaturesTask, owner, function, settings, attack))
        for owner, attack in owners.items()
    }
    filled = fill(context, client_features, jobs, context.stage("features"))
    keys = {owner: entry.key for owner, entry in entries.items()}
    return Featured(keys, {owner: filled.failures[key] for owner, key in keys.items() if key in filled.failures})


def features_of_test_set(
    context: Context, function: PublicFunction, trigger: Choice | None = None
) -> NDArray[np.float32]:
    """The features of all test inputs, (inputs x features), from the store or computed."""
    inputs = context.federation.test_inputs
    blocks = [slice(start, start + BLOCK) for start in range(0, len(inputs), BLOCK)]
    entries = [block_features_entry(function, inputs[rows], trigger) for rows in blocks]
    jobs = {
        entry.key: Job({0: entry}, partial(BlockTask, rows, function, trigger))
        for rows, entry in zip(blocks, entries, strict=True)
    }
    filled = fill(context, block_features, jobs, context.stage("features of test inputs"))
    for reason in filled.failures.values():
        raise RunError(f"the features of the test inputs cannot be computed: {reason}")
    return np.concatenate([context.store.load(entry.key)["features"] for entry in entries])


def client_features(federation: Federation, task: FeaturesTask) -> dict[int, Arrays]:
    """The features of one client's examples, and of their changed copies, in a worker."""
    user, inputs, labels = _owned(federation, task.owner)
    settings = task.settings
    with one_thread():
        seed_everything(derive(settings.seed, "features", user))
        if task.attack:
            inputs, labels = attacks.build(task.attack.choice).poison(inputs, labels, federation.num_labels)
        module = task.function.module()
        parts = [of_client(module, part) for part in _with_copies(inputs, settings, user)]
    return {0: {"inputs": array(torch.cat(parts)), "labels": array(labels.repeat(len(parts)))}}


def block_features(federation: Federation, task: BlockTask) -> dict[int, Arrays]:
    """The features of some test inputs, in a worker."""
    inputs = tensor(federation.test_inputs[task.rows])
    if task.trigger:
        inputs = triggers.build(task.trigger)(inputs)
    return {0: {"features": features(task.function.module(), array(inputs))}}


def _owned(federation: Federation, owner: int) -> tuple[str, Tensor, Tensor]:
    """The name of an owner in streams, and its examples; no user id is empty, so the server's name is its own."""
    if owner == SERVER:
        return "", tensor(federation.root_inputs), tensor(federation.root_labels)
    inputs, labels = federation.client(owner)
    return federation.ids[owner], tensor(inputs), tensor(labels)


def _with_copies(inputs: Tensor, settings: Features, user: str) -> Iterable[Tensor]:
    """The inputs, then each of their changed copies, from a stream of this client."""
    yield inputs
    if settings.augmentation:
        change = augmentation.build(settings.augmentation)
        generator = torch.Generator().manual_seed(derive(settings.seed, "copies", user))
        for _ in range(settings.copies):
            yield change(inputs, generator)
