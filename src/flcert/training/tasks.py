"""Tasks that are sent to workers: the inputs of one training, or models that vote."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flcert.attacks import AttackPlan
from flcert.core.settings import Choice
from flcert.core.store import Arrays
from flcert.training.panel import Voter
from flcert.training.recipe import Recipe


@dataclass(frozen=True)
class GroupTask:
    """The inputs of one training.

    Args:
        members: positions of the group's clients in the federation, in order of id.
        recipe: how to train, with the group's own seed (``Recipe.of_group``).
        sources: digests of the user's own modules, as the process that made the task knows them.
        attack: the attack on this group, if there is one.
        initial: the digest of the weights that the model starts from, as that process knows them; empty if the recipe
            decides them.
        start: those weights, if they are public ones.
        features: the digest of what turns examples into features; empty if the model receives the examples.
        examples: the features and labels of each member.
        server: those of the server's root set, for a rule that uses it.
    """

    members: tuple[int, ...]
    recipe: Recipe
    sources: tuple[str, ...] = ("", "")
    attack: AttackPlan | None = None
    initial: str = ""
    start: Arrays | None = None
    features: str = ""
    examples: tuple[Arrays, ...] | None = None
    server: Arrays | None = None


@dataclass(frozen=True)
class VoteTask:
    """Models that vote on the test inputs, stamped with a trigger if there is one.

    Args:
        voters: the models.
        trigger: the stamp.
        features: the features of the inputs, if that is what the models receive; the stamp is in them.
    """

    voters: tuple[Voter, ...]
    trigger: Choice | None = None
    features: NDArray[np.float32] | None = None
