"""Label-targeted levels of fixed groups that may share clients."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flcert.certify.targeted import groups_to_elect
from flcert.certify.trusted import Trusted
from flcert.voting.count_table import BoolArray, Counts, IntArray, top_label, votes_for
from flcert.voting.counting import NO_VOTE

SLICE = 512  # inputs at a time


def overlapping_targets(
    counts: Counts,
    votes: NDArray[np.integer],
    target: int,
    *,
    seats: csr_array,
    num_clients: int,
    trusted: Trusted | None = None,
) -> IntArray:
    """For each input a level m such that no m malicious clients can make its label the target z.

    The larger of two levels, each of which holds with certainty. One compares z with the winner y alone, as
    ``overlapping`` does: z must pass y. The other counts groups: the sum of the m largest numbers of groups that a
    client is in must be less than the groups that have to turn before z wins (``groups_to_elect``). For disjoint groups
    the second is exact. Groups that malicious clients share are charged twice, so in general neither is.

    Args:
        counts: votes for each label, (inputs x labels).
        votes: the label that each group gives to each input, (groups x inputs); -1 where it casts no vote.
        target: z.
        seats: (kinds of clients x groups), 1 if the kind is in the group; clients in the same groups are of one kind.
        num_clients: n.
        trusted: votes of a model that no client can change.
    """
    occupied = np.diff(seats.tocsc().indptr) > 0
    failed = (votes == NO_VOTE) & occupied[:, None]
    num_failed, cast = failed.sum(axis=0), np.asarray(counts.sum(axis=1)).reshape(-1)
    needed = groups_to_elect(counts, target, trusted, ties="smallest", num_failed=num_failed, total=cast)
    held = counts if trusted is None else trusted.added_to(counts)
    labels, top = top_label(held)
    gaps = top - votes_for(held, np.full(len(labels), target)) - (target < labels) - num_failed
    against = np.where(failed, 0, 1 + (votes == labels)) - (votes == target)
    within = (
        _within(seats, against, np.where(labels == target, -1, gaps), occupied, num_clients),
        _within(seats, 1 - failed, needed - 1, occupied, num_clients),
    )
    return np.maximum(*within)


def _within(seats: csr_array, weights: IntArray, limits: IntArray, occupied: BoolArray, num_clients: int) -> IntArray:
    """For each input the largest m whose m heaviest clients weigh no more than its limit; -1 if it is negative.

    Args:
        seats: (kinds of clients x groups).
        weights: the weight of each group for each input, (groups x inputs), none of them negative.
        limits: what the clients may weigh.
        occupied: which groups have clients.
        num_clients: n, the level where all clients together, who reach each group once, stay within the limit.
    """
    levels = np.empty(len(limits), dtype=np.int64)
    for start in range(0, len(limits), SLICE):
        part = slice(start, start + SLICE)
        heaviest = -np.sort(-np.asarray(seats @ weights[:, part]), axis=0)
        within = (heaviest.cumsum(axis=0) <= limits[part]).sum(axis=0)
        everything = weights[occupied, part].sum(axis=0)
        levels[part] = np.where(everything <= limits[part], num_clients, within)
    return np.where(limits < 0, -1, levels)
