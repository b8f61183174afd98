"""Keys of the store: the digest of everything that a model or its votes depend on, and what they are made from."""

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from flcert import aggregators
from flcert.attacks import AttackPlan
from flcert.core.digest import digest, digest_arrays, digest_json
from flcert.core.plugins import choice_sources
from flcert.core.settings import Choice
from flcert.core.store import Entry, client_origin
from flcert.datasets import Federation
from flcert.features import Features, PublicFunction
from flcert.training.compression import Dtype
from flcert.training.recipe import Recipe
from flcert.training.smoothing import Smoothing
from flcert.training.tasks import GroupTask

TRAINING_VERSION = 1  # raise it whenever the same inputs would train to different bytes
ATTACK_VERSION = 2  # raise it whenever the same attack would give different bytes
FEATURES_VERSION = 2  # raise it whenever the same examples would give different features
VOTING_VERSION = 2  # raise it whenever the same model and inputs could give different votes
COMPRESSION_VERSION = 1  # raise it whenever the same model would be compressed to different bytes

SERVER = -1  # in place of a client's position: the server's root set


PUBLIC = ("initial", "features")  # in a recipe: names of what is public, whose content is in the key instead


def model_entry(federation: Federation, task: GroupTask, client_digests: dict[int, str], rounds: int) -> Entry:
    """The entry of a group's model after ``rounds`` rounds."""
    recipe = task.recipe.model_dump(mode="json", exclude={"rounds", "evaluate_at", "seeds", "variants", *PUBLIC})
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
    if task.features:
        inputs["features"] = task.features
    if task.recipe.schedule:  # what a round does depends on how many there will be
        inputs["all rounds"] = task.recipe.rounds
    return Entry(digest_json(inputs), tuple(client_origin(user, data) for user, data in clients))


def client_origins(federation: Federation, members: Iterable[int]) -> tuple[str, ...]:
    """What everything that is made from these clients descends from."""
    return tuple(client_origin(federation.ids[one], federation.client_digest(one)) for one in members)


def features_digest(function: PublicFunction, settings: Features) -> str:
    """A digest of all that decides the features of a client's examples, except the examples."""
    changes = settings.model_dump(mode="json", include={"copies", "augmentation", "seed"})
    sources = choice_sources(settings.augmentation) if settings.augmentation else ""
    versions = [FEATURES_VERSION, torch.__version__, np.__version__]
    return digest_json(["features", versions, function.identity, changes, sources])


def features_entry(
    federation: Federation, owner: int, function: PublicFunction, settings: Features, attack: AttackPlan | None
) -> Entry:
    """The entry of the features of one client's examples, or of the root set for the owner ``SERVER``.

    Args:
        federation: the clients' data.
        owner: the position of the client.
        function: the public function.
        settings: copies and their augmentation.
        attack: how the client poisons its examples first, if it does.
    """
    made = features_digest(function, settings)
    if owner == SERVER:
        return Entry(digest_json([made, federation.root_digest()]), ())
    user, data = federation.ids[owner], federation.client_digest(owner)
    poison: object = None
    if attack:
        choice = attack.choice
        poison = [ATTACK_VERSION, choice.model_dump(mode="json"), choice_sources(choice), federation.num_labels]
    return Entry(digest_json([made, user, data, poison]), (client_origin(user, data),))


def block_features_entry(function: PublicFunction, inputs: NDArray[np.generic], trigger: Choice | None) -> Entry:
    """The entry of the features of some test inputs, stamped with a trigger if there is one."""
    versions = [FEATURES_VERSION, torch.__version__, np.__version__]
    stamp = [trigger.model_dump(mode="json"), choice_sources(trigger)] if trigger else None
    return Entry(digest_json(["test features", versions, function.identity, digest_arrays(inputs), stamp]), ())


def _attack_inputs(federation: Federation, plan: AttackPlan) -> list[object]:
    """What an attacked group depends on besides its clients, as JSON values."""
    controlled = sorted(federation.ids[position] for position in plan.malicious)
    return [ATTACK_VERSION, plan.choice.model_dump(mode="json"), controlled, plan.seed]


def recipe_choices(recipe: Recipe, attack: AttackPlan | None = None) -> tuple[Choice, ...]:
    """The plug-ins that a recipe and an attack name."""
    features = (recipe.features, recipe.features.augmentation) if recipe.features else ()
    local = (recipe.augmentation, recipe.optimiser, recipe.schedule, *features)
    named = (recipe.model, recipe.aggregator, *local, attack.choice if attack else None)
    return tuple(choice for choice in named if choice)


def recipe_sources(recipe: Recipe, attack: AttackPlan | None = None) -> tuple[str, ...]:
    """Digests of the user's own modules that a recipe and an attack name; empty for what comes with flcert."""
    return tuple(choice_sources(choice) for choice in recipe_choices(recipe, attack))


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
