"""The pure function: a group's clients, a recipe and a seed give a model, bit for bit.

Nothing else may enter: not the other groups, not the number of workers, not what ran before in this process. The
function's key is the digest of its inputs, and a model is stored under that key.
"""

import hashlib
import json
import random
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from flcert import aggregators, models
from flcert.datasets import Federation
from flcert.errors import RunError
from flcert.registry import source_digest
from flcert.seeding import derive
from flcert.store import Arrays
from flcert.training.local import Client, Replica
from flcert.training.recipe import Recipe
from flcert.training.rounds import run_rounds

TRAINING_VERSION = 1  # raise it whenever the same inputs would train to other bytes


@dataclass(frozen=True)
class GroupTask:
    """The inputs of one training.

    Args:
        members: positions of the group's clients in the federation, in order of id.
        recipe: how to train.
        seed: the group's seed.
        sources: digests of the user's own modules, as the process that made the task knows them.
    """

    members: tuple[int, ...]
    recipe: Recipe
    seed: int
    sources: tuple[str, ...] = ("", "")


def train_group(federation: Federation, task: GroupTask) -> dict[int, Arrays]:
    """Train one group and return its model after each round of ``recipe.snapshots``."""
    if task.sources != recipe_sources(task.recipe):
        raise RunError("a module of the recipe was edited after it was imported; start anew")
    seed_everything(task.seed)
    clients = [_client(federation, position) for position in task.members]
    module = models.build(task.recipe.model, federation.input_shape, federation.num_labels, task.seed)
    aggregator = aggregators.build(task.recipe.aggregator)
    kept = {}
    for number in run_rounds(Replica(module), clients, aggregator, task.recipe, task.seed):
        if number in task.recipe.snapshots:
            kept[number] = {name: _as_array(tensor) for name, tensor in module.state_dict().items()}
    return kept


def group_key(federation: Federation, task: GroupTask, client_digests: dict[int, str], rounds: int) -> str:
    """The digest of everything that the model after ``rounds`` rounds depends on."""
    recipe = task.recipe.model_dump(mode="json", exclude={"rounds", "evaluate_at", "seed", "seeds"})
    inputs = {
        "kind": "model",
        "versions": [TRAINING_VERSION, torch.__version__, np.__version__],
        "clients": [[federation.ids[position], client_digests[position]] for position in task.members],
        "labels": federation.num_labels,
        "recipe": recipe,
        "rounds": rounds,
        "seed": task.seed,
        "sources": task.sources,
    }
    return hashlib.blake2b(json.dumps(inputs, sort_keys=True).encode(), digest_size=24).hexdigest()


def recipe_sources(recipe: Recipe) -> tuple[str, ...]:
    """Digests of the user's own modules that a recipe names; empty for what comes with flcert."""
    return tuple(source_digest(choice.name) for choice in (recipe.model, recipe.aggregator))


def group_seed(recipe: Recipe, group: int) -> int:
    """The seed of a group: the recipe's own, or one derived from it."""
    return recipe.seed if recipe.seeds == "shared" else derive(recipe.seed, "group", group)


def seed_everything(seed: int) -> None:
    """Start the process-wide generators afresh, for users' code that draws from them."""
    torch.manual_seed(derive(seed, "torch"))
    random.seed(derive(seed, "python"))
    np.random.seed(derive(seed, "numpy") % 2**32)  # noqa: NPY002 (for users' code)


def _client(federation: Federation, position: int) -> Client:
    inputs, labels = federation.client(position)
    return Client(federation.ids[position], torch.tensor(np.array(inputs)), torch.tensor(np.array(labels)))


def _as_array(tensor: torch.Tensor) -> NDArray[np.generic]:
    array: NDArray[np.generic] = tensor.detach().contiguous().numpy().copy()
    return array
