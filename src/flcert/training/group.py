"""The pure function: a group's clients and a recipe with a seed give a model, bit for bit.

Nothing else may enter: not the other groups, not the number of workers, not what ran before in this process. The
function's key is the digest of its inputs, and a model is stored under that key.
"""

import hashlib
import json
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from flcert import aggregators, attacks, models
from flcert.attacks import AttackPlan
from flcert.datasets import Federation
from flcert.errors import RunError
from flcert.isolation import one_thread, seed_everything
from flcert.registry import choice_sources
from flcert.store import Arrays
from flcert.training.local import Client, Replica
from flcert.training.recipe import Recipe
from flcert.training.rounds import Attacker, run_rounds

TRAINING_VERSION = 1  # raise it whenever the same inputs would train to other bytes
ATTACK_VERSION = 2  # raise it whenever the same attack would


@dataclass(frozen=True)
class GroupTask:
    """The inputs of one training.

    Args:
        members: positions of the group's clients in the federation, in order of id.
        recipe: how to train, with the seed that is the group's own (``Recipe.of_group``).
        sources: digests of the user's own modules, as the process that made the task knows them.
        attack: who attacks this group, if anybody does.
    """

    members: tuple[int, ...]
    recipe: Recipe
    sources: tuple[str, ...] = ("", "")
    attack: AttackPlan | None = None


def train_group(federation: Federation, task: GroupTask) -> dict[int, Arrays]:
    """Train one group and return its model after each round of ``recipe.snapshots``."""
    if task.sources != recipe_sources(task.recipe, task.attack):
        raise RunError(
            "a module of the recipe or the attack was edited after it was imported, or a worker has another text of it"
        )
    with one_thread():
        return _trained(federation, task)


def _trained(federation: Federation, task: GroupTask) -> dict[int, Arrays]:
    seed_everything(task.recipe.seed)
    attacker = _attacker(federation, task.attack) if task.attack else None
    clients = [_client(federation, position, attacker) for position in task.members]
    module = models.build(task.recipe.model, federation.input_shape, federation.num_labels, task.recipe.seed)
    aggregator = aggregators.build(task.recipe.aggregator)
    kept = {}
    server = _server(federation) if aggregators.uses_root(aggregator) else None
    for number in run_rounds(Replica(module), clients, aggregator, task.recipe, server=server, attacker=attacker):
        if number in task.recipe.snapshots:
            kept[number] = {name: _as_array(tensor) for name, tensor in module.state_dict().items()}
    return kept


def group_key(federation: Federation, task: GroupTask, client_digests: dict[int, str], rounds: int) -> str:
    """The digest of everything that the model after ``rounds`` rounds depends on."""
    recipe = task.recipe.model_dump(mode="json", exclude={"rounds", "evaluate_at", "seeds", "variants"})
    given = {name: value for name, value in recipe.items() if value is not None}  # an unused option leaves keys alone
    inputs = {
        "kind": "model",
        "versions": [TRAINING_VERSION, torch.__version__, np.__version__],
        "clients": [[federation.ids[position], client_digests[position]] for position in task.members],
        "labels": federation.num_labels,
        "root": federation.root_digest() if aggregators.uses_root(aggregators.build(task.recipe.aggregator)) else "",
        "recipe": given,
        "rounds": rounds,
        "sources": task.sources,
        "attack": _attack_inputs(federation, task.attack) if task.attack else None,
    }
    return hashlib.blake2b(json.dumps(inputs, sort_keys=True).encode(), digest_size=24).hexdigest()


def recipe_sources(recipe: Recipe, attack: AttackPlan | None = None) -> tuple[str, ...]:
    """Digests of the user's own modules that a recipe and an attack name; empty for what comes with flcert."""
    choices = [recipe.model, recipe.aggregator, recipe.augmentation, attack.choice if attack else None]
    return tuple(choice_sources(choice) for choice in choices if choice)


def _client(federation: Federation, position: int, attacker: Attacker | None) -> Client:
    user = federation.ids[position]
    inputs, labels = (torch.tensor(np.array(array)) for array in federation.client(position))
    reported = len(labels)
    if attacker and user in attacker.controlled:
        inputs, labels = attacker.attack.poison(inputs, labels, federation.num_labels)
    return Client(user, inputs, labels, reported)


def _attacker(federation: Federation, plan: AttackPlan) -> Attacker:
    controlled = frozenset(federation.ids[position] for position in plan.malicious)
    return Attacker(attacks.build(plan.choice), controlled, plan.seed)


def _attack_inputs(federation: Federation, plan: AttackPlan) -> list[object]:
    """What an attacked group depends on besides its clients, as JSON values."""
    controlled = sorted(federation.ids[position] for position in plan.malicious)
    return [ATTACK_VERSION, plan.choice.model_dump(mode="json"), controlled, plan.seed]


def _server(federation: Federation) -> Client:
    """The server's root set, under a name that no user id can have in a stream."""
    inputs, labels = (torch.tensor(np.array(array)) for array in (federation.root_inputs, federation.root_labels))
    return Client("", inputs, labels, len(labels))


def _as_array(tensor: torch.Tensor) -> NDArray[np.generic]:
    array: NDArray[np.generic] = tensor.detach().contiguous().numpy().copy()
    return array
