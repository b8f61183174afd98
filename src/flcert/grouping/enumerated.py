"""FLCert-P: all groups of a fixed size."""

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from flcert.errors import InputError, check_range
from flcert.grouping.grouping import Grouping, in_order_of_id
from flcert.grouping.kind import GroupingKind


class Enumerated(GroupingKind):
    """Settings of ``enumerated``.

    Args:
        group_size: k.
        limit: the largest accepted number of groups.
    """

    title: ClassVar[str] = "FLCert-P with all groups"
    certificate: ClassVar[str] = "enumerated"

    kind: str = "enumerated"
    group_size: int = Field(gt=0)
    limit: int = Field(default=10_000, gt=0)

    def build(self, ids: Sequence[str]) -> Grouping:
        """Group the clients."""
        return enumerated(ids, self.group_size, self.limit)

    def restored(self, num_clients: int, members: tuple[NDArray[np.int64], ...]) -> Grouping:
        """The grouping with these settings, from members that are already known."""
        return Grouping(self.kind, num_clients, members, self.group_size)


def enumerated(ids: Sequence[str], group_size: int, limit: int = 10_000) -> Grouping:
    """FLCert-P: all C(n, k) groups of k clients.

    Args:
        ids: the user ids.
        group_size: k.
        limit: the largest accepted number of groups.
    """
    order = in_order_of_id(ids)
    check_range("group_size", group_size, 1, len(ids), "num_clients")
    total = comb(len(ids), group_size)
    if total > limit:
        raise InputError(
            f"C({len(ids)}, {group_size}) = {total:,} groups are more than limit={limit:,}; "
            "raise the limit, or draw some of them (kind 'sampled')"
        )
    groups = tuple(np.array(group, dtype=np.int64) for group in combinations(order, group_size))
    return Grouping("enumerated", len(ids), groups, group_size)
