"""Label-targeted levels: how many malicious clients cannot make a given label win, and what a backdoor can achieve."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flcert.certify.certificate import Certificate
from flcert.certify.trusted import Trusted
from flcert.errors import InputError, check_range
from flcert.voting.count_table import Counts, IntArray, entries, votes_for
from flcert.voting.ties import Ties


def groups_to_elect(
    counts: Counts, target: int, trusted: Trusted | None, *, ties: Ties, num_failed: Any, total: Any
) -> IntArray:
    """The smallest number of groups that must turn before label z wins each input; total + 1 if it never can.

    Let w_j be the votes for label j, trusted ones among them, of which v_j are votes of groups, and F the number of
    failed groups, which count as votes for z. An attacker who turns M groups does best to turn all of them to z. If
    a_j of them voted for j, then z wins where

        w_j - a_j + [j < z] <= w_z + F + M     for every j != z,

    so the attacker needs a_j >= g_j - M with the gap g_j = w_j + [j < z] - w_z - F, and has M groups to choose:

        sum over j != z of max(0, g_j - M) <= M.

    That is enough, as long as a_j <= v_j and M groups that do not vote for z can be turned, because the rest of the M
    may come from anywhere. A sum of positive parts is at most M if the sum over every set of labels is, and for a given
    number of labels those with the largest gaps sum to most. So the smallest M is

        the maximum over i >= 0 of ceil((the sum of the i largest gaps) / (i + 1)).

    i = 1 gives half of the largest gap, which is Theorem 4 for z against y. Only trusted votes, T of them for t != z,
    make g_j - M exceed v_j where the sum allows M: they also demand M >= T + [t < z] - w_z - F. As M grows, nothing
    that was enough ceases to be.

    Args:
        counts: the votes of the groups.
        target: z.
        trusted: further votes, which cannot be turned.
        ties: z wins a tie against a larger index; with "random" it may win every tie, and [j < z] is left out.
        num_failed: F, a number or one for each input.
        total: the groups that can be turned, those that cast no vote among them; a number, or one for each input.

    >>> groups_to_elect(np.array([[4, 4, 0], [8, 0, 0]]), 2, None, ties="smallest", num_failed=0, total=8)
    array([4, 5])
    """
    check_range("target", target, 0, counts.shape[1] - 1)
    smallest, inputs = ties == "smallest", counts.shape[0]
    held = counts if trusted is None else trusted.added_to(counts)
    chosen = np.full(inputs, target)
    standing: IntArray = votes_for(held, chosen) + num_failed
    rows, labels, votes = entries(held)
    gaps = votes + (smallest & (labels < target)) - standing[rows]
    needed = _groups_to_close(rows, np.where(labels == target, 0, gaps), inputs)
    if smallest and target > 0:  # label 0 wins a tie at no votes
        needed = np.maximum(needed, standing == 0)
    if trusted is not None:
        fixed = trusted.votes + (smallest & (trusted.labels < target)) - standing
        needed = np.where(trusted.labels == target, needed, np.maximum(needed, fixed))
    return np.where(needed > total - votes_for(counts, chosen), total + 1, needed)


def _groups_to_close(rows: IntArray, gaps: IntArray, inputs: int) -> IntArray:
    """``groups_to_close`` for the gaps of each row."""
    rows, gaps = rows[gaps > 0], gaps[gaps > 0]
    order = np.lexsort((-gaps, rows))
    rows, gaps = rows[order], gaps[order]
    starts = np.searchsorted(rows, rows)  # for each entry, where its row begins
    sums = gaps.cumsum()
    sums -= (sums - gaps)[starts]
    best = np.zeros(inputs, dtype=np.int64)
    np.maximum.at(best, rows, -(-sums // (np.arange(len(rows)) - starts + 2)))
    return best


def groups_to_close(gaps: Iterable[int]) -> int:
    """How many groups must turn to z before it closes all these gaps, if enough of them vote for the other labels.

    The maximum over i >= 0 of ceil((the sum of the i largest gaps) / (i + 1)), see ``groups_to_elect``.

    >>> groups_to_close([5, 5]), groups_to_close([9]), groups_to_close([])
    (4, 5, 0)
    """
    best = total = 0
    for place, gap in enumerate(sorted(gaps, reverse=True), start=2):
        total += gap
        best = max(best, -(-total // place))
    return best


def implied_levels(certificate: Certificate, target: int) -> IntArray:
    """What a certificate says about label z: a label that cannot be changed never becomes z, unless it is z.

    -1 where nothing is certified.
    """
    held = ~certificate.abstained & (certificate.labels != target)
    return np.where(held, certificate.levels, -1)


def targeted_success(levels: IntArray, truth: ArrayLike, target: int) -> NDArray[np.float64]:
    """A bound on the share of inputs that any m malicious clients can turn into label z, at index m.

    Inputs whose true label is z are left out, as in the success rate of a backdoor; those that get the label z without
    any attack count. Each input is charged its own worst m clients. The array ends one past the largest level; beyond
    its end the bound is 1.

    Args:
        levels: for each input the largest m such that no m clients can make the label z, -1 if there is none.
        truth: the true labels.
        target: z.

    >>> targeted_success(np.array([2, 0, -1, -1]), [0, 0, 0, 1], 1)
    array([0.33333333, 0.66666667, 0.66666667, 1.        ])
    """
    right = np.asarray(truth)
    if right.shape != levels.shape:
        raise InputError(f"truth must have one label for each of {len(levels)} inputs, got shape {right.shape}")
    counted = levels[right != target]
    reached = np.bincount(counted + 1, minlength=int(levels.max()) + 2).cumsum()
    return reached / max(len(counted), 1)


def success_at(bound: NDArray[np.float64], m: int) -> float:
    """A bound of ``targeted_success`` at m.

    >>> success_at(np.array([0.1, 1.0]), 0), success_at(np.array([0.1, 1.0]), 7)
    (0.1, 1.0)
    """
    return float(bound[m]) if m < len(bound) else 1.0
