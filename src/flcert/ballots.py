"""The votes of all groups on some inputs, with who is in which group: what certificates are computed from."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flcert import voting
from flcert.certify.result import Counts

Members = tuple[NDArray[np.int64], ...]


@dataclass(frozen=True)
class Ballots:
    """Votes, counted.

    Args:
        counts: votes for each label, (inputs x labels).
        votes: the label that each group gives to each input, (groups x inputs), where it is known.
        groups: for each group the positions of its clients, where it is known.
    """

    counts: Counts
    votes: NDArray[np.integer] | None = None
    groups: Members = ()

    @classmethod
    def cast(cls, votes: ArrayLike, num_labels: int | None = None, groups: Sequence[ArrayLike] = ()) -> "Ballots":
        """Ballots from a (groups x inputs) table of votes, -1 where a group casts none."""
        members = tuple(np.asarray(group, dtype=np.int64) for group in groups)
        return cls(voting.count(votes, num_labels), np.asarray(votes), members)
