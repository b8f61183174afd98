"""Trusted votes: a model of the server's own, which no client can change, votes beside the groups."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from flcert.errors import InputError, check_range
from flcert.voting.count_table import Counts, CountsLike, IntArray, checked_counts

MOST = 2**30  # votes, so that they and those of the groups stay far below what a machine integer holds


@dataclass(frozen=True)
class Trusted:
    """The votes of a model that no client can change.

    Args:
        labels: the label that it gives to each input.
        votes: T, how many votes it casts for that label.
    """

    labels: IntArray
    votes: int

    def added_to(self, counts: Counts) -> Counts:
        """The votes of the groups and of the trusted model together."""
        return with_trusted(counts, self.labels, self.votes)


def with_trusted(counts: CountsLike, labels: ArrayLike, votes: int) -> Counts:
    """The counts with T further votes on each input, for the label that a trusted model gives to it.

    Args:
        counts: votes for each label, (inputs x labels), an array or a SciPy sparse array.
        labels: the trusted model's label of each input.
        votes: T.

    >>> with_trusted([[3, 1], [2, 2]], [1, 0], 4)
    array([[3, 5],
           [6, 2]])
    """
    table = checked_counts(counts)
    chosen = checked_labels(labels, *table.shape)
    check_range("trusted votes", votes, 0, MOST)
    rows = np.arange(len(chosen))
    if isinstance(table, np.ndarray):
        added = table.copy()
        added[rows, chosen] += votes
        return added
    return checked_counts(table + csr_array((np.full(len(rows), votes), (rows, chosen)), shape=table.shape))


def checked_labels(labels: ArrayLike, num_inputs: int, num_labels: int = 2**31) -> IntArray:
    """A trusted model's labels as int64, one for each input, or an InputError that says what is wrong."""
    chosen = np.asarray(labels)
    if chosen.shape != (num_inputs,) or not np.issubdtype(chosen.dtype, np.integer):
        raise InputError(
            f"a trusted model must give one integer label to each of {num_inputs} inputs, "
            f"got {chosen.dtype} of shape {chosen.shape}"
        )
    wrong = np.flatnonzero((chosen < 0) | (chosen >= num_labels))
    if len(wrong):
        raise InputError(
            f"labels of a trusted model must be in [0, {num_labels - 1}], got {chosen[wrong[0]]} for input {wrong[0]}"
        )
    return chosen.astype(np.int64, copy=False)
