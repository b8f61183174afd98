"""From predictions to votes, and from votes to counts."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from flcert.errors import InputError
from flcert.voting.count_table import Counts, IntArray, Sparse

NO_VOTE = -1
"""The value in a vote table for a group that casts no vote."""
MOST_DENSE = 50_000_000  # counts in a dense table; a larger one is sparse
MOST_LISTED = 10  # labels that are listed for an input


def count(votes: ArrayLike, num_labels: int | None = None) -> Counts:
    """How many groups vote for each label, (inputs x labels), from a (groups x inputs) table of votes.

    The result is a SciPy sparse array if a dense one would have more than ``MOST_DENSE`` entries.

    Args:
        votes: the label that each group gives to each input, or -1 where it casts no vote.
        num_labels: L. By default one more than the largest label seen, and at least 2. Labels beyond that have no votes
            and larger indices, so they change no label, and a level only if each label is bounded separately.

    >>> count([[0, 1], [0, 2], [-1, 2]])
    array([[2, 0, 0],
           [0, 1, 2]])
    """
    table = _checked_votes(votes, num_labels)
    labels = num_labels or max(2, int(table.max()) + 1)
    inputs = table.shape[1]
    if inputs * labels > MOST_DENSE:
        return _sparse_count(table, labels)
    counts = np.zeros(inputs * labels, dtype=np.int64)
    offsets = np.arange(inputs, dtype=np.int64) * labels
    for row in table:
        cast = row != NO_VOTE
        counts[offsets[cast] + row[cast]] += 1
    return counts.reshape(inputs, labels)


def _sparse_count(table: NDArray[np.integer], num_labels: int) -> Sparse:
    groups, inputs = np.nonzero(table != NO_VOTE)
    cast = table[groups, inputs]
    return csr_array((np.ones(len(cast), dtype=np.int64), (inputs, cast)), shape=(table.shape[1], num_labels))


def predicted_labels(scores: NDArray[np.floating]) -> IntArray:
    """Votes from scores, with labels as the last dimension: the highest score wins, the smallest index on a tie.

    A NaN never wins; a model with no other scores votes for label 0.
    """
    labels: IntArray = np.where(np.isnan(scores), -np.inf, scores).argmax(axis=-1)
    return labels


def most_votes(counts: Counts, position: int) -> list[tuple[int, int]]:
    """The labels with the most votes on an input, and their votes; the smaller label comes first on a tie."""
    row = votes_of_input(counts, position)
    order = np.argsort(-row, kind="stable")[:MOST_LISTED]
    return [(int(label), int(row[label])) for label in order if row[label]]


def votes_of_input(counts: Counts, position: int) -> IntArray:
    """How many votes each label has on one input."""
    row = counts[[position]]
    votes: IntArray = np.asarray(row if isinstance(row, np.ndarray) else row.todense()).reshape(-1)
    return votes


def _checked_votes(votes: ArrayLike, num_labels: int | None) -> NDArray[np.integer]:
    table = np.asarray(votes)
    if table.ndim != 2 or 0 in table.shape:
        raise InputError(f"votes must be (groups x inputs) with at least one of each, got shape {table.shape}")
    if not np.issubdtype(table.dtype, np.integer):
        raise InputError(f"votes must be integers, got dtype {table.dtype}")
    if num_labels is not None and num_labels < 2:
        raise InputError(f"num_labels must be at least 2, got {num_labels}")
    wrong = (table < NO_VOTE) | (table >= (num_labels or 2**31))
    if wrong.any():
        group, example = np.argwhere(wrong)[0]
        highest = f"{num_labels - 1}" if num_labels else "2**31 - 1"
        raise InputError(
            f"votes must be in [0, {highest}], or {NO_VOTE} for no vote, got {table[group, example]} "
            f"from group {group} for input {example}"
        )
    return table.astype(np.int64, copy=False)
