"""The votes of one model on a set of inputs."""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from flcert import models
from flcert.datasets import Federation
from flcert.engines.isolation import one_thread
from flcert.registry import Choice
from flcert.store import Arrays
from flcert.voting import predicted_labels

VOTING_VERSION = 1  # raise it whenever the same model and inputs could give other votes
BATCH = 500  # inputs that go through a model at once; fixed, so that the same inputs always give the same votes

Votes = NDArray[np.int32]


@dataclass(frozen=True)
class VoteTask:
    """One model that votes on the test inputs."""

    model: Choice
    arrays: Arrays


def vote_on_test_set(federation: Federation, task: VoteTask) -> Votes:
    """The votes of one model on the federation's test inputs."""
    module = models.build(task.model, federation.input_shape, federation.num_labels, seed=0)
    return model_votes(module, task.arrays, federation.test_inputs)


def model_votes(module: nn.Module, arrays: Arrays, inputs: NDArray[np.generic]) -> Votes:
    """The votes of the model that ``arrays`` turn ``module`` into, with one thread."""
    module.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})
    module.eval()
    with one_thread(), torch.inference_mode():
        batches = (torch.from_numpy(np.array(inputs[start : start + BATCH])) for start in range(0, len(inputs), BATCH))
        labels = [predicted_labels(module(batch).float().numpy()) for batch in batches]
    return np.concatenate(labels).astype(np.int32)


def votes_key(model_key: str, inputs_digest: str) -> str:
    """The key of one model's votes on a set of inputs."""
    text = f"votes {VOTING_VERSION} {model_key} {inputs_digest}"
    return hashlib.blake2b(text.encode(), digest_size=24).hexdigest()
