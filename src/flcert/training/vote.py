"""The votes of one model on a set of inputs."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from flcert import models
from flcert.attacks import triggers
from flcert.certify import ranked
from flcert.datasets import Federation
from flcert.isolation import one_thread
from flcert.registry import Choice, choice_sources
from flcert.store import Arrays
from flcert.training.local import Replica
from flcert.training.recipe import Recipe
from flcert.training.smoothing import Smoothing
from flcert.voting import count, predicted_labels, winners

VOTING_VERSION = 1  # raise it whenever the same model and inputs could give other votes
BATCH = 500  # inputs that go through a model at once; fixed, so that the same inputs always give the same votes

Votes = NDArray[np.int32]
Ranks = NDArray[np.uint8] | NDArray[np.uint16]


@dataclass(frozen=True)
class VoteTask:
    """One model that votes on the test inputs, stamped with a trigger if there is one.

    Args:
        recipe: of the model's group; the module is made as it was for training.
        arrays: the model.
        trigger: the stamp.
    """

    recipe: Recipe
    arrays: Arrays
    trigger: Choice | None = None


def rank_on_test_set(federation: Federation, task: VoteTask) -> Ranks:
    """The order in which one model puts all labels on each of the federation's test inputs; see ``certify.ranked``."""
    recipe = task.recipe
    module = models.build(recipe.model, federation.input_shape, federation.num_labels, recipe.seed)
    _load(module, task.arrays)
    places = np.concatenate([ranked(scores) for scores in _scores(module, federation.test_inputs)])
    return places if federation.num_labels > 256 else places.astype(np.uint8)


def vote_on_test_set(federation: Federation, task: VoteTask) -> Votes:
    """The votes of one model on the federation's test inputs."""
    recipe = task.recipe
    module = models.build(recipe.model, federation.input_shape, federation.num_labels, recipe.seed)
    inputs = federation.test_inputs
    if task.trigger:
        inputs = triggers.build(task.trigger)(torch.from_numpy(np.array(inputs))).numpy()
    return model_votes(module, task.arrays, inputs, recipe.smoothing)


def model_votes(
    module: nn.Module, arrays: Arrays, inputs: NDArray[np.generic], smoothing: Smoothing | None = None
) -> Votes:
    """The votes of the model that ``arrays`` turn ``module`` into, with one thread.

    With smoothing, the vote is the majority of the model's noisy copies.
    """
    _load(module, arrays)
    if smoothing is None:
        return _votes(module, inputs)
    replica = Replica(module)
    state = replica.read()
    copies = np.empty((smoothing.copies, len(inputs)), dtype=np.int32)
    for number in range(smoothing.copies):
        replica.write(smoothing.perturbed(state, replica.num_parameters, smoothing.seed, "copy", number))
        copies[number] = _votes(module, inputs)
    return winners(count(copies)).astype(np.int32)


def _load(module: nn.Module, arrays: Arrays) -> None:
    module.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})


def _votes(module: nn.Module, inputs: NDArray[np.generic]) -> Votes:
    return np.concatenate([predicted_labels(scores) for scores in _scores(module, inputs)]).astype(np.int32)


def _scores(module: nn.Module, inputs: NDArray[np.generic]) -> Iterator[NDArray[np.float32]]:
    """The scores of each batch of inputs, (inputs x labels)."""
    module.eval()
    for start in range(0, len(inputs), BATCH):
        with one_thread(), torch.inference_mode():
            yield module(torch.from_numpy(np.array(inputs[start : start + BATCH]))).float().numpy()


def votes_key(
    model_key: str,
    inputs_digest: str,
    smoothing: Smoothing | None = None,
    trigger: Choice | None = None,
    what: str = "votes",
) -> str:
    """The key of one model's votes (or ranks) on a set of inputs, stamped with a trigger if there is one."""
    smoothed = smoothing.model_dump_json() if smoothing else ""
    stamp = f" {trigger.model_dump_json()} {choice_sources(trigger)}" if trigger else ""
    text = f"{what} {VOTING_VERSION} {model_key} {inputs_digest} {smoothed}{stamp}"
    return hashlib.blake2b(text.encode(), digest_size=24).hexdigest()
