"""The most inputs that an attacker of m disjoint groups can break, by branch and bound."""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from flcert.certify.threats import Threats
from flcert.voting.count_table import BoolArray, IntArray

EFFORT = 2**28  # what a search may cost: the cells of the tables that it computes, and OVERHEAD for each table
OVERHEAD = 2**14
LARGEST = 2**22  # no search where groups x threats are more
ALL = slice(None)


class Bound(NamedTuple):
    """An upper bound on a number of inputs, and whether it is reached."""

    most: int
    exact: bool


def most_broken(threats: Threats, num_malicious: int, effort: int = EFFORT) -> Bound:
    """The most inputs that m attacked groups break, or an upper bound if the search becomes too long.

    Sets of groups are built up one group at a time, in a fixed order of the groups. For a set that lacks r groups, all
    of them later in the order, an input may still break if the r later groups that close most of its gap, chosen for
    this input alone, would close it. The number of such inputs bounds what any completion of the set breaks. The set
    with the largest bound is always continued first, so at any time the largest bound of an unfinished set, or the
    best finished set if that is more, bounds everything. The search ends when the latter is reached.

    How long it may take is counted in steps, so the result does not depend on the machine.

    Args:
        threats: the ways in which the inputs can break.
        num_malicious: m, how many groups can be attacked.
        effort: the most that it may cost.
    """
    size = min(num_malicious, len(threats.reach))
    inputs = len(threats.starts)
    if inputs == 0 or size == 0:
        return Bound(0 if size else int(threats.broken(np.zeros_like(threats.gaps)).sum()), exact=True)
    if threats.reach.size > LARGEST or 4 * size * threats.reach.size > effort:
        return Bound(inputs, exact=False)
    search = _Search(threats, size)
    search.dive()
    unfinished: list[tuple[int, int, tuple[int, ...]]] = [(-inputs, 0, ())]
    while unfinished and -unfinished[0][0] > search.best:
        if search.spent > effort:
            return Bound(-unfinished[0][0], exact=False)
        *_, chosen = heappop(unfinished)
        for bound, later in search.continued(chosen):
            if bound > search.best:
                heappush(unfinished, (-bound, -len(later), later))
    return Bound(search.best, exact=True)


class _Search:
    """The sets of groups, their bounds, and the most inputs that a complete set was seen to break."""

    def __init__(self, threats: Threats, size: int) -> None:
        weight = (threats.reach * 2**20 // (threats.gaps + 1)).sum(axis=1)
        order = np.argsort(-weight, kind="stable")
        self.threats = Threats(threats.reach[order], threats.gaps, threats.owners)
        self.size = size
        self.best = 0
        self.spent = 0
        self.twos, self.ones = (_from_here_on(self.threats.reach == value) for value in (2, 1))

    def dive(self) -> None:
        """Find a good set at once: always take the group with the largest bound."""
        chosen: tuple[int, ...] = ()
        while len(chosen) < self.size and (children := self.continued(chosen)):
            _, chosen = max(children)

    def continued(self, chosen: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
        """The sets with one more group, and their bounds; of complete sets only the most that one breaks is kept."""
        first, lacking = chosen[-1] + 1 if chosen else 0, self.size - len(chosen)
        closed = self.threats.reach[list(chosen)].sum(axis=0)
        broken = self.threats.broken(closed)
        done = int(broken.sum())
        within = closed + self._ahead(first, first + 1, lacking)[0] > self.threats.gaps
        open_ones = within & ~broken[self.threats.places]
        self.spent += OVERHEAD
        if not open_ones.any():
            self.best = max(self.best, done)
            return []
        last = len(self.threats.reach) - lacking + 1
        rest = self.threats.part(open_ones)
        ahead = self._ahead(first + 1, last + 1, lacking - 1, open_ones)
        bounds = done + rest.broken(closed[open_ones] + rest.reach[first:last] + ahead).sum(axis=1)
        self.spent += ahead.size
        if lacking == 1:
            self.best = max(self.best, int(bounds.max()))
            return []
        return [(bound, (*chosen, first + place)) for place, bound in enumerate(bounds.tolist())]

    def _ahead(self, first: int, last: int, number: int, kept: BoolArray | slice = ALL) -> IntArray:
        """How much the best groups from ``first``, ..., ``last`` - 1 on close of each gap, (places x threats)."""
        twos, ones = self.twos[first:last][:, kept], self.ones[first:last][:, kept]
        closed: IntArray = 2 * np.minimum(twos, number) + np.clip(number - twos, 0, ones)
        return closed


def _from_here_on(marks: BoolArray) -> IntArray:
    """For each place the number of marks in it and below, with a last row of zeros."""
    padded = np.vstack([marks, np.zeros_like(marks[:1])])
    counted: IntArray = padded[::-1].cumsum(axis=0)[::-1]
    return counted
