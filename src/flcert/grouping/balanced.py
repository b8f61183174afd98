"""FLCert-D with groups of equal size: the registered clients dealt out in the order of a keyed hash."""

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapreplace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field

from flcert.core.digest import keyed_number
from flcert.core.files import read_json
from flcert.errors import InputError, check_range
from flcert.grouping.grouping import Grouping, checked_key, in_order_of_id
from flcert.grouping.kind import DisjointKind, Load
from flcert.grouping.participation import share_of_rounds


def _numbers(value: Any) -> Any:
    """Numbers of examples: a table, or the path of a JSON file with one."""
    return read_json(Path(value)) if isinstance(value, str) else value


class Balanced(DisjointKind):
    """Settings of ``balanced``.

    Args:
        num_groups: N.
        key: the key of the hash.
        late: ids that registered after the groups were formed, in the order in which they came.
        examples: the public number of examples of each client, by id; groups are then balanced by examples instead of
            clients. In a configuration also the path of a JSON file with this table.
    """

    title: ClassVar[str] = "FLCert-D, balanced"

    kind: str = "balanced"
    late: tuple[str, ...] = ()
    examples: Annotated[dict[str, Annotated[int, Field(ge=0)]] | None, BeforeValidator(_numbers)] = None

    def build(self, ids: Sequence[str]) -> Grouping:
        """Group the clients."""
        return balanced(ids, self.num_groups, self.key, late=self.late, examples=self.examples)

    def check(self, num_clients: int) -> None:
        """There must be as many groups as clients at most, those that come late not among them."""
        check_range("num_groups", self.num_groups, 1, num_clients - len(self.late), "num_clients")

    def load(self, num_clients: int, participation: float) -> Load:
        """One group for each client; group sizes differ by at most one, or about so if examples are balanced."""
        small, larger = divmod(num_clients, self.num_groups)
        sizes = [small] * (self.num_groups - larger) + [small + 1] * larger
        shares = sum(size * share_of_rounds(size, participation) for size in sizes if size)
        return Load(1.0, shares / num_clients)

    def expected_empty(self, num_clients: int) -> float:
        """None is empty, unless so many clients were forgotten that fewer are left than there are groups."""
        return float(max(0, self.num_groups - num_clients))


def balanced(
    ids: Sequence[str],
    num_groups: int,
    key: str = "flcert",
    *,
    late: Sequence[str] = (),
    examples: Mapping[str, int] | None = None,
) -> Grouping:
    """FLCert-D: the clients in the order of a keyed hash of their ids, dealt out to the groups in turn.

    Group sizes differ by at most one, and no group is empty. Each client is in one group, so Theorem 4 applies. A group
    depends on the whole list of ids, which must be fixed at registration: who registers or leaves later would move
    others. ``GroupingKind.groups_of`` therefore keeps the places of clients that are forgotten, and clients that come
    late go to the smallest group, one after the other.

    Args:
        ids: the user ids, unique and fixed at registration; those that come late among them.
        num_groups: N.
        key: the key of BLAKE2b, up to 64 bytes.
        late: ids that registered after the groups were formed, in the order in which they came.
        examples: the number of examples of each client. Clients are then dealt out from the largest to the smallest,
            each to the group with the fewest examples so far. The numbers must be public: fixed at registration, and
            not for a client to choose.

    >>> [len(group) for group in balanced([f"user-{i}" for i in range(8)], 3).members]
    [3, 3, 2]
    """
    order = in_order_of_id(ids)
    latecomers = _positions_of_late(ids, late)
    came_late = set(latecomers)
    first = [client for client in order if client not in came_late]
    check_range("num_groups", num_groups, 1, len(first), "num_clients")
    checked_key(key)
    weights = _weights(ids, examples)
    rank = {client: number for number, client in enumerate(order)}
    dealt = sorted(first, key=lambda client: (-weights[client], keyed_number(ids[client], key), rank[client]))
    groups: list[list[int]] = [[] for _ in range(num_groups)]
    smallest = [(0, 0, number) for number in range(num_groups)]  # a heap: what is balanced, clients, group
    for client in (*dealt, *latecomers):
        weight, size, number = smallest[0]
        groups[number].append(client)
        heapreplace(smallest, (weight + weights[client], size + 1, number))
    members = (sorted(group, key=rank.__getitem__) for group in groups)
    return Grouping("balanced", len(ids), tuple(np.array(group, dtype=np.int64) for group in members))


def _positions_of_late(ids: Sequence[str], late: Sequence[str]) -> list[int]:
    place = {user: client for client, user in enumerate(ids)}
    for user, times in Counter(late).items():
        if user not in place:
            raise InputError(f"late must name registered clients, got {user!r}, which is none")
        if times > 1:
            raise InputError(f"late must name each client once, got {user!r} more than once")
    return [place[user] for user in late]


def _weights(ids: Sequence[str], examples: Mapping[str, int] | None) -> list[int]:
    """What each client adds to its group: its examples, or one."""
    if examples is None:
        return [1] * len(ids)
    for user in ids:
        if user not in examples:
            raise InputError(f"examples must have a number for every client, got none for {user!r}")
    return [examples[user] for user in ids]
