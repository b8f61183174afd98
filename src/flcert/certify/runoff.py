"""Run-off election (Rezaei et al., ICML 2023): two rounds, and a certificate from both."""

from typing import ClassVar

import numpy as np

from flcert.certify.certificate import Certificate
from flcert.certify.evidence import Evidence
from flcert.certify.guarantee import Groups, Guarantee, Need
from flcert.certify.overlapping_runoff import overlapping_runoff
from flcert.certify.ranks import Final, RankCounts, gaps_to
from flcert.certify.seats import share_a_client
from flcert.errors import InputError
from flcert.voting.count_table import IntArray

FAR = np.int64(2**40)  # further than any attack reaches


def runoff(counted: RankCounts, *, num_failed: int = 0) -> Certificate:
    """Certify a run-off of disjoint groups: the two labels with the most votes go on, and each group votes again.

    In the second round a group votes for the finalist that it ranks higher. Ties go to the smaller index in both
    rounds. Let p win against the other finalist s, with v the votes of round one, U the groups that voted, F those that
    failed, g(i, j) = v_i - v_j + [j > i], and x+ = max(x, 0). Then j is ahead of i as soon as g(i, j) <= 0. A malicious
    client turns one group, which closes a gap by at most two, and two gaps to p together by at most three: one vote
    less for p counts in both, one vote more for a rival in one. What a failed group would have ranked is unknown, but
    it never supported p. Whatever its ballot, it adds at most one to the votes of one rival, so it closes a gap by at
    most one, and two gaps to p together by no more than that. With m groups turned there are two ways to defeat p:

    round one: two labels c1, c2 both overtake p, which needs
        2 m + F >= g(p, c1),  2 m + F >= g(p, c2)  and  3 m + F >= g(p, c1)+ + g(p, c2)+;
    round two: some c reaches the final, overtaking s unless it is s, and beats p there, which needs
        2 m + F >= g(s, c)  and  2 m + F >= 2 #{groups that rank p above c} - U + [c > p].

    R1 and R2 are the smallest m for which some c1, c2 or some c meet the conditions, and the level is min(R1, R2) - 1.
    R1 is exact: ballots that put c1 or c2 first can be dealt out so that both overtake p as soon as the three sums
    allow it. R2 is not always: the groups that help c into the final need not be those that rank p above c. The label
    can differ from that of the plain vote.

    Args:
        counted: the groups' rankings, counted.
        num_failed: groups with clients but without a model. The level holds whatever they would have ranked.

    Returns:
        The certificate. An input abstains where the failed groups alone could have changed its label.

    >>> from flcert.certify.ranks import count_ranks
    >>> places = [np.array([[0, 1, 2]]), np.array([[0, 1, 2]]), np.array([[1, 0, 2]])]
    >>> runoff(count_ranks(places)).labels, runoff(count_ranks(places)).levels
    (array([0]), array([0]))
    """
    if num_failed < 0:
        raise InputError(f"num_failed must be at least 0, got {num_failed}")
    votes, final = counted.votes, counted.final()
    needed = np.minimum(_round_one(votes, final.winner, num_failed), _round_two(votes, final, num_failed))
    return Certificate.build(final.winner, needed - 1)


def _turned(gaps: IntArray, num_failed: int, each: int = 2) -> IntArray:
    """How many groups must turn, if each closes a gap by so much and a failed one by one."""
    needed: IntArray = np.maximum(-(-(gaps - num_failed) // each), 0)
    return needed


def _round_one(votes: IntArray, winner: IntArray, num_failed: int) -> IntArray:
    """R1; the two smallest gaps are the cheapest pair, because the cost never falls as a gap grows."""
    gaps = np.maximum(gaps_to(votes, winner), 0)
    np.put_along_axis(gaps, winner[:, None], FAR, axis=1)
    if votes.shape[1] < 3:
        return np.full(len(votes), FAR)
    smallest = np.partition(gaps, 1, axis=1)
    first, second = smallest[:, 0], smallest[:, 1]
    cheapest: IntArray = np.maximum(_turned(second, num_failed), _turned(first + second, num_failed, each=3))
    return cheapest


def _round_two(votes: IntArray, final: Final, num_failed: int) -> IntArray:
    """R2, from the cost of reaching the final and the cost of closing the gap there."""
    reach = _turned(gaps_to(votes, final.other), num_failed)
    np.put_along_axis(reach, final.other[:, None], 0, axis=1)
    cost = np.maximum(reach, _turned(final.gaps, num_failed))
    np.put_along_axis(cost, final.winner[:, None], FAR, axis=1)
    least: IntArray = cost.min(axis=1)
    return least


class Runoff(Guarantee):
    """A run-off election: ``runoff`` if no client is in two groups, ``overlapping_runoff`` otherwise."""

    title: ClassVar[str] = "run-off election"
    needs: ClassVar[Need] = "ranks"

    kind: str = "runoff"

    @classmethod
    def fits(cls, groups: Groups) -> bool:  # noqa: ARG003 (any will do)
        """It holds for all groups."""
        return True

    def certify(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:  # noqa: ARG002 (nothing is shared)
        """What it takes to keep the winner out of the final, or to beat it there."""
        self.check_evidence(evidence)
        assert evidence.ranks is not None
        if self.num_clients is None or not evidence.groups:
            raise InputError("a certificate of a run-off needs the clients of each group")
        if not share_a_client(evidence.groups):
            return runoff(evidence.ranks, num_failed=self.num_failed)
        return overlapping_runoff(evidence.ranks, evidence.groups, num_clients=self.num_clients)

    def predict(self, evidence: Evidence, *, alone: bool = False) -> IntArray:  # noqa: ARG002 (ties are not drawn)
        """The winner of the run-off."""
        self.check_evidence(evidence)
        assert evidence.ranks is not None
        return evidence.ranks.final().winner

    @property
    def _about(self) -> str:
        """What a level is about, and by which rule the label wins."""
        return f"{super()._about} The label is the winner of a run-off between the two labels with the most votes."

    @classmethod
    def note_beside(cls, own: Guarantee) -> str:
        """How its label comes about."""
        rule = "The run-off predicts by another rule."
        return (
            f"{rule} It speaks of the groups that were trained and holds with certainty." if own.probabilistic else rule
        )
