"""Run-off election among disjoint groups (Rezaei et al., ICML 2023): two rounds, and a certificate from both."""

from typing import ClassVar

import numpy as np

from flcert.certify.certificate import Certificate
from flcert.certify.disjoint import share_no_client
from flcert.certify.evidence import Evidence
from flcert.certify.guarantee import Groups, Guarantee, Need
from flcert.certify.ranks import RankCounts, finalists
from flcert.errors import InputError
from flcert.voting.count_table import IntArray

FAR = np.int64(2**40)  # further than any attack reaches


def runoff(counted: RankCounts, *, num_failed: int = 0) -> Certificate:
    """Certify a run-off: the two labels with the most votes go on; each group then votes for the one it ranks higher.

    Ties go to the smaller index in both rounds. Let p win against the other finalist s, with v the votes of round one,
    g(i, j) = v_i - v_j + [j > i], and x+ = max(x, 0). A malicious client changes one group, so it closes a gap by at
    most two, and two gaps to p together by at most three. There are two ways to defeat p:

    round one: two labels c1, c2 both overtake p, which takes at least
        R1 = min over c1, c2 of max(ceil(g(p, c1)+ / 2), ceil(g(p, c2)+ / 2), ceil((g(p, c1)+ + g(p, c2)+) / 3));
    round two: some c reaches the final, overtaking s, and beats p there, which takes at least
        R2 = min over c of max(ceil(g(s, c)+ / 2), ceil((2 #{groups that rank p above c} - N + [c > p])+ / 2)).

    The level is min(R1, R2) - 1. The label can differ from that of the plain vote.

    Args:
        counted: the groups' rankings, counted.
        num_failed: groups with clients but without a model; each counts as a group that turned against p.

    Returns:
        The certificate. An input abstains where the failed groups alone could have changed its label.

    >>> from flcert.certify.ranks import count_ranks
    >>> places = [np.array([[0, 1, 2]]), np.array([[0, 1, 2]]), np.array([[1, 0, 2]])]
    >>> runoff(count_ranks(places)).labels, runoff(count_ranks(places)).levels
    (array([0]), array([0]))
    """
    if num_failed < 0:
        raise InputError(f"num_failed must be at least 0, got {num_failed}")
    votes, groups = counted.votes, counted.num_groups
    first, second = finalists(votes)
    supporters = np.take_along_axis(counted.first_wins, second[:, None], axis=1)[:, 0]
    first_wins = 2 * supporters - groups + (second > first) > 0
    winner, other = np.where(first_wins, first, second), np.where(first_wins, second, first)
    above = np.where(first_wins[:, None], counted.first_wins, counted.second_wins)
    needed = np.minimum(_round_one(votes, winner), _round_two(votes, winner, other, above, groups))
    return Certificate.build(winner, needed - 1 - num_failed)


def _gaps(votes: IntArray, leader: IntArray) -> IntArray:
    """g(leader, c)+ for every label c."""
    labels = np.arange(votes.shape[1])
    ahead = np.take_along_axis(votes, leader[:, None], axis=1) - votes + (labels > leader[:, None])
    positive: IntArray = np.maximum(ahead, 0)
    return positive


def _round_one(votes: IntArray, winner: IntArray) -> IntArray:
    """R1; the two smallest gaps are the cheapest pair, because the cost never falls as a gap grows."""
    gaps = _gaps(votes, winner)
    np.put_along_axis(gaps, winner[:, None], FAR, axis=1)
    if votes.shape[1] < 3:
        return np.full(len(votes), FAR)
    smallest = np.partition(gaps, 1, axis=1)
    first, second = smallest[:, 0], smallest[:, 1]
    cheapest: IntArray = np.maximum(-(-second // 2), -(-(first + second) // 3))
    return cheapest


def _round_two(votes: IntArray, winner: IntArray, other: IntArray, above: IntArray, num_groups: int) -> IntArray:
    """R2, from the cost of reaching the final and the cost of winning it."""
    labels = np.arange(votes.shape[1])
    reach = -(-_gaps(votes, other) // 2)
    np.put_along_axis(reach, other[:, None], 0, axis=1)
    beat = -(-np.maximum(2 * above - num_groups + (labels > winner[:, None]), 0) // 2)
    cost = np.maximum(reach, beat)
    np.put_along_axis(cost, winner[:, None], FAR, axis=1)
    least: IntArray = cost.min(axis=1)
    return least


class Runoff(Guarantee):
    """A run-off election among disjoint groups, see ``runoff``."""

    title: ClassVar[str] = "run-off election"
    suits: ClassVar[str] = "disjoint groups"
    needs: ClassVar[Need] = "ranks"

    kind: str = "runoff"

    @classmethod
    def fits(cls, groups: Groups) -> bool:
        """Whether no client is in two groups."""
        return share_no_client(groups)

    def certify(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:  # noqa: ARG002 (nothing is shared)
        """What it takes to keep the winner out of the final, or to beat it there."""
        self.check_evidence(evidence)
        assert evidence.ranks is not None
        return runoff(evidence.ranks, num_failed=self.num_failed)

    def predict(self, evidence: Evidence, *, alone: bool = False) -> IntArray:  # noqa: ARG002 (ties are not drawn)
        """The winner of the run-off."""
        return self.certify(evidence).labels

    @classmethod
    def note_beside(cls, own: Guarantee) -> str:  # noqa: ARG003 (whatever it is)
        """How its label comes about."""
        return "The run-off predicts by another rule."
