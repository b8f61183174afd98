"""Predictions to vote counts, and the two tie rules."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from flcert.certify.result import Counts, CountsLike, IntArray, Sparse, checked_counts, top_label
from flcert.errors import InputError
from flcert.seeding import stream

NO_VOTE = -1
MOST_DENSE = 50_000_000

Ties = Literal["smallest", "random"]


def count(votes: ArrayLike, num_labels: int | None = None) -> Counts:
    """How many groups vote for each label, (inputs x labels), from a (groups x inputs) table of votes.

    The result is a SciPy sparse array where a dense one would have more than ``MOST_DENSE`` entries.

    Args:
        votes: the label that each group gives to each input, or -1 where it casts no vote.
        num_labels: L. By default one more than the largest label seen, and at least 2; labels above that have no votes
            and a larger index, so they change no label, and a level only where a bound is paid for each label.

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


def winners(counts: CountsLike, ties: Ties = "smallest", seed: int = 0) -> IntArray:
    """The label with most votes for each input.

    Args:
        counts: votes for each label, (inputs x labels).
        ties: "smallest" takes the smallest index (FLCert-D); "random" draws one of the tied labels
            (FLCert-P). A tie is never certified for FLCert-P, so the draw has no part in a proof.
        seed: of the draw; each input has a stream of its own.
    """
    table = checked_counts(counts)
    leading, most = top_label(table)
    if ties == "random":
        for row in range(len(leading)):
            tied = _labels_with(table, row, int(most[row]))
            if len(tied) > 1:
                leading[row] = stream(seed, "ties", row).choice(tied)
    return leading


def _labels_with(counts: Counts, row: int, votes: int) -> IntArray:
    """The labels that have exactly this many votes for one input; all of them if it is none."""
    if isinstance(counts, np.ndarray):
        return np.flatnonzero(counts[row] == votes)
    if votes == 0:
        return np.arange(counts.shape[1])
    stored = slice(counts.indptr[row], counts.indptr[row + 1])
    labels: IntArray = counts.indices[stored][counts.data[stored] == votes]
    return labels


def predicted_labels(scores: NDArray[np.floating]) -> IntArray:
    """Votes from scores, whose last dimension is the labels: the highest, the smallest index on a tie.

    A score that is not a number never wins; a model that has nothing else votes for label 0.
    """
    labels: IntArray = np.where(np.isnan(scores), -np.inf, scores).argmax(axis=-1)
    return labels


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
