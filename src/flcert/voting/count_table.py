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


def runner_up(counts: Counts, labels: IntArray, handicap: bool) -> IntArray:
    """The largest count among the other labels; with ``handicap``, a smaller index counts as one more vote."""
    if not isinstance(counts, np.ndarray):
        return _sparse_runner_up(counts, labels, handicap)
    rivals = counts.copy()
    if handicap:
        rivals += np.arange(counts.shape[1]) < labels[:, None]
    np.put_along_axis(rivals, labels[:, None], -1, axis=1)
    best: IntArray = rivals.max(axis=1)
    return best


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


def _sparse_runner_up(counts: Sparse, labels: IntArray, handicap: bool) -> IntArray:
    """As for dense counts; a label without votes is a rival too, worth one vote if its index is smaller."""
    rows = _rows(counts)
    smaller = counts.indices < labels[rows]
    stored = np.where(counts.indices == labels[rows], -1, counts.data + (smaller if handicap else 0))
    best = _row_maximum(stored, counts)
    if handicap:
        voted_smaller = np.bincount(rows[smaller], minlength=len(labels))
        best = np.maximum(best, voted_smaller < labels)
    return best
