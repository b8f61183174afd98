"""Levels from the votes of drawn groups: bounds on the groups of the winner alone, or on those of all labels."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert.certify.confidence import clopper_pearson
from flcert.certify.draw import Draw
from flcert.certify.search import by_value, levels_by_value
from flcert.certify.trusted import Trusted
from flcert.voting.count_table import Counts, IntArray, runner_up, votes_for


@dataclass(frozen=True)
class Election:
    """The votes of drawn groups, and the labels that won."""

    table: Counts
    labels: IntArray
    trusted: Trusted | None
    draw: Draw

    @cached_property
    def votes(self) -> IntArray:
        """The votes of the groups for each winner."""
        return votes_for(self.table, self.labels)

    @cached_property
    def leads(self) -> IntArray:
        """How many trusted votes each winner has more than its strongest rival, as far as these go: T, or -T."""
        if self.trusted is None:
            return np.zeros(len(self.labels), dtype=np.int64)
        return np.where(self.trusted.labels == self.labels, self.trusted.votes, -self.trusted.votes)

    def levels(self, least: NDArray[Any], most: Callable[[IntArray], NDArray[Any]]) -> IntArray:
        """The lower level against two rivals: the label with the most votes of groups, and that of the trusted model.

        Args:
            least: lower bounds on K_y.
            most: upper bounds on K_z from the votes for z.
        """
        missing = self.draw.num_groups - np.asarray(self.table.sum(axis=1)).reshape(-1)  # any rival may have had these
        second = runner_up(self.table, self.labels, handicap=False) + missing
        levels = self.draw.levels(least, most(second), np.maximum(self.leads, 0))
        if self.trusted is None:
            return levels
        theirs = np.where(self.leads < 0, votes_for(self.table, self.trusted.labels) + missing, second)
        return np.minimum(levels, self.draw.levels(least, most(theirs), self.leads))


@dataclass(frozen=True)
class OneTail:
    """The paper's bound: every rival is given all groups that are not known to vote for y.

    Args:
        draw: the draw.
        alpha: the failure probability.
        lead: T if y is the label of the trusted model, -T if it is a rival's.
    """

    draw: Draw
    alpha: Fraction
    lead: int = 0

    def level(self, votes: int) -> int:
        """The level of a label with this many votes.

        The selection correction needs more than the bound: at least 1 + (N-1) s votes, where s is the share above which
        the label wins. Without trusted votes that is a majority.
        """
        draw, threshold = self.draw, self.draw.threshold(self.lead)
        if threshold < 0:  # more trusted votes than groups
            return draw.num_clients
        if votes < 1 + (draw.num_groups - 1) * threshold:
            return -1
        if not draw.distinct:
            return draw.level_of_bound(clopper_pearson(votes, draw.num_groups, self.alpha), self.lead)
        if draw.num_groups == 1 < draw.total:  # a single group is always a majority of itself: see docs/theory.md
            return -1
        return draw.level_of_least(draw.at_least(votes, self.alpha), self.lead)


def one_tail(election: Election, alpha: Fraction) -> IntArray:
    """The paper's levels; for distinct groups those that follow with certainty, where they are higher.

    Certain are K_y >= v_y and K_z <= v_z + C - N: groups that were not drawn may vote for z. Both tails never have
    worse bounds than these; see docs/theory.md.
    """
    draw, votes, leads = election.draw, election.votes, election.leads
    levels = np.empty(len(votes), dtype=np.int64)
    for lead in np.unique(leads).tolist():
        levels[leads == lead] = levels_by_value(votes[leads == lead], OneTail(draw, alpha, lead).level)
    if not draw.distinct:
        return levels
    undrawn = draw.total - draw.num_groups
    return np.maximum(levels, election.levels(votes.astype(object), lambda seen: seen.astype(object) + undrawn))


def both_tails(election: Election, alpha: Fraction) -> IntArray:
    """Levels from bounds on the groups of all labels at once: from below for y, from above for a rival."""
    at_least, at_most = partial(election.draw.at_least, alpha=alpha), partial(election.draw.at_most, alpha=alpha)
    return election.levels(by_value(election.votes, at_least), partial(by_value, function=at_most))
