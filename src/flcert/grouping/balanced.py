"""FLCert-D with groups of equal size: the registered clients dealt out in the order of a keyed hash."""

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from flcert.core.digest import keyed_number
from flcert.errors import check_range
from flcert.grouping.grouping import Grouping, checked_key, in_order_of_id
from flcert.grouping.kind import DisjointKind, Load, Sizes
from flcert.grouping.participation import share_of_rounds


class Balanced(DisjointKind):
    """Settings of ``balanced``.

    Args:
        num_groups: N.
        key: the key of the hash.
    """

    title: ClassVar[str] = "FLCert-D, balanced"

    kind: str = "balanced"

    @classmethod
    def proposed(cls, sizes: Sizes) -> Self | None:
        """The requested number of groups, if there are enough clients."""
        return None if sizes.num_groups > sizes.num_clients else cls(num_groups=sizes.num_groups)

    def build(self, ids: Sequence[str]) -> Grouping:
        """Group the clients."""
        return balanced(ids, self.num_groups, self.key)

    def load(self, num_clients: int, participation: float) -> Load:
        """One group for each client; group sizes differ by at most one."""
        small, larger = divmod(num_clients, self.num_groups)
        sizes = [small] * (self.num_groups - larger) + [small + 1] * larger
        shares = sum(size * share_of_rounds(size, participation) for size in sizes if size)
        return Load(1.0, shares / num_clients)

    def expected_empty(self, num_clients: int) -> float:  # noqa: ARG002 (for any number)
        """None is empty."""
        return 0.0


def balanced(ids: Sequence[str], num_groups: int, key: str = "flcert") -> Grouping:
    """FLCert-D: the clients in the order of a keyed hash of their ids, dealt out to the groups in turn.

    Group sizes differ by at most one, and no group is empty. Each client is in one group, so Theorem 4 applies. A group
    depends on the whole list of ids, which must be fixed at registration: who registers or leaves later would move
    others. ``GroupingKind.groups_of`` therefore keeps the places of clients that are forgotten.

    Args:
        ids: the user ids, unique and fixed at registration.
        num_groups: N.
        key: the key of BLAKE2b, up to 64 bytes.

    >>> [len(group) for group in balanced([f"user-{i}" for i in range(8)], 3).members]
    [3, 3, 2]
    """
    order = in_order_of_id(ids)
    check_range("num_groups", num_groups, 1, len(ids), "num_clients")
    checked_key(key)
    rank = {client: place for place, client in enumerate(order)}
    dealt = sorted(order, key=lambda client: (keyed_number(ids[client], key), rank[client]))
    groups = (sorted(dealt[first::num_groups], key=rank.__getitem__) for first in range(num_groups))
    return Grouping("balanced", len(ids), tuple(np.array(group, dtype=np.int64) for group in groups))
