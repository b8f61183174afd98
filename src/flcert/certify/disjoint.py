"""FLCert-D: the level of a vote among disjoint groups (Theorem 4)."""

from typing import ClassVar

import numpy as np

from flcert.certify.certificate import Certificate
from flcert.certify.evidence import Evidence
from flcert.certify.guarantee import Groups, Guarantee
from flcert.certify.seats import share_a_client
from flcert.certify.targeted import groups_to_elect
from flcert.certify.trusted import Trusted
from flcert.certify.turning import groups_to_overtake, groups_to_turn
from flcert.errors import InputError
from flcert.voting.count_table import CountsLike, IntArray, checked_counts, top_label
from flcert.voting.counting import most_votes, votes_of_input

FEW = 50  # up to this many labels, a list of rivals has them all


def disjoint(
    counts: CountsLike,
    *,
    num_failed: int = 0,
    trusted: Trusted | None = None,
    num_groups: int | None = None,
    num_clients: int | None = None,
) -> Certificate:
    """Certify the majority vote of groups that share no client.

    A malicious client sits in one group, so m of them change at most m votes. Each changed vote can
    take one from the winner y and give one to a rival z, and closes the gap between them by at most
    two. The label therefore stands while

        2 m <= v_y - v_z - [z < y]    for every z != y         (Theorem 4)

    where [z < y] is there because a tie goes to the smaller index. An empty group casts no vote; a
    malicious client that joins it can only add one, less than the two it is charged.

    With T trusted votes the gap can be more than the groups that vote for y close when they turn. Of the others, those
    that vote for neither y nor z, or cast no vote, then close it by one each (``groups_to_turn``), and the level is one
    less than the smallest number of groups that suffices for some z. If not even all groups do, no number of malicious
    clients can change the label.

    Args:
        counts: votes for each label, (inputs x labels), an array or a SciPy sparse array.
        num_failed: groups with clients whose vote is missing because their training failed. What they
            would have voted is unknown, so each counts as one vote for the strongest rival.
        trusted: votes of a model that no client can change.
        num_groups: the groups that have clients, including those that failed; by default those that failed and as
            many as voted on some input. It matters only with trusted votes.
        num_clients: n, which no level exceeds; where not even all clients can change a label, the level is n, or
            ``num_groups`` if n is not given.

    Returns:
        The certificate. An input abstains where nobody voted or where the failed groups alone could
        have changed its label.

    Differs from the paper: ``num_failed`` (the paper's groups do not fail) and ``trusted``.

    >>> disjoint([[7, 2, 1], [3, 3, 0]]).levels
    array([2, 0])
    >>> disjoint([[7, 2, 1]], trusted=Trusted(np.array([0]), 9), num_clients=10).levels
    array([7])
    """
    if num_failed < 0:
        raise InputError(f"num_failed must be at least 0, got {num_failed}")
    table = checked_counts(counts)
    labels, top = top_label(table if trusted is None else trusted.added_to(table))
    total = _turnable(np.asarray(table.sum(axis=1)).reshape(-1), num_failed, num_groups)
    needed = groups_to_overtake(table, labels, trusted, ties="smallest", num_failed=num_failed, total=total)
    levels = _levels(needed, total, num_clients or total + num_failed)
    return Certificate.build(labels, np.where(top > 0, levels, -1))


def _levels(needed: IntArray, total: IntArray, everybody: IntArray | int) -> IntArray:
    """One client fewer than the groups that must turn; all of them where all groups are not enough."""
    return np.where(needed > total, everybody, np.minimum(needed - 1, everybody))


def _turnable(cast: IntArray, num_failed: int, num_groups: int | None) -> IntArray:
    """For each input the groups that can be turned: all that have clients, except those that count as turned."""
    return np.maximum(cast, num_groups - num_failed if num_groups else cast.max())


def share_no_client(groups: Groups) -> bool:
    """Whether groups are fixed, and no client is in two of them."""
    return not groups.drawn and not share_a_client(groups.members)


class Disjoint(Guarantee):
    """FLCert-D: the majority vote of groups that share no client, see ``disjoint``."""

    title: ClassVar[str] = "disjoint groups"
    suits: ClassVar[str] = "disjoint groups"

    takes_trusted: ClassVar[bool] = True

    kind: str = "disjoint"

    @classmethod
    def fits(cls, groups: Groups) -> bool:
        """Whether no client is in two groups."""
        return share_no_client(groups)

    def certify(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:  # noqa: ARG002 (nothing is shared)
        """Theorem 4."""
        return disjoint(
            evidence.counts,
            num_failed=self.num_failed,
            trusted=self.trusted_votes(evidence),
            num_groups=groups_with_clients(self, evidence),
            num_clients=self.num_clients,
        )

    def target_levels(self, evidence: Evidence, target: int) -> IntArray:
        """One less than the groups that must turn before the target wins; exact, see ``groups_to_elect``."""
        table, failed = checked_counts(evidence.counts), self.num_failed
        cast = np.asarray(table.sum(axis=1)).reshape(-1)
        total = _turnable(cast, failed, groups_with_clients(self, evidence))
        trusted = self.trusted_votes(evidence)
        needed = groups_to_elect(table, target, trusted, ties=self.ties, num_failed=failed, total=total)
        return _levels(needed, total, self.num_clients or total + failed)

    def takeover(self, evidence: Evidence, position: int) -> dict[str, int] | None:
        """The smallest number of malicious clients with which each other label could get ahead of the winner.

        If there are many labels, those with the most votes are listed, and "other" is the least of the rest. Labels
        that could not win even if all clients were malicious are left out.
        """
        one = evidence.part(slice(position, position + 1))
        listed = [label for label, _ in most_votes(self.counted(one), 0)]
        if not listed:
            return None
        leader, needed = listed[0], self._needed(one, listed[0], groups_with_clients(self, evidence))
        if len(needed) <= FEW:
            return {str(label): m for label, m in enumerate(needed) if label != leader and m is not None}
        rest = [m for label, m in enumerate(needed) if label not in listed and m is not None]
        found = {str(label): m for label in listed[1:] if (m := needed[label]) is not None}
        return found | ({"other": min(rest)} if rest else {})

    def _needed(self, one: Evidence, leader: int, num_groups: int) -> list[int | None]:
        """For each label the groups that must turn before it wins the only input; None if it never does."""
        votes, counted = votes_of_input(one.counts, 0), votes_of_input(self.counted(one), 0)
        (total,) = _turnable(votes.sum(keepdims=True), self.num_failed, num_groups).tolist()
        gaps = counted[leader] - counted + (np.arange(len(votes)) > leader) - self.num_failed
        needed = groups_to_turn(gaps, votes[leader], total - votes[leader] - votes, total)
        return [m if m <= total else None for m in needed.tolist()]


def groups_with_clients(guarantee: Guarantee, evidence: Evidence) -> int:
    """How many groups have clients, as far as is known: at most all of them, or else those that voted or failed."""
    known = sum(len(members) > 0 for members in evidence.groups) or guarantee.num_groups
    return known or int(evidence.counts.sum(axis=1).max()) + guarantee.num_failed
