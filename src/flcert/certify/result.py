"""What a certificate is, and the check that every certificate function makes of its vote counts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flcert.errors import InputError

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Certificate:
    """For each input the predicted label, and how many malicious clients provably cannot change it.

    Args:
        labels: the predicted label y of each input.
        levels: m*, the certified security level of each input; 0 where abstained.
        abstained: True where nothing is certified, not even with no malicious client.
    """

    labels: IntArray
    levels: IntArray
    abstained: BoolArray

    def __len__(self) -> int:
        return len(self.labels)

    @classmethod
    def build(cls, labels: IntArray, levels: IntArray) -> "Certificate":
        """A certificate from levels in which a negative number means: not even level 0 holds."""
        return cls(labels, np.maximum(levels, 0), levels < 0)


def checked_counts(counts: ArrayLike) -> IntArray:
    """The counts as an (inputs x labels) int64 array, or an InputError that says what is wrong."""
    table = np.asarray(counts)
    if table.ndim != 2 or table.shape[0] == 0 or table.shape[1] < 2:
        raise InputError(f"counts must be (inputs x labels), at least 1 input and 2 labels, got shape {table.shape}")
    if not np.issubdtype(table.dtype, np.integer):
        raise InputError(f"counts must be integers, got dtype {table.dtype}")
    low, high = int(table.min()), int(table.max())
    if low < 0 or high > 2**31:
        raise InputError(f"counts must be in [0, 2**31], got {low if low < 0 else high}")
    return table.astype(np.int64, copy=False)


def top_label(counts: IntArray) -> tuple[IntArray, IntArray]:
    """The label with most votes in each row, the smallest index on a tie, and its count."""
    labels = counts.argmax(axis=1)
    return labels, np.take_along_axis(counts, labels[:, None], axis=1)[:, 0]


def runner_up(counts: IntArray, labels: IntArray, handicap: bool) -> IntArray:
    """The largest count among the other labels; with ``handicap`` a smaller index counts one vote more."""
    rivals = counts.copy()
    if handicap:
        rivals += np.arange(counts.shape[1]) < labels[:, None]
    np.put_along_axis(rivals, labels[:, None], -1, axis=1)
    best: IntArray = rivals.max(axis=1)
    return best
