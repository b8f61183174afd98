"""How groups rank the labels: what a run-off needs to know besides the votes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flcert.certify.seats import share_a_client
from flcert.errors import InputError
from flcert.voting.count_table import IntArray
from flcert.voting.counting import NO_VOTE

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
class Final:
    """The second round of a run-off.

    Args:
        winner: the label p that wins each input.
        other: the other finalist s.
        gaps: 2 #{groups that rank p above c} - N + [c > p] for every label c, (inputs x labels): c beats p as soon as
            this is not positive.
    """

    winner: IntArray
    other: IntArray
    gaps: IntArray


@dataclass(frozen=True)
class Ballots:
    """What a run-off among groups that share clients needs to know about each group.

    Args:
        tops: the label that each group puts first, (groups x inputs); -1 for a group without a model.
        above: whether it ranks the winner of the run-off above each label, (groups x inputs x bytes), with the bits of
            eight labels in a byte, as ``numpy.packbits`` puts them.
    """

    tops: NDArray[np.integer]
    above: NDArray[np.uint8]


@dataclass(frozen=True)
class RankCounts:
    """All that a run-off needs to know about the groups' rankings.

    Args:
        votes: how many groups put each label first, (inputs x labels).
        first_wins: how many groups rank the leader of round one above each label, (inputs x labels).
        second_wins: the same for the runner-up.
        num_groups: how many groups took part.
        ballots: those of each group, where groups share clients.
    """

    votes: IntArray
    first_wins: IntArray
    second_wins: IntArray
    num_groups: int
    ballots: Ballots | None = None

    def part(self, rows: slice | IntArray) -> "RankCounts":
        """The counts for some of the inputs."""
        kept = self.ballots
        ballots = None if kept is None else Ballots(kept.tops[:, rows], kept.above[:, rows])
        return RankCounts(self.votes[rows], self.first_wins[rows], self.second_wins[rows], self.num_groups, ballots)

    def final(self) -> Final:
        """Who meets in the second round, who wins, and by how much."""
        first, second = finalists(self.votes)
        supporters = np.take_along_axis(self.first_wins, second[:, None], axis=1)[:, 0]
        leads = 2 * supporters - self.num_groups + (second > first) > 0
        winner, other = np.where(leads, first, second), np.where(leads, second, first)
        above = np.where(leads[:, None], self.first_wins, self.second_wins)
        ties = np.arange(self.votes.shape[1]) > winner[:, None]
        return Final(winner, other, 2 * above - self.num_groups + ties)


def count_ranks(ranks: Sequence[NDArray[np.integer] | None], groups: Sequence[ArrayLike] = ()) -> RankCounts:
    """Count the (inputs x labels) ranks of all groups, as ``ranked`` returns them.

    Args:
        ranks: the ranks of each group; None for a group without a model.
        groups: for each group, the positions of its clients. If some client is in two groups, the ballot of each group
            is kept beside the counts.
    """
    if groups and len(groups) != len(ranks):
        raise InputError(f"ranks must be those of all {len(groups)} groups, got {len(ranks)}")
    tables = [np.asarray(table) for table in ranks if table is not None]
    shapes = {table.shape for table in tables}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2 or min(next(iter(shapes))) == 0:
        raise InputError(f"ranks must be one (inputs x labels) table for each group, got shapes {sorted(shapes)}")
    votes = np.zeros(tables[0].shape, dtype=np.int64)
    for table in tables:
        votes += table == 0
    counted = RankCounts(votes, *_wins(tables, finalists(votes)), len(tables))
    if not share_a_client(groups):
        return counted
    return replace(counted, ballots=_ballots(ranks, counted.final().winner, counted.votes.shape[1]))


def _ballots(ranks: Sequence[NDArray[np.integer] | None], winner: IntArray, num_labels: int) -> Ballots:
    """The ballot of each group."""
    tops = np.full((len(ranks), len(winner)), NO_VOTE, dtype=np.int32)
    above = np.zeros((len(ranks), len(winner), -(-num_labels // 8)), dtype=np.uint8)
    for group, table in enumerate(ranks):
        if table is not None:
            tops[group] = (table == 0).argmax(axis=1)
            above[group] = np.packbits(np.take_along_axis(table, winner[:, None], axis=1) < table, axis=1)
    return Ballots(tops, above)


def finalists(votes: IntArray) -> tuple[IntArray, IntArray]:
    """The two labels with the most votes, the smaller index first on a tie."""
    order = np.argsort(-votes, axis=1, kind="stable")
    return order[:, 0], order[:, 1] if votes.shape[1] > 1 else order[:, 0]


def gaps_to(votes: IntArray, leader: IntArray) -> IntArray:
    """g(leader, c) for every label c."""
    labels = np.arange(votes.shape[1])
    ahead: IntArray = np.take_along_axis(votes, leader[:, None], axis=1) - votes + (labels > leader[:, None])
    return ahead


def _wins(tables: Sequence[NDArray[np.integer]], leaders: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """For each finalist, the number of groups that rank it above each label, (inputs x labels)."""
    totals = tuple(np.zeros(tables[0].shape, dtype=np.int64) for _ in leaders)
    for table in tables:
        for total, leader in zip(totals, leaders, strict=True):
            total += np.take_along_axis(table, leader[:, None], axis=1) < table
    return totals[0], totals[1]
