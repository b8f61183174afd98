"""What certificates are computed from: the votes of all groups on some inputs, and who is in which group."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flcert.certify.ranks import RankCounts
from flcert.certify.trusted import checked_labels
from flcert.voting.count_table import Counts, IntArray
from flcert.voting.counting import NO_VOTE, count

Members = tuple[NDArray[np.int64], ...]


@dataclass(frozen=True)
class Evidence:
    """The votes on some inputs. The kind of a certificate says which parts it needs.

    Args:
        counts: votes for each label, (inputs x labels).
        votes: the label that each group gives to each input, (groups x inputs), if known.
        groups: for each group, the positions of its clients, if known.
        ranks: how the groups rank the labels, if known.
        trusted: the label that a model of the server's own gives to each input, if there is one. Its votes are not
            among the counts: how many it casts is part of a guarantee.
    """

    counts: Counts
    votes: NDArray[np.integer] | None = None
    groups: Members = ()
    ranks: RankCounts | None = None
    trusted: IntArray | None = None

    def __post_init__(self) -> None:
        if self.trusted is not None:
            checked_labels(self.trusted, *self.counts.shape)

    @classmethod
    def of_votes(
        cls,
        votes: ArrayLike,
        num_labels: int | None = None,
        groups: Sequence[ArrayLike] = (),
        ranks: RankCounts | None = None,
        trusted: ArrayLike | None = None,
    ) -> "Evidence":
        """Evidence from a (groups x inputs) table of votes, -1 where a group casts none."""
        members = tuple(np.asarray(group, dtype=np.int64) for group in groups)
        counts = count(votes, num_labels)
        if trusted is None:
            return cls(counts, np.asarray(votes), members, ranks)
        chosen = checked_labels(trusted, counts.shape[0], num_labels or 2**31)
        if chosen.max() >= counts.shape[1]:
            counts = count(votes, int(chosen.max()) + 1)
        return cls(counts, np.asarray(votes), members, ranks, chosen)

    def __len__(self) -> int:
        return int(self.counts.shape[0])

    def silent(self) -> IntArray:
        """For each input, how many groups with clients cast no vote; zeros if it is not known who is in which group."""
        if self.votes is None or not self.groups:
            return np.zeros(len(self), dtype=np.int64)
        peopled = np.array([len(group) > 0 for group in self.groups])
        return np.asarray((self.votes[peopled] == NO_VOTE).sum(axis=0), dtype=np.int64)

    def part(self, rows: slice | IntArray) -> "Evidence":
        """The evidence for some of the inputs."""
        votes = None if self.votes is None else self.votes[:, rows]
        ranks = None if self.ranks is None else self.ranks.part(rows)
        trusted = None if self.trusted is None else self.trusted[rows]
        return replace(self, counts=self.counts[rows], votes=votes, ranks=ranks, trusted=trusted)
