"""How many groups an attacker must turn before another label wins."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert.certify.trusted import Trusted
from flcert.voting.count_table import Counts, IntArray, strongest_beside, votes_for
from flcert.voting.ties import Ties


def groups_to_turn(gap: Any, supporters: Any, others: Any, total: Any) -> NDArray[Any]:
    """The smallest number of groups that close a gap between a label y and a rival z; total + 1 if all do not.

    Turned to z, a group that votes for y closes the gap by two, one that votes for neither (or casts no vote) by one,
    and one that votes for z already not at all. Those that close most are turned first. Without trusted votes the
    supporters of y always suffice, and the number is half of the gap.

    Args:
        gap: what must be closed, an integer or an array of them; nothing if it is negative. Arrays of Python's integers
            may hold numbers of any size.
        supporters: the groups that vote for y.
        others: the groups that vote neither for y nor for z.
        total: all groups that can be turned.

    >>> groups_to_turn(np.array([5, 8, 9, 10]), 3, 2, 6)
    array([3, 5, 7, 7])
    """
    rest = gap - 2 * supporters
    turned = np.where(rest > 0, supporters + rest, -(-gap // 2))
    possible: NDArray[Any] = np.maximum(np.where(rest > others, total + 1, turned), 0)
    return possible


def groups_to_overtake(
    counts: Counts, labels: IntArray, trusted: Trusted | None, *, ties: Ties, num_failed: int, total: Any
) -> IntArray:
    """The smallest number of groups that must turn before some rival wins each input; total + 1 if none ever can.

    Of the labels with a smaller index than y, and of those with a larger one, the rival with the most votes is the
    nearest. The label of the trusted model is a rival with votes of its own.

    Args:
        counts: the votes of the groups.
        labels: the label y that wins each input.
        trusted: further votes, which cannot be turned.
        ties: a rival wins a tie if its index is smaller; with "random" every tie counts as lost.
        num_failed: groups that count as turned already.
        total: the groups that can be turned, those that cast no vote among them; a number, or one for each input.
    """
    supporters, drawn = votes_for(counts, labels), np.full(len(labels), ties == "random")
    below, above = strongest_beside(counts, labels)
    rivals = [
        (below, 0, below >= 0, np.ones_like(drawn)),
        (above, 0, above >= 0, drawn),
    ]  # votes, trusted, exists, wins ties
    top = supporters
    if trusted is not None:
        top = supporters + np.where(trusted.labels == labels, trusted.votes, 0)
        theirs = votes_for(counts, trusted.labels)
        rivals.append((theirs, trusted.votes, trusted.labels != labels, drawn | (trusted.labels < labels)))
    needed: IntArray = np.zeros(len(labels), dtype=np.int64) + total + 1
    for votes, fixed, exists, wins_ties in rivals:
        gap = top - votes - fixed - num_failed + ~wins_ties
        turned = groups_to_turn(gap, supporters, total - supporters - votes, total)
        needed = np.where(exists, np.minimum(needed, turned), needed)
    return needed
