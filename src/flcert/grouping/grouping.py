"""Who trains together.

A grouping depends on the registered ids and on public settings alone; nothing that a client sends can change it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flcert.errors import InputError

MAX_GROUPS = 1_000_000
"""The largest accepted number of groups."""


@dataclass(frozen=True)
class Grouping:
    """Which clients train together.

    Args:
        kind: how the groups were made.
        num_clients: n.
        members: for each group, the positions of its clients, in order of their ids; may be empty.
        group_size: k, if all groups have the same size by construction.
        drawn: whether the groups were drawn at random.
        distinct: whether they were drawn without repetition.
    """

    kind: str
    num_clients: int
    members: tuple[NDArray[np.int64], ...]
    group_size: int | None = None
    drawn: bool = False
    distinct: bool = False

    def __post_init__(self) -> None:
        try:
            members = tuple(np.asarray(group, dtype=np.int64).reshape(-1) for group in self.members)
        except (TypeError, ValueError):
            raise InputError(f"groups of kind {self.kind!r} must hold positions of clients") from None
        object.__setattr__(self, "members", members)
        sizes = [len(group) for group in members]
        flat = np.concatenate([np.zeros(0, dtype=np.int64), *members])
        if len(flat) and not 0 <= flat.min() <= flat.max() < self.num_clients:
            raise InputError(
                f"groups of kind {self.kind!r} must hold positions in [0, {self.num_clients - 1}], got "
                f"{flat.min()} to {flat.max()}"
            )
        seats = np.repeat(np.arange(len(members)), sizes) * self.num_clients + flat
        if len(np.unique(seats)) != len(seats):
            raise InputError(f"groups of kind {self.kind!r} must hold each client once at most")

    def __len__(self) -> int:
        return len(self.members)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of clients in each group."""
        return np.array([len(group) for group in self.members], dtype=np.int64)


def in_order_of_id(ids: Sequence[str]) -> list[int]:
    """Positions sorted by id: the order in which a group's clients are always visited."""
    if not len(ids):
        raise InputError("at least one client is needed, got no ids")
    doubled = [user for user, times in Counter(ids).items() if times > 1]
    if doubled:
        raise InputError(f"user ids must be unique, got {doubled[0]!r} more than once")
    return sorted(range(len(ids)), key=lambda client: ids[client])


def checked_key(key: str) -> str:
    """The key of a hash, refused if BLAKE2b cannot use it."""
    if not 1 <= len(key.encode()) <= 64:
        raise InputError(f"key must have 1 to 64 bytes, got {len(key.encode())}")
    return key
