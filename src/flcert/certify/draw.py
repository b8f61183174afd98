"""Groups drawn at random: what their votes say about all possible groups, and the level that follows."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, comb, floor

import numpy as np

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

    def to_turn(self, least: int, most: int, lead: int = 0) -> int:
        """How many of all C groups must turn before a rival draws level, for K_y >= least and K_z <= most.

        Args:
            least: a lower bound on K_y.
            most: an upper bound on K_z; the two together are at most C.
            lead: how many trusted votes y has more than the rival. T of them beside N groups weigh T C / N beside C.
        """
        gap = least - most + ceil(Fraction(lead * self.total, self.num_groups))
        exact = np.array([[gap], [least], [self.total - least - most], [self.total]], dtype=object)  # may be huge
        return int(groups_to_turn(*exact)[0])

    def level_of_bound(self, lower_bound: Fraction, lead: int = 0) -> int:
        """The largest m that Theorem 1 grants for a lower bound p on p_y, with 1 - p as the bound on every p_z, or -1.

        Without trusted votes, and with C = C(n, k), the condition of Theorem 1 is, in integers,

            2 ceil(p C) + 2 C(n-m, k) > 3 C,   0 <= m <= n-k.

        >>> Draw(30, 2, 500, distinct=False).level_of_bound(Fraction(1))
        8
        """
        if lower_bound <= self.threshold(lead):
            return -1
        least = ceil(lower_bound * self.total)
        return self.level(self.to_turn(least, self.total - least, lead))

    def threshold(self, lead: int) -> Fraction:
        """A label wins for certain if its share of all groups is above (1 - lead / N) / 2."""
        return Fraction(self.num_groups - lead, 2 * self.num_groups)

    def level(self, turned: int) -> int:
        """The largest m that touches fewer groups than must turn, or -1."""
        return level_of_turned(turned, self.total, self.num_clients, self.group_size)


@dataclass(frozen=True)
class OneTail:
    """The paper's bound: every rival is given all groups that are not known to vote for y.

    Args:
        draw: the draw.
        alpha: the failure probability.
        lead: T if y is the label of the trusted model, -T if it is a rival's.
    """

    draw: Draw
    alpha: Fraction
    lead: int = 0

    def level(self, votes: int) -> int:
        """The level of a label with this many votes.

        The selection correction needs more than the bound: at least 1 + (N-1) s votes, where s is the share above which
        the label wins. Without trusted votes that is a majority.
        """
        draw, threshold = self.draw, self.draw.threshold(self.lead)
        if threshold < 0:  # more trusted votes than groups
            return draw.num_clients
        if votes < 1 + (draw.num_groups - 1) * threshold:
            return -1
        if not draw.distinct:
            return draw.level_of_bound(clopper_pearson(votes, draw.num_groups, self.alpha), self.lead)
        if draw.num_groups == 1 < draw.total:  # a single group is always a majority of itself: see docs/theory.md
            return -1
        least = draw.at_least(votes, self.alpha)
        return draw.level(draw.to_turn(least, draw.total - least, self.lead))


@dataclass(frozen=True)
class BothTails:
    """Bounds on the groups of all labels at once: from below for y, from above for a rival."""

    draw: Draw
    alpha: Fraction

    def levels(self, top: IntArray, rivals: IntArray, leads: IntArray) -> IntArray:
        """The level of each input from the votes of y and of a rival, and the trusted votes that y has more."""
        draw = self.draw
        low = {int(votes): draw.at_least(int(votes), self.alpha) for votes in np.unique(top)}
        high = {int(votes): draw.at_most(int(votes), self.alpha) for votes in np.unique(rivals)}
        turned = np.empty(len(top), dtype=object)
        for position, (mine, rival, lead) in enumerate(zip(top.tolist(), rivals.tolist(), leads.tolist(), strict=True)):
            turned[position] = draw.to_turn(low[mine], min(high[rival], draw.total - low[mine]), lead)
        return levels_by_value(turned, draw.level)
