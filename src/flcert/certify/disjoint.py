"""FLCert-D: the level of a vote among disjoint groups (Theorem 4)."""

from flcert.certify.result import Certificate, CountsLike, checked_counts, runner_up, top_label
from flcert.errors import InputError


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
            would have voted is unknown, so each is taken as one vote for the strongest rival.

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
    """The least number of malicious clients that Theorem 4 does not keep from making the rival win.

    The level of an input is one less than the least of these numbers over all rivals.

    Args:
        leader: the label that wins without them, and its votes.
        rival: another label, and its votes.
        num_failed: groups with clients whose vote is missing, see ``disjoint``.

    >>> clients_to_overtake((0, 7), (1, 2))
    3
    """
    (label, votes), (other, others) = leader, rival
    gap = votes - others - (other < label) - num_failed
    return max(0, gap // 2 + 1)
