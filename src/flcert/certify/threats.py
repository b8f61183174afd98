"""Which inputs an attacker of disjoint groups can break, and what attacking each group contributes."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flcert.certify.trusted import Trusted
from flcert.voting.count_table import BoolArray, IntArray, top_label, votes_for
from flcert.voting.counting import NO_VOTE


@dataclass(frozen=True)
class Threats:
    """The ways in which inputs can break, each an input and a rival label z that could win it.

    An attacked group votes for z, which closes the gap between the winner y and z by reach = 1 + [f_g = y] - [f_g = z].
    The input breaks if the attacked groups together close more than its gap for one of its rivals.

    Args:
        reach: (groups x threats), each 0, 1 or 2.
        gaps: what each threat must exceed.
        owners: the input of each threat, in ascending order.
    """

    reach: IntArray
    gaps: IntArray
    owners: IntArray

    @cached_property
    def starts(self) -> IntArray:
        """The first threat of each input."""
        return np.flatnonzero(np.append(True, self.owners[1:] != self.owners[:-1]))

    @cached_property
    def places(self) -> IntArray:
        """For each threat the place of its input among those that have any."""
        return np.append(0, (self.owners[1:] != self.owners[:-1]).cumsum())

    def part(self, kept: BoolArray) -> "Threats":
        """Some of the threats."""
        return Threats(self.reach[:, kept], self.gaps[kept], self.owners[kept])

    def broken(self, closed: IntArray) -> BoolArray:
        """The inputs that break when this much of each threat's gap is closed; the last axis is that of the threats."""
        return np.logical_or.reduceat(closed > self.gaps, self.starts, axis=-1)


@dataclass(frozen=True)
class Standing:
    """The votes of disjoint groups on the inputs that have their right label.

    Args:
        votes: the label that each group that can be attacked gives to each input, (groups x inputs); -1 for none.
        labels: the label y of each input.
        supporters: the votes of the groups for each label, (inputs x labels).
        gaps: v_y - v_z - [z < y] for each label z, less the failed groups, (inputs x labels).
    """

    votes: NDArray[np.integer]
    labels: IntArray
    supporters: IntArray
    gaps: IntArray

    @classmethod
    def of(
        cls,
        counts: IntArray,
        votes: NDArray[np.integer],
        truth: NDArray[np.generic],
        *,
        num_failed: int,
        trusted: Trusted | None,
        num_groups: int,
    ) -> "Standing":
        """The inputs that are right, whatever the failed groups would have voted; see ``collective`` for the rest."""
        counted = counts if trusted is None else trusted.added_to(counts)
        labels, top = top_label(counted)
        smaller = np.arange(counts.shape[1]) < labels[:, None]
        gaps = top[:, None] - counted - smaller - num_failed
        np.put_along_axis(gaps, labels[:, None], np.iinfo(np.int64).max, axis=1)  # y is no rival of its own
        right = (labels == truth) & (top > 0) & (gaps >= 0).all(axis=1)
        return cls(_attackable(votes, num_groups - num_failed)[:, right], labels[right], counts[right], gaps[right])

    def threats(self, num_malicious: int) -> Threats:
        """Those that m groups can carry out, if they may be other groups for each input.

        Of the rivals that no group votes for, only the nearest matters: attacking a group does as much for any of them.
        """
        inputs, rivals = np.nonzero(self._within_reach(num_malicious) & ~self._behind())
        theirs = self.votes[:, inputs]
        reach = 1 + (theirs == self.labels[inputs]).astype(np.int64) - (theirs == rivals)
        return Threats(reach, self.gaps[inputs, rivals], inputs.astype(np.int64))

    def _within_reach(self, num_malicious: int) -> BoolArray:
        """Whether the m groups that close most of a gap close all of it, (inputs x labels)."""
        own = votes_for(self.supporters, self.labels)[:, None]
        others = len(self.votes) - own - self.supporters
        closed = 2 * np.minimum(own, num_malicious) + np.clip(num_malicious - own, 0, others)
        return np.asarray(closed > self.gaps)

    def _behind(self) -> BoolArray:
        """Labels without a vote of a group, except the one of them with the smallest gap, (inputs x labels)."""
        idle = self.supporters == 0
        nearest = np.where(idle, self.gaps, np.iinfo(np.int64).max).argmin(axis=1)
        return np.asarray(idle & (np.arange(idle.shape[1]) != nearest[:, None]))


def _attackable(votes: NDArray[np.integer], with_model: int) -> NDArray[np.integer]:
    """The votes of the groups that can be attacked.

    A group that never votes has no clients or has failed, and a failed group counts as turned already. If more groups
    are said to have clients and a model than ever vote, the rest of them are among the silent ones, which are all
    alike.
    """
    voting = (votes != NO_VOTE).any(axis=1)
    silent = max(with_model - int(voting.sum()), 0)
    return np.concatenate([votes[voting], votes[~voting][:silent]])
