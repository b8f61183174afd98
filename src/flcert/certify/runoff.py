"""Run-off election among disjoint groups (Rezaei et al., ICML 2023): two rounds, and a certificate from both."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flcert.certify.result import Certificate, IntArray
from flcert.errors import InputError

FAR = np.int64(2**40)  # further than any attack


def ranked(scores: NDArray[np.floating]) -> NDArray[np.uint16]:
    """The place of every label in a model's order for each input, 0 for the best, from (inputs x labels) scores.

    Equal scores go to the smaller index; one that is not a number comes last.
    """
    if scores.shape[1] > 2**16:
        raise InputError(f"a run-off needs at most {2**16:,} labels, got {scores.shape[1]:,}")
    order = np.argsort(-np.where(np.isnan(scores), -np.inf, scores), axis=1, kind="stable")
    places = np.empty(scores.shape, dtype=np.uint16)
    np.put_along_axis(places, order, np.arange(scores.shape[1], dtype=np.uint16)[None, :], axis=1)
    return places


@dataclass(frozen=True)
class Tally:
    """All that a run-off needs to know of the groups' orders.

    Args:
        votes: how many groups put each label first, (inputs x labels).
        first_wins: how many groups rank the leader of round one above each label, (inputs x labels).
        second_wins: the same for the runner-up.
        num_groups: groups that took part.
    """

    votes: IntArray
    first_wins: IntArray
    second_wins: IntArray
    num_groups: int


def tally(ranks: Sequence[NDArray[np.integer]]) -> Tally:
    """Count for each group that has a model its (inputs x labels) places, as ``ranked`` gives them."""
    tables = [np.asarray(table) for table in ranks]
    shapes = {table.shape for table in tables}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2 or min(next(iter(shapes))) == 0:
        raise InputError(f"ranks must be one (inputs x labels) table for each group, got shapes {sorted(shapes)}")
    votes = np.zeros(tables[0].shape, dtype=np.int64)
    for table in tables:
        votes += table == 0
    return Tally(votes, *_wins(tables, _finalists(votes)), len(tables))


def runoff(counted: Tally, *, num_failed: int = 0) -> Certificate:
    """Certify a run-off: the two labels with most votes go on, and each group then votes for the one it ranks higher.

    Ties go to the smaller index in both rounds. Let p win against the other finalist s, with v the votes of round one,
    g(i, j) = v_i - v_j + [j > i], and x+ = max(x, 0). A malicious client changes one group, so it closes a gap by at
    most two, and two gaps to p together by at most three. Against p there are two ways:

    round one: two labels c1, c2 both overtake p, which takes at least
        R1 = min over c1, c2 of max(ceil(g(p, c1)+ / 2), ceil(g(p, c2)+ / 2), ceil((g(p, c1)+ + g(p, c2)+) / 3));
    round two: some c reaches the final, overtaking s, and beats p there, which takes at least
        R2 = min over c of max(ceil(g(s, c)+ / 2), ceil((2 #{groups that rank p above c} - N + [c > p])+ / 2)).

    The level is min(R1, R2) - 1. The label can differ from that of the plain vote.

    Args:
        counted: the groups' orders.
        num_failed: groups with clients that have no model; each counts as a group that turned against p.

    Returns:
        The certificate. An input abstains where the failed groups alone could have changed its label.

    >>> places = [np.array([[0, 1, 2]]), np.array([[0, 1, 2]]), np.array([[1, 0, 2]])]
    >>> runoff(tally(places)).labels, runoff(tally(places)).levels
    (array([0]), array([0]))
    """
    if num_failed < 0:
        raise InputError(f"num_failed must be at least 0, got {num_failed}")
    votes, groups = counted.votes, counted.num_groups
    first, second = _finalists(votes)
    supporters = np.take_along_axis(counted.first_wins, second[:, None], axis=1)[:, 0]
    first_wins = 2 * supporters - groups + (second > first) > 0
    winner, other = np.where(first_wins, first, second), np.where(first_wins, second, first)
    above = np.where(first_wins[:, None], counted.first_wins, counted.second_wins)
    needed = np.minimum(_round_one(votes, winner), _round_two(votes, winner, other, above, groups))
    return Certificate.build(winner, needed - 1 - num_failed)


def _finalists(votes: IntArray) -> tuple[IntArray, IntArray]:
    """The two labels with most votes, the smaller index first on a tie."""
    order = np.argsort(-votes, axis=1, kind="stable")
    return order[:, 0], order[:, 1] if votes.shape[1] > 1 else order[:, 0]


def _wins(tables: Sequence[NDArray[np.integer]], finalists: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """For each finalist the number of groups that rank it above each label, (inputs x labels)."""
    totals = tuple(np.zeros(tables[0].shape, dtype=np.int64) for _ in finalists)
    for table in tables:
        for total, finalist in zip(totals, finalists, strict=True):
            total += np.take_along_axis(table, finalist[:, None], axis=1) < table
    return totals[0], totals[1]


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
    """R2, with what it takes to reach the final and what it takes to win there."""
    labels = np.arange(votes.shape[1])
    reach = -(-_gaps(votes, other) // 2)
    np.put_along_axis(reach, other[:, None], 0, axis=1)
    beat = -(-np.maximum(2 * above - num_groups + (labels > winner[:, None]), 0) // 2)
    cost = np.maximum(reach, beat)
    np.put_along_axis(cost, winner[:, None], FAR, axis=1)
    least: IntArray = cost.min(axis=1)
    return least
