"""Client ids to groups: FLCert-D (hashed), FLCert-P (sampled, enumerated) and finite aggregation (spread).

A grouping depends on the registered ids and on public settings alone; nothing that a client sends can change it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb, floor
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flcert.errors import InputError, check_range
from flcert.seeding import stream

Kind = Literal["hashed", "sampled", "enumerated", "spread"]

MAX_GROUPS = 1_000_000


@dataclass(frozen=True)
class Grouping:
    """Which clients train together.

    Args:
        kind: how the groups were made; it decides which certificate applies.
        num_clients: n.
        members: for each group the positions of its clients, in order of their ids; may be empty.
        group_size: k of FLCert-P, None for the others.
        distinct: whether sampled groups were drawn without repetition.
    """

    kind: Kind
    num_clients: int
    members: tuple[NDArray[np.int64], ...]
    group_size: int | None = None
    distinct: bool = False

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


def spread(ids: Sequence[str], num_groups: int, copies: int = 2, key: str = "flcert") -> Grouping:
    """Finite aggregation (Wang et al., ICML 2022): each client serves several groups, the same number for all.

    A keyed hash puts each client into one of N buckets, and bucket h feeds the groups (h + s) mod N for ``copies``
    different shifts s, drawn from the key. Each group then learns from as many buckets.

    Args:
        ids: the user ids, unique and fixed at registration.
        num_groups: N.
        copies: d, the groups that a client serves; what it has to do grows by this factor.
        key: of the hash and the shifts.
    """
    buckets = hashed(ids, num_groups, key).members
    check_range("copies", copies, 1, num_groups, "num_groups")
    digest = hashlib.blake2b(b"shifts", key=key.encode(), digest_size=7).digest()
    shifts = stream(int.from_bytes(digest, "big"), "grouping", "spread").permutation(num_groups)[:copies]
    rank = {client: place for place, client in enumerate(_in_order_of_id(ids))}
    groups = []
    for group in range(num_groups):
        fed = np.concatenate([buckets[(group - int(shift)) % num_groups] for shift in shifts])
        groups.append(np.array(sorted(fed.tolist(), key=rank.__getitem__), dtype=np.int64))
    return Grouping("spread", len(ids), tuple(groups))


def sampled(ids: Sequence[str], num_groups: int, group_size: int, seed: int = 0, *, distinct: bool = False) -> Grouping:
    """FLCert-P: N groups, each a uniformly random k-subset of the clients.

    By default they are independent of each other, so the same subset can be drawn twice, as Theorem 3 assumes. The seed
    must not depend on what clients hold.

    Args:
        ids: the user ids.
        num_groups: N.
        group_size: k.
        seed: of the draw.
        distinct: draw N different subsets instead, each set of N with the same probability.
    """
    order = np.array(_in_order_of_id(ids), dtype=np.int64)
    check_range("group_size", group_size, 1, len(ids), "num_clients")
    total = comb(len(ids), group_size)
    check_range("num_groups", num_groups, 1, MAX_GROUPS)
    if distinct and num_groups > total:
        raise InputError(
            f"num_groups must be at most {total:,}, as many as there are distinct groups of {group_size} of the "
            f"{len(ids)} clients, got {num_groups}"
        )
    generator = stream(seed, "grouping", "distinct" if distinct else "sampled")
    if distinct and total <= MAX_GROUPS:
        chosen = generator.permutation(total)[:num_groups]
        draws = [np.array(_subset(int(number), len(ids), group_size)) for number in chosen]
    else:
        draws = list(islice(_draws(generator, len(ids), group_size, distinct), num_groups))
    return Grouping("sampled", len(ids), tuple(order[draw] for draw in draws), group_size, distinct)


def _draws(
    generator: np.random.Generator, num_clients: int, group_size: int, distinct: bool
) -> Iterator[NDArray[np.int64]]:
    """Random subsets without end; a repeated one is passed over if they must be distinct."""
    seen: set[bytes] = set()
    while True:
        draw = np.sort(generator.choice(num_clients, size=group_size, replace=False))
        if not distinct or draw.tobytes() not in seen:
            seen |= {draw.tobytes()} if distinct else set()
            yield draw


def _subset(number: int, num_clients: int, group_size: int) -> list[int]:
    """The k-subset with this number in lexicographic order.

    >>> [_subset(number, 4, 2) for number in range(6)]
    [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    """
    subset: list[int] = []
    client = 0
    while len(subset) < group_size:
        with_it = comb(num_clients - client - 1, group_size - len(subset) - 1)
        if number < with_it:
            subset.append(client)
        else:
            number -= with_it
        client += 1
    return subset


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


def num_participants(num_clients: int, participation: float) -> int:
    """How many clients of a group take part in a round: a share of them, rounded, at least one."""
    return max(1, floor(participation * num_clients + 0.5))


def _in_order_of_id(ids: Sequence[str]) -> list[int]:
    """Positions sorted by id: the order in which a group's clients are always visited."""
    if not len(ids):
        raise InputError("at least one client is needed, got no ids")
    doubled = [user for user, times in Counter(ids).items() if times > 1]
    if doubled:
        raise InputError(f"user ids must be unique, got {doubled[0]!r} more than once")
    return sorted(range(len(ids)), key=lambda client: ids[client])
