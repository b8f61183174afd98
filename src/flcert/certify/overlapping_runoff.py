"""Run-off election among fixed groups that may share clients."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from flcert.certify.certificate import Certificate
from flcert.certify.ranks import Ballots, RankCounts, gaps_to
from flcert.certify.seats import seats_of
from flcert.errors import InputError
from flcert.voting.count_table import BoolArray, IntArray
from flcert.voting.counting import NO_VOTE, count


def overlapping_runoff(counted: RankCounts, groups: Sequence[ArrayLike], *, num_clients: int) -> Certificate:
    """Certify a run-off among fixed groups; a client may be in several of them.

    Notation as in ``runoff``: p wins against the other finalist s, and F groups failed. f_h is the vote of group h in
    round one. If group h turns, it closes at most

        a_h(i, c)   = 1 + [f_h = i] - [f_h = c]             of g(i, c),
        b_h(c1, c2) = 1 + 2 [f_h = p] - [f_h in {c1, c2}]   of g(p, c1) + g(p, c2),
        d_h(c)      = 2 [h ranks p above c]                 of the gap between p and c in the final,

    and 0 if it failed, because F counts its ballot already. A client closes at most the sum over its groups, and m
    clients at most the sum of the m largest, written A_m, B_m and D_m. Clients in the same groups count once. There are
    two ways to defeat p:

    round one: two labels c1, c2 both overtake p, which needs
        A_m(p, c1) + F >= g(p, c1),  A_m(p, c2) + F >= g(p, c2)  and  B_m(c1, c2) + F >= g(p, c1) + g(p, c2);
    round two: some c reaches the final, overtaking s unless it is s, and beats p there, which needs
        A_m(s, c) + F >= g(s, c)  and  D_m(c) + F >= the gap in the final.

    The level is the largest m at which neither is possible. For disjoint groups it is that of ``runoff``: a group that
    votes for p or s, or that ranks p above c, closes two (or three), and there are always enough of them. It is not
    always the largest level that holds: a group that two malicious clients share is charged twice, and the groups that
    help c into the final need not be those that rank p above c.

    Args:
        counted: the groups' rankings, counted, with the ballots.
        groups: for each group, the positions of its clients. A group with clients but without a model has failed.
        num_clients: n.

    Returns:
        The certificate. An input abstains where the failed groups alone could have changed its label.

    >>> from flcert.certify.ranks import count_ranks
    >>> groups, places = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]], [np.array([[0, 1, 2]])] * 5
    >>> overlapping_runoff(count_ranks(places, groups), groups, num_clients=5).levels
    array([1])
    """
    ballots, labels = _checked(counted, len(groups)), counted.votes.shape[1]
    seats, final = seats_of(groups, num_clients), counted.final()
    failed = (ballots.tops == NO_VOTE)[np.diff(seats.tocsc().indptr) > 0].sum(axis=0).tolist()
    leads, behind = gaps_to(counted.votes, final.winner), gaps_to(counted.votes, final.other)
    needed = np.empty(len(final.winner), dtype=np.int64)
    for row, (winner, other) in enumerate(zip(final.winner.tolist(), final.other.tolist(), strict=True)):
        above = np.unpackbits(ballots.above[:, row], axis=1, count=labels)
        race = _Race(seats, ballots.tops[:, row], failed[row], winner, other)
        needed[row] = race.needed(leads[row], behind[row], final.gaps[row], above)
    return Certificate.build(final.winner, np.where(needed > seats.shape[0], num_clients, needed - 1))


def _checked(counted: RankCounts, num_groups: int) -> Ballots:
    """The ballots, if they are those of so many groups and agree with the counts."""
    ballots, (inputs, labels) = counted.ballots, counted.votes.shape
    if ballots is None or ballots.tops.shape != (num_groups, inputs):
        raise InputError(f"a run-off among groups that share clients needs the ballots of all {num_groups} groups")
    above = ballots.above
    if above.shape != (num_groups, inputs, -(-labels // 8)) or above.dtype != np.uint8:
        raise InputError(f"ballots must have a bit for each of {labels} labels, got {above.dtype} of {above.shape}")
    if (count(ballots.tops, labels) != counted.votes).sum():
        raise InputError("ballots must agree with the counted votes, got ballots of other models")
    return ballots


@dataclass(frozen=True)
class _Race:
    """One input.

    Args:
        seats: the groups that each kind of client is in.
        tops: the label that each group puts first.
        failed: F.
        winner: p.
        other: s.
    """

    seats: csr_array
    tops: NDArray[np.integer]
    failed: int
    winner: int
    other: int

    def needed(self, leads: IntArray, behind: IntArray, final: IntArray, above: NDArray[np.uint8]) -> int:
        """The fewest clients that could defeat the winner.

        Args:
            leads: g(p, c) for every label c.
            behind: g(s, c).
            final: the gap between p and c in the final.
            above: whether each group ranks p above c, (groups x labels).
        """
        (beaten,) = self._least(2 * above[:, [self.other]], final[[self.other]]).tolist()
        beaten = self._round_two(behind, final, above, beaten)
        return self._round_one(leads, beaten)

    def _least(self, closed: NDArray[np.integer], gaps: IntArray) -> IntArray:
        """For each column, the fewest clients that close the gap; more than there are kinds of them if none do.

        Args:
            closed: what each group closes if it turns, (groups x gaps).
            gaps: what must be closed.
        """
        heaviest = -np.sort(-np.asarray(self.seats @ closed.astype(np.int64)), axis=0)
        open_still = heaviest.cumsum(axis=0) + self.failed < gaps
        least: IntArray = (self.failed < gaps) + open_still.sum(axis=0)
        return least

    def _closed(self, leader: int, labels: IntArray) -> IntArray:
        """a_h(leader, c) for these labels."""
        weights = 1 + (self.tops == leader)[:, None] - (self.tops[:, None] == labels)
        return np.where(self._cast[:, None], weights, 0)

    @property
    def _cast(self) -> BoolArray:
        cast: BoolArray = self.tops != NO_VOTE
        return cast

    def _round_two(self, behind: IntArray, final: IntArray, above: NDArray[np.uint8], best: int) -> int:
        """The fewest clients with whom some label beats p in the final, if fewer than ``best``, which s needs."""
        furthest = 2 * int(self.seats.sum(axis=1).max())  # no client closes more
        hopeful = -(-(final - self.failed) // furthest) < best
        hopeful[[self.winner, self.other]] = False
        labels = np.flatnonzero(hopeful)
        reach = self._least(self._closed(self.other, labels), behind[labels])
        beat = self._least(2 * above[:, labels], final[labels])
        return int(np.maximum(reach, beat).min(initial=best))

    def _round_one(self, leads: IntArray, best: int) -> int:
        """The fewest clients with whom two labels overtake p, if fewer than ``best``.

        Of the labels without votes, the two smallest are as near as any.
        """
        labels = np.delete(np.arange(len(leads)), self.winner)
        voted = np.isin(labels, self.tops)
        labels = np.concatenate([labels[voted], labels[~voted][:2]])
        alone = self._least(self._closed(self.winner, labels), leads[labels])
        order = np.argsort(alone, kind="stable")
        for place, nearest in enumerate(alone[order].tolist()):
            if nearest >= best:
                break
            if place:  # with each of those before it
                last, before = labels[order[place]], labels[order[:place]]
                pairs = self._closed(self.winner, before) + self._closed(self.winner, last[None]) - self._cast[:, None]
                together = self._least(pairs, leads[before] + leads[last])
                best = min(best, max(nearest, int(together.min())))
        return best
