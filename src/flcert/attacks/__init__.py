"""Simulated attacks by name. They measure; the certificate does not depend on them."""

from collections.abc import Sequence
from dataclasses import dataclass

from flcert.attacks.backdoor import Backdoor
from flcert.attacks.krum import KrumAttack
from flcert.attacks.label_flip import LabelFlip
from flcert.attacks.little import LittleIsEnough
from flcert.attacks.mpaf import MPAF
from flcert.attacks.protocol import Attack, Scene
from flcert.attacks.trim import TrimAttack
from flcert.attacks.zero import ZeroUpdate
from flcert.core import plugins
from flcert.core.seeding import stream
from flcert.core.settings import Choice
from flcert.errors import InputError, check_range, unknown_name

ATTACKS: dict[str, plugins.Factory] = {
    "backdoor": Backdoor,
    "krum": KrumAttack,
    "label-flip": LabelFlip,
    "little-is-enough": LittleIsEnough,
    "mpaf": MPAF,
    "trim": TrimAttack,
    "zero": ZeroUpdate,
}
"""The simulated attacks by name."""

__all__ = ["ATTACKS", "Attack", "AttackPlan", "Scene", "build", "plan"]


@dataclass(frozen=True)
class AttackPlan:
    """Who attacks, and how.

    Args:
        choice: the attack.
        malicious: positions of the clients that the attacker controls.
        seed: the seed of the attacker's draws.
    """

    choice: Choice
    malicious: frozenset[int]
    seed: int = 0


def build(choice: Choice) -> Attack:
    """The attack with this name, or the one that a user's ``package.module:factory`` returns."""
    attack = plugins.build("attack", ATTACKS, choice)
    if not isinstance(attack, Attack):
        raise InputError(f"attack {choice.name!r} must be a flcert.attacks.Attack, got {type(attack).__name__}")
    return attack


def plan(choice: Choice, malicious: int | Sequence[str], ids: Sequence[str], seed: int = 0) -> AttackPlan:
    """An attack by a number of clients drawn from a seeded stream, or by clients named by their ids."""
    if isinstance(malicious, int):
        check_range("malicious", malicious, 1, len(ids), "num_clients")
        order = sorted(range(len(ids)), key=lambda client: ids[client])
        drawn = stream(seed, "malicious clients").permutation(len(ids))[:malicious]
        return AttackPlan(choice, frozenset(order[position] for position in drawn), seed)
    known = {user: position for position, user in enumerate(ids)}
    for user in malicious:
        if user not in known:
            raise unknown_name("malicious client", user, known)
    return AttackPlan(choice, frozenset(known[user] for user in malicious), seed)
