"""FLCert-D: disjoint groups by a keyed hash of the user id."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from flcert.core.digest import keyed_number
from flcert.errors import check_range
from flcert.grouping.grouping import Grouping, checked_key, in_order_of_id
from flcert.grouping.kind import DisjointKind, Load
from flcert.grouping.participation import expected_share


class Hashed(DisjointKind):
    """Settings of ``hashed``.

    Args:
        num_groups: N.
        key: the key of the hash.
    """

    title: ClassVar[str] = "FLCert-D"

    kind: str = "hashed"

    def build(self, ids: Sequence[str]) -> Grouping:
        """Group the clients."""
        return hashed(ids, self.num_groups, self.key)

    def load(self, num_clients: int, participation: float) -> Load:
        """A client is in one group, and takes part in about beta_e of its rounds."""
        return Load(1.0, expected_share(num_clients, 1 / self.num_groups, participation))

    def expected_empty(self, num_clients: int) -> float:
        """N (1 - 1/N)^n."""
        return expected_empty(num_clients, self.num_groups)


def expected_empty(num_clients: int, num_groups: int) -> float:
    """How many groups a hash leaves without clients, on average: N (1 - 1/N)^n."""
    return float(num_groups * (1 - 1 / num_groups) ** num_clients)


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
    order = in_order_of_id(ids)
    check_range("num_groups", num_groups, 1, len(ids), "num_clients")
    checked_key(key)
    groups: list[list[int]] = [[] for _ in range(num_groups)]
    for client in order:
        groups[group_of(ids[client], num_groups, key)].append(client)
    return Grouping("hashed", len(ids), tuple(np.array(group, dtype=np.int64) for group in groups))


def group_of(user_id: str, num_groups: int, key: str) -> int:
    """The group of one id: keyed BLAKE2b, 128 bits, modulo N."""
    return keyed_number(user_id, key) % num_groups
