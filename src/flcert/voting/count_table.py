"""Tables of vote counts, (inputs x labels), dense or sparse: checking them, and finding the leaders."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from flcert.errors import InputError

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Sparse: TypeAlias = Any  # scipy.sparse.csr_array, which has no types; for many labels, such as words
Counts: TypeAlias = IntArray | Sparse
CountsLike: TypeAlias = ArrayLike | Sparse


def checked_counts(counts: CountsLike) -> Counts:
    """The counts as (inputs x labels) int64, dense or sparse as given, or an InputError that says what is wrong."""
    table = csr_array(counts) if issparse(counts) else np.asarray(counts)
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] < 2:
        raise InputError(f"counts must be (inputs x labels), at least 1 input and 2 labels, got shape {table.shape}")
    if not np.issubdtype(table.dtype, np.integer):
        raise InputError(f"counts must be integers, got dtype {table.dtype}")
    low, high = int(table.min()), int(table.max())
    if low < 0 or high >= 2**31:
        raise InputError(f"counts must be in [0, 2**31 - 1], got {low if low < 0 else high}")
    if isinstance(table, np.ndarray):
        return table.astype(np.int64, copy=False)
    return _canonical(table)


def top_label(counts: Counts) -> tuple[IntArray, IntArray]:
    """The label with the most votes in each row (the smallest index on a tie), and its count."""
    if not isinstance(counts, np.ndarray):
        return _sparse_top(counts)
    labels: IntArray = counts.argmax(axis=1)
    return labels, np.take_along_axis(counts, labels[:, None], axis=1)[:, 0]


def votes_for(counts: Counts, labels: IntArray) -> IntArray:
    """The votes of one label in each row."""
    found = counts[np.arange(len(labels)), labels]
    votes: IntArray = found if isinstance(found, np.ndarray) else found.toarray().reshape(-1)
    return votes


def runner_up(counts: Counts, labels: IntArray, handicap: bool) -> IntArray:
    """The largest count among the other labels; with ``handicap``, a smaller index counts as one more vote."""
    below, above = strongest_beside(counts, labels)
    return np.maximum(np.where(below >= 0, below + handicap, below), above)


def strongest_beside(counts: Counts, labels: IntArray) -> tuple[IntArray, IntArray]:
    """The largest count among the labels with a smaller index, and among those with a larger one; -1 without any."""
    if not isinstance(counts, np.ndarray):
        return _sparse_strongest_beside(counts, labels)
    smaller = np.arange(counts.shape[1]) < labels[:, None]
    below: IntArray = np.where(smaller, counts, -1).max(axis=1)
    np.put_along_axis(smaller, labels[:, None], True, axis=1)
    above: IntArray = np.where(smaller, -1, counts).max(axis=1)
    return below, above


def entries(counts: Counts) -> tuple[IntArray, IntArray, IntArray]:
    """All counts that are not zero, row by row: the row, the label and the count of each."""
    if isinstance(counts, np.ndarray):
        rows, labels = np.nonzero(counts)
        return rows, labels, counts[rows, labels]
    return _rows(counts), counts.indices, counts.data


def _canonical(counts: Sparse) -> Sparse:
    """The counts sorted, without stored zeros or duplicate entries."""
    table = csr_array(counts, dtype=np.int64, copy=True)
    table.sum_duplicates()
    table.eliminate_zeros()
    return table


def _row_maximum(values: IntArray, counts: Sparse) -> IntArray:
    """The largest of each row's stored values; 0 for a row that has none."""
    best = np.zeros(counts.shape[0], dtype=np.int64)
    np.maximum.at(best, _rows(counts), values)
    return best


def _rows(counts: Sparse) -> IntArray:
    return np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))


def _sparse_top(counts: Sparse) -> tuple[IntArray, IntArray]:
    best = _row_maximum(counts.data, counts)
    rows = _rows(counts)
    leading = counts.data == best[rows]
    labels = np.full(counts.shape[0], counts.shape[1], dtype=np.int64)
    np.minimum.at(labels, rows[leading], counts.indices[leading])
    return np.where(best > 0, labels, 0), best


def _sparse_strongest_beside(counts: Sparse, labels: IntArray) -> tuple[IntArray, IntArray]:
    """As for dense counts; a label that is not stored has no votes."""
    mine = labels[_rows(counts)]
    below = _row_maximum(np.where(counts.indices < mine, counts.data, 0), counts)
    above = _row_maximum(np.where(counts.indices > mine, counts.data, 0), counts)
    return np.where(labels > 0, below, -1), np.where(labels < counts.shape[1] - 1, above, -1)
