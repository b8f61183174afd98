"""Keys of the store: the digest of everything that a model or its votes depend on, and what they are made from."""

from collections.abc import Iterable

import numpy as np
import torch

from flcert import aggregators
from flcert.attacks import AttackPlan
from flcert.core.digest import digest, digest_json
from flcert.core.plugins import choice_sources
from flcert.core.settings import Choice
from flcert.core.store import Entry, client_origin
from flcert.datasets import Federation
from flcert.training.compression import Dtype
from flcert.training.recipe import Recipe
from flcert.training.smoothing import Smoothing
from flcert.training.tasks import GroupTask

TRAINING_VERSION = 1  # raise it whenever the same inputs would train to different bytes
ATTACK_VERSION = 2  # raise it whenever the same attack would give different bytes
VOTING_VERSION = 2  # raise it whenever the same model and inputs could give different votes
COMPRESSION_VERSION = 1  # raise it whenever the same model would be compressed to different bytes


def model_entry(federation: Federation, task: GroupTask, client_digests: dict[int, str], rounds: int) -> Entry:
    """The entry of a group's model after ``rounds`` rounds."""
    recipe = task.recipe.model_dump(mode="json", exclude={"rounds", "evaluate_at", "seeds", "variants"})
    given = {name: value for name, value in recipe.items() if value is not None}  # unused options do not change keys
    clients = [[federation.ids[position], client_digests[position]] for position in task.members]
    inputs: dict[str, object] = {
        "kind": "model",
        "versions": [TRAINING_VERSION, torch.__version__, np.__version__],
        "clients": clients,
        "labels": federation.num_labels,
        "root": federation.root_digest() if aggregators.uses_root(aggregators.build(task.recipe.aggregator)) else "",
        "recipe": given,
        "rounds": rounds,
        "sources": task.sources,
        "attack": _attack_inputs(federation, task.attack) if task.attack else None,
    }
    if task.initial:
        inputs["initial"] = task.initial
    return Entry(digest_json(inputs), tuple(client_origin(user, data) for user, data in clients))


def client_origins(federation: Federation, members: Iterable[int]) -> tuple[str, ...]:
    """What everything that is made from these clients descends from."""
    return tuple(client_origin(federation.ids[one], federation.client_digest(one)) for one in members)


def _attack_inputs(federation: Federation, plan: AttackPlan) -> list[object]:
    """What an attacked group depends on besides its clients, as JSON values."""
    controlled = sorted(federation.ids[position] for position in plan.malicious)
    return [ATTACK_VERSION, plan.choice.model_dump(mode="json"), controlled, plan.seed]


def recipe_sources(recipe: Recipe, attack: AttackPlan | None = None) -> tuple[str, ...]:
    """Digests of the user's own modules that a recipe and an attack name; empty for what comes with flcert."""
    choices = [recipe.model, recipe.aggregator, recipe.augmentation, attack.choice if attack else None]
    return tuple(choice_sources(choice) for choice in choices if choice)


def votes_entry(
    model_key: str,
    inputs_digest: str,
    smoothing: Smoothing | None = None,
    trigger: Choice | None = None,
    what: str = "votes",
) -> Entry:
    """The entry of one model's votes (or ranks) on a set of inputs, stamped with a trigger if there is one."""
    smoothed = smoothing.model_dump_json() if smoothing else ""
    stamp = f" {trigger.model_dump_json()} {choice_sources(trigger)}" if trigger else ""
    return Entry(digest(f"{what} {VOTING_VERSION} {model_key} {inputs_digest} {smoothed}{stamp}"), (model_key,))


def compressed_entry(model_key: str, dtype: Dtype) -> Entry:
    """The entry of a compressed model."""
    return Entry(digest(f"compressed {COMPRESSION_VERSION} {dtype} {model_key}"), (model_key,))
