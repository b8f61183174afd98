"""Groups drawn at random: what their votes say about all possible groups, and the level that follows."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, comb, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert.certify.confidence import clopper_pearson, hypergeometric
from flcert.certify.search import level_of_turned, levels_by_value
from flcert.certify.turning import groups_to_turn
from flcert.errors import check_range
from flcert.voting.count_table import IntArray


@dataclass(frozen=True)
class Draw:
    """N groups drawn from the C(n, k) possible ones.

    Args:
        num_clients: n.
        group_size: k.
        num_groups: N.
        distinct: whether no group was drawn twice.
    """

    num_clients: int
    group_size: int
    num_groups: int
    distinct: bool

    def __post_init__(self) -> None:
        if self.distinct:
            check_range("num_groups", self.num_groups, 1, self.total, "C(n, k)")

    @cached_property
    def total(self) -> int:
        """C = C(n, k)."""
        return comb(self.num_clients, self.group_size)

    def at_least(self, votes: int, alpha: Fraction) -> int:
        """A lower bound, at confidence 1 - alpha, on how many of all C groups vote for a label with these votes."""
        if self.distinct:
            return hypergeometric(votes, self.num_groups, self.total, alpha)
        return ceil(clopper_pearson(votes, self.num_groups, alpha) * self.total)

    def at_most(self, votes: int, alpha: Fraction) -> int:
        """An upper bound, at confidence 1 - alpha, on how many of all C groups vote for a label with these votes."""
        if self.distinct:
            return self.total - hypergeometric(self.num_groups - votes, self.num_groups, self.total, alpha)
        return floor((1 - clopper_pearson(self.num_groups - votes, self.num_groups, alpha)) * self.total)

    def to_turn(self, least: NDArray[Any], most: NDArray[Any], leads: NDArray[Any]) -> NDArray[Any]:
        """How many of all C groups must turn on each input before a rival draws level.

        Args:
            least: a lower bound on K_y; Python's integers, for they may be huge.
            most: an upper bound on K_z. C - least is another.
            leads: how many trusted votes y has more than the rival. T of them beside N groups weigh T C / N beside C.
        """
        most = np.minimum(most, self.total - least)
        gap = least - most - (-leads.astype(object) * self.total // self.num_groups)
        return groups_to_turn(gap, least, self.total - least - most, self.total)

    def levels(self, least: NDArray[Any], most: NDArray[Any], leads: NDArray[Any]) -> IntArray:
        """The level of each input from the same."""
        return levels_by_value(self.to_turn(least, most, leads), self.level)

    def level_of_least(self, least: int, lead: int) -> int:
        """The level for K_y >= least, where a rival may have all other groups."""
        bound = np.array([least], dtype=object)
        return int(self.levels(bound, self.total - bound, np.array([lead]))[0])

    def level_of_bound(self, lower_bound: Fraction, lead: int = 0) -> int:
        """The largest m that Theorem 1 grants for a lower bound p on p_y, with 1 - p as the bound on every p_z, or -1.

        Without trusted votes, and with C = C(n, k), the condition of Theorem 1 is, in integers,

            2 ceil(p C) + 2 C(n-m, k) > 3 C,   0 <= m <= n-k.

        >>> Draw(30, 2, 500, distinct=False).level_of_bound(Fraction(1))
        8
        """
        if lower_bound <= self.threshold(lead):
            return -1
        return self.level_of_least(ceil(lower_bound * self.total), lead)

    def threshold(self, lead: int) -> Fraction:
        """A label wins for certain if its share of all groups is above (1 - lead / N) / 2."""
        return Fraction(self.num_groups - lead, 2 * self.num_groups)

    def level(self, turned: int) -> int:
        """The largest m that touches fewer groups than must turn, or -1."""
        return level_of_turned(turned, self.total, self.num_clients, self.group_size)
