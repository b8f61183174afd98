"""How groups rank the labels: what a run-off needs to know besides the votes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flcert.errors import InputError
from flcert.voting.count_table import IntArray

FILES = ("ranks.npz", "runoff.npz")  # where a run keeps them: now, and in format 1


def ranked(scores: NDArray[np.floating]) -> NDArray[np.uint16]:
    """The rank of every label for each input, 0 for the best, from a model's (inputs x labels) scores.

    On a tie the smaller index comes first; NaN comes last.
    """
    if scores.shape[1] > 2**16:
        raise InputError(f"a run-off needs at most {2**16:,} labels, got {scores.shape[1]:,}")
    order = np.argsort(-np.where(np.isnan(scores), -np.inf, scores), axis=1, kind="stable")
    places = np.empty(scores.shape, dtype=np.uint16)
    np.put_along_axis(places, order, np.arange(scores.shape[1], dtype=np.uint16)[None, :], axis=1)
    return places


@dataclass(frozen=True)
class RankCounts:
    """All that a run-off needs to know about the groups' rankings.

    Args:
        votes: how many groups put each label first, (inputs x labels).
        first_wins: how many groups rank the leader of round one above each label, (inputs x labels).
        second_wins: the same for the runner-up.
        num_groups: how many groups took part.
    """

    votes: IntArray
    first_wins: IntArray
    second_wins: IntArray
    num_groups: int

    def part(self, rows: slice) -> "RankCounts":
        """The counts for some of the inputs."""
        return RankCounts(self.votes[rows], self.first_wins[rows], self.second_wins[rows], self.num_groups)


def count_ranks(ranks: Sequence[NDArray[np.integer]]) -> RankCounts:
    """Count the (inputs x labels) ranks of all groups that have a model, as ``ranked`` returns them."""
    tables = [np.asarray(table) for table in ranks]
    shapes = {table.shape for table in tables}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2 or min(next(iter(shapes))) == 0:
        raise InputError(f"ranks must be one (inputs x labels) table for each group, got shapes {sorted(shapes)}")
    votes = np.zeros(tables[0].shape, dtype=np.int64)
    for table in tables:
        votes += table == 0
    return RankCounts(votes, *_wins(tables, finalists(votes)), len(tables))


def finalists(votes: IntArray) -> tuple[IntArray, IntArray]:
    """The two labels with the most votes, the smaller index first on a tie."""
    order = np.argsort(-votes, axis=1, kind="stable")
    return order[:, 0], order[:, 1] if votes.shape[1] > 1 else order[:, 0]


def _wins(tables: Sequence[NDArray[np.integer]], leaders: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """For each finalist, the number of groups that rank it above each label, (inputs x labels)."""
    totals = tuple(np.zeros(tables[0].shape, dtype=np.int64) for _ in leaders)
    for table in tables:
        for total, leader in zip(totals, leaders, strict=True):
            total += np.take_along_axis(table, leader[:, None], axis=1) < table
    return totals[0], totals[1]
