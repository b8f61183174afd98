"""FLCert-D: the level of a vote among disjoint groups (Theorem 4)."""

from typing import ClassVar

from flcert.certify.certificate import Certificate
from flcert.certify.evidence import Evidence
from flcert.certify.guarantee import Groups, Guarantee
from flcert.errors import InputError
from flcert.voting.count_table import Counts, CountsLike, checked_counts, runner_up, top_label
from flcert.voting.counting import most_votes, votes_of_input

FEW = 50  # up to this many labels, a list of rivals has them all


def disjoint(counts: CountsLike, *, num_failed: int = 0) -> Certificate:
    """Certify the majority vote of groups that share no client.

    A malicious client sits in one group, so m of them change at most m votes. Each changed vote can
    take one from the winner y and give one to a rival z, and closes the gap between them by at most
    two. The label therefore stands while

        2 m <= v_y - v_z - [z < y]    for every z != y         (Theorem 4)

    where [z < y] is there because a tie goes to the smaller index. An empty group casts no vote; a
    malicious client that joins it can only add one, less than the two it is charged.

    Args:
        counts: votes for each label, (inputs x labels), an array or a SciPy sparse array.
        num_failed: groups with clients whose vote is missing because their training failed. What they
            would have voted is unknown, so each counts as one vote for the strongest rival.

    Returns:
        The certificate. An input abstains where no group voted or where the failed groups alone could
        have changed its label.

    Differs from the paper: ``num_failed`` (the paper's groups do not fail).

    >>> disjoint([[7, 2, 1], [3, 3, 0]]).levels
    array([2, 0])
    """
    if num_failed < 0:
        raise InputError(f"num_failed must be at least 0, got {num_failed}")
    table = checked_counts(counts)
    labels, top = top_label(table)
    gap = top - runner_up(table, labels, handicap=True) - num_failed
    gap[top == 0] = -1
    return Certificate.build(labels, gap // 2)


def clients_to_overtake(leader: tuple[int, int], rival: tuple[int, int], *, num_failed: int = 0) -> int:
    """The smallest number of malicious clients for which Theorem 4 does not rule out that the rival wins.

    The level of an input is one less than the smallest of these numbers over all rivals.

    Args:
        leader: the label that wins without an attack, and its votes.
        rival: another label, and its votes.
        num_failed: groups with clients whose vote is missing, see ``disjoint``.

    >>> clients_to_overtake((0, 7), (1, 2))
    3
    """
    (label, votes), (other, others) = leader, rival
    gap = votes - others - (other < label) - num_failed
    return max(0, gap // 2 + 1)


def share_no_client(groups: Groups) -> bool:
    """Whether groups are fixed, and no client is in two of them."""
    members = [client for group in groups.members for client in set(group.tolist())]
    return not groups.drawn and len(members) == len(set(members))


class Disjoint(Guarantee):
    """FLCert-D: the majority vote of groups that share no client, see ``disjoint``."""

    title: ClassVar[str] = "disjoint groups"
    suits: ClassVar[str] = "disjoint groups"

    kind: str = "disjoint"

    @classmethod
    def fits(cls, groups: Groups) -> bool:
        """Whether no client is in two groups."""
        return share_no_client(groups)

    def certify(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:  # noqa: ARG002 (nothing is shared)
        """Theorem 4."""
        return disjoint(evidence.counts, num_failed=self.num_failed)

    def takeover(self, counts: Counts, position: int) -> dict[str, int] | None:
        """The smallest number of malicious clients with which each other label could win.

        If there are many labels, those with the most votes are listed, and "other" is the least of the rest.
        """
        listed = dict(most_votes(counts, position))
        if not listed:
            return None
        row = votes_of_input(counts, position)
        leader = next(iter(listed.items()))
        rivals = {
            label: clients_to_overtake(leader, (label, int(votes)), num_failed=self.num_failed)
            for label, votes in enumerate(row.tolist())
            if label != leader[0]
        }
        if len(row) <= FEW:
            return {str(label): needed for label, needed in rivals.items()}
        others = min(needed for label, needed in rivals.items() if label not in listed)
        return {str(label): rivals[label] for label in listed if label in rivals} | {"other": others}
