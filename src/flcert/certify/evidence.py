"""What certificates are computed from: the votes of all groups on some inputs, and who is in which group."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flcert.certify.ranks import RankCounts
from flcert.voting.count_table import Counts
from flcert.voting.counting import count

Members = tuple[NDArray[np.int64], ...]


@dataclass(frozen=True)
class Evidence:
    """The votes on some inputs. The kind of a certificate says which parts it needs.

    Args:
        counts: votes for each label, (inputs x labels).
        votes: the label that each group gives to each input, (groups x inputs), if known.
        groups: for each group, the positions of its clients, if known.
        ranks: how the groups rank the labels, if known.
    """

    counts: Counts
    votes: NDArray[np.integer] | None = None
    groups: Members = ()
    ranks: RankCounts | None = None

    @classmethod
    def of_votes(
        cls,
        votes: ArrayLike,
        num_labels: int | None = None,
        groups: Sequence[ArrayLike] = (),
        ranks: RankCounts | None = None,
    ) -> "Evidence":
        """Evidence from a (groups x inputs) table of votes, -1 where a group casts none."""
        members = tuple(np.asarray(group, dtype=np.int64) for group in groups)
        return cls(count(votes, num_labels), np.asarray(votes), members, ranks)

    def __len__(self) -> int:
        return int(self.counts.shape[0])

    def part(self, rows: slice) -> "Evidence":
        """The evidence for some of the inputs."""
        votes = None if self.votes is None else self.votes[:, rows]
        ranks = None if self.ranks is None else self.ranks.part(rows)
        return replace(self, counts=self.counts[rows], votes=votes, ranks=ranks)
