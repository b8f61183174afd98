"""Groups drawn at random: what their votes say about all possible groups, and the level that follows."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, comb, floor

import numpy as np

from flcert.certify.confidence import clopper_pearson, hypergeometric
from flcert.certify.search import levels_by_value, untouched_groups
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

    def level_of_gap(self, gap: int) -> int:
        """The largest m that Theorem 1 grants for K_y - K_z >= gap, or -1."""
        return untouched_groups(self.num_clients, self.group_size, more_than=2 * self.total - gap)


@dataclass(frozen=True)
class OneTail:
    """The paper's bound: every rival is given all groups that are not known to vote for y."""

    draw: Draw
    alpha: Fraction

    def level(self, votes: int) -> int:
        """The level of a label with this many votes."""
        draw = self.draw
        if 2 * votes <= draw.num_groups:  # no majority: another label may have as many votes
            return -1
        if not draw.distinct:
            bound = clopper_pearson(votes, draw.num_groups, self.alpha)
            return level_of_bound(bound, draw.num_clients, draw.group_size)
        if draw.num_groups == 1 < draw.total:  # a single group is always a majority of itself: see docs/theory.md
            return -1
        return draw.level_of_gap(2 * draw.at_least(votes, self.alpha) - draw.total)


def level_of_bound(lower_bound: Fraction, num_clients: int, group_size: int) -> int:
    """The largest m that Theorem 1 grants for a lower bound p on p_y, with 1 - p as the bound on every p_z, or -1.

    With C = C(n, k) the condition of Theorem 1 is, in integers,

        2 ceil(p C) + 2 C(n-m, k) > 3 C,   0 <= m <= n-k.

    >>> level_of_bound(Fraction(1), 30, 2)
    8
    """
    if lower_bound <= Fraction(1, 2):
        return -1
    total = comb(num_clients, group_size)
    return untouched_groups(num_clients, group_size, more_than=3 * total - 2 * ceil(lower_bound * total))


@dataclass(frozen=True)
class BothTails:
    """Bounds on the groups of all labels at once: from below for y, from above for its strongest rival."""

    draw: Draw
    alpha: Fraction

    def levels(self, top: IntArray, second: IntArray) -> IntArray:
        """The level of each input from the votes of y and of the strongest rival."""
        draw = self.draw
        low = {int(votes): draw.at_least(int(votes), self.alpha) for votes in np.unique(top)}
        high = {int(votes): draw.at_most(int(votes), self.alpha) for votes in np.unique(second)}
        gaps = np.empty(len(top), dtype=object)  # C(n, k) may exceed any machine integer
        for position, (mine, rival) in enumerate(zip(top.tolist(), second.tolist(), strict=True)):
            gaps[position] = low[mine] - min(high[rival], draw.total - low[mine])
        return levels_by_value(gaps, draw.level_of_gap)
