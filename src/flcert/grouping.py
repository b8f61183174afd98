"""Client ids to groups: FLCert-D (hashed) and FLCert-P (sampled, enumerated).

A grouping depends on the registered ids and on public settings alone; nothing that a client sends can change it.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flcert.errors import InputError, check_range
from flcert.seeding import stream

Kind = Literal["hashed", "sampled", "enumerated"]

MAX_GROUPS = 1_000_000


@dataclass(frozen=True)
class Grouping:
    """Which clients train together.

    Args:
        kind: how the groups were made; it decides which certificate applies.
        num_clients: n.
        members: for each group the positions of its clients, in order of their ids; may be empty.
        group_size: k of FLCert-P, None for FLCert-D.
    """

    kind: Kind
    num_clients: int
    members: tuple[NDArray[np.int64], ...]
    group_size: int | None = None

    def __len__(self) -> int:
        return len(self.members)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of clients in each group."""
        return np.array([len(group) for group in self.members], dtype=np.int64)


def hashed(ids: Sequence[str], num_groups: int, key: str = "flcert") -> Grouping:
    """FLCert-D: each client goes to the group that a keyed hash of its id names.

    Groups may come out empty; they stay empty and cast no vote.

    Args:
        ids: the user ids, unique and fixed at registration.
        num_groups: N.
        key: the key of BLAKE2b, up to 64 bytes.

    >>> [list(group) for group in hashed(["ann", "bob", "cem"], 2).members]
    [[np.int64(2)], [np.int64(0), np.int64(1)]]
    """
    order = _in_order_of_id(ids)
    check_range("num_groups", num_groups, 1, len(ids), "num_clients")
    if not 1 <= len(key.encode()) <= 64:
        raise InputError(f"key must have 1 to 64 bytes, got {len(key.encode())}")
    groups: list[list[int]] = [[] for _ in range(num_groups)]
    for client in order:
        groups[group_of(ids[client], num_groups, key)].append(client)
    return Grouping("hashed", len(ids), tuple(np.array(group, dtype=np.int64) for group in groups))


def group_of(user_id: str, num_groups: int, key: str) -> int:
    """The group of one id: keyed BLAKE2b, 128 bits, modulo N."""
    digest = hashlib.blake2b(user_id.encode("utf-8", "surrogatepass"), key=key.encode(), digest_size=16).digest()
    return int.from_bytes(digest, "big") % num_groups


def sampled(ids: Sequence[str], num_groups: int, group_size: int, seed: int = 0) -> Grouping:
    """FLCert-P: N groups, each a uniformly random k-subset of the clients, independent of each other.

    The same subset can be drawn twice, as Theorem 3 assumes. The seed must not depend on what clients hold.

    Args:
        ids: the user ids.
        num_groups: N.
        group_size: k.
        seed: of the draw.
    """
    order = np.array(_in_order_of_id(ids), dtype=np.int64)
    check_range("group_size", group_size, 1, len(ids), "num_clients")
    check_range("num_groups", num_groups, 1, MAX_GROUPS)
    generator = stream(seed, "grouping", "sampled")
    draws = (np.sort(generator.choice(len(ids), size=group_size, replace=False)) for _ in range(num_groups))
    return Grouping("sampled", len(ids), tuple(order[draw] for draw in draws), group_size)


def enumerated(ids: Sequence[str], group_size: int, limit: int = 10_000) -> Grouping:
    """FLCert-P: all C(n, k) groups of k clients.

    Args:
        ids: the user ids.
        group_size: k.
        limit: the largest number of groups that is accepted.
    """
    order = _in_order_of_id(ids)
    check_range("group_size", group_size, 1, len(ids), "num_clients")
    total = comb(len(ids), group_size)
    if total > limit:
        raise InputError(
            f"C({len(ids)}, {group_size}) = {total:,} groups are more than limit={limit:,}; "
            "raise the limit, or use kind 'sampled'"
        )
    groups = tuple(np.array(group, dtype=np.int64) for group in combinations(order, group_size))
    return Grouping("enumerated", len(ids), groups, group_size)


def _in_order_of_id(ids: Sequence[str]) -> list[int]:
    """Positions sorted by id: the order in which a group's clients are always visited."""
    if not len(ids):
        raise InputError("at least one client is needed, got no ids")
    doubled = [user for user, times in Counter(ids).items() if times > 1]
    if doubled:
        raise InputError(f"user ids must be unique, got {doubled[0]!r} more than once")
    return sorted(range(len(ids)), key=lambda client: ids[client])
