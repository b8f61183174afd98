"""Tasks that are sent to workers: the inputs of one training, or models that vote."""

from dataclasses import dataclass

from flcert.attacks import AttackPlan
from flcert.core.settings import Choice
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
        initial: the digest of the weights that a user's own model starts from, as that process knows them.
    """

    members: tuple[int, ...]
    recipe: Recipe
    sources: tuple[str, ...] = ("", "")
    attack: AttackPlan | None = None
    initial: str = ""


@dataclass(frozen=True)
class VoteTask:
    """Models that vote on the test inputs, stamped with a trigger if there is one.

    Args:
        voters: the models.
        trigger: the stamp.
    """

    voters: tuple[Voter, ...]
    trigger: Choice | None = None
