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
from flcert.grouping.kind import GroupingKind, Load
from flcert.grouping.participation import share_of_rounds

ASTRONOMIC = 10**15  # larger numbers of groups are not printed


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

    def check(self, num_clients: int) -> None:
        """Groups cannot be larger than all clients, nor more than the limit."""
        check_number(num_clients, self.group_size, self.limit)

    def load(self, num_clients: int, participation: float) -> Load:
        """A client is in C(n-1, k-1) groups."""
        return Load(float(comb(num_clients - 1, self.group_size - 1)), share_of_rounds(self.group_size, participation))

    def expected_empty(self, num_clients: int) -> float:  # noqa: ARG002 (whatever their number)
        """Zero: every group has k clients."""
        return 0.0

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
    check_number(len(ids), group_size, limit)
    groups = tuple(np.array(group, dtype=np.int64) for group in combinations(order, group_size))
    return Grouping("enumerated", len(ids), groups, group_size)


def check_number(num_clients: int, group_size: int, limit: int) -> None:
    """Refuse a size of groups that clients do not suffice for, or of which there are too many groups."""
    check_range("group_size", group_size, 1, num_clients, "num_clients")
    total = comb(num_clients, group_size)
    if total > limit:
        number = f"= {total:,}" if total < ASTRONOMIC else f"> {ASTRONOMIC:,}"
        raise InputError(
            f"C({num_clients}, {group_size}) {number} groups are more than limit={limit:,}; "
            "raise the limit, or draw some of them (kind 'sampled')"
        )
