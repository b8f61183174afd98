"""The label that a vote elects, under one of the two tie rules."""

from typing import Literal

import numpy as np

from flcert.core.seeding import stream
from flcert.voting.count_table import Counts, CountsLike, IntArray, checked_counts, top_label

Ties = Literal["smallest", "random"]
"""How a tie is broken: the smallest label wins, or one is drawn."""


def winners(counts: CountsLike, ties: Ties = "smallest", seed: int = 0) -> IntArray:
    """The label with the most votes for each input.

    Args:
        counts: votes for each label, (inputs x labels).
        ties: "smallest" takes the smallest index (FLCert-D); "random" draws one of the tied labels
            (FLCert-P). A tie is never certified for FLCert-P, so the draw plays no part in a proof.
        seed: the seed of the draw; each input has its own stream.
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
    """The labels that have exactly this many votes for one input."""
    if isinstance(counts, np.ndarray):
        return np.flatnonzero(counts[row] == votes)
    if votes == 0:
        return np.arange(counts.shape[1])
    stored = slice(counts.indptr[row], counts.indptr[row + 1])
    labels: IntArray = counts.indices[stored][counts.data[stored] == votes]
    return labels
