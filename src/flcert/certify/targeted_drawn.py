"""Label-targeted levels of groups drawn at random, from bounds on how many of all possible groups vote for a label."""

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from math import ceil

import numpy as np

from flcert.certify.draw import Draw
from flcert.certify.search import levels_by_value
from flcert.certify.targeted import groups_to_close
from flcert.certify.trusted import Trusted
from flcert.voting.count_table import Counts, IntArray, entries

Votes = Mapping[int, int]  # by label


def drawn_targets(
    counts: Counts, target: int, draw: Draw, *, alpha: Fraction | None = None, trusted: Trusted | None = None
) -> IntArray:
    """For each input a level m such that no m clients can make the label of the ensemble of all groups the target z.

    Let K_j of all C groups vote for label j. Suppose that K_j >= l_j for every label, and K_z <= h; with the l_j, h is
    also at most C minus the sum of the others. Before z may win (it may win every tie), at least

        groups_to_close(l_j - h + (trusted votes of j) - (those of z), for every j != z)

    groups must turn, because fewer votes for the others and more for z only make it easier, and m clients touch
    C - C(n-m, k) groups. T trusted votes beside N groups weigh T C / N, and z must reach those of another label with
    the groups that it has.

    The bounds l_j and h hold all together, for all labels at once, so they hold for whichever target is asked about.

    Args:
        counts: votes for each label.
        target: z.
        draw: the draw.
        alpha: the failure probability of each bound, of which there are two for each label; None: only what is certain.
            If the groups are distinct, those that were drawn are certain.
        trusted: votes of a model that no client can change.
    """
    bounds = _Bounds(draw, alpha)
    votes: list[dict[int, int]] = [{} for _ in range(counts.shape[0])]
    for row, label, number in zip(*(part.tolist() for part in entries(counts)), strict=True):
        votes[row][label] = number
    turned = np.empty(len(votes), dtype=object)  # may be huge
    for row, given in enumerate(votes):
        fixed = {} if trusted is None else {int(trusted.labels[row]): trusted.votes}
        turned[row] = bounds.to_elect(target, given, fixed)
    return levels_by_value(turned, draw.level)


class _Bounds:
    """Bounds on the number of all groups that vote for a label, from its votes; each is computed once."""

    def __init__(self, draw: Draw, alpha: Fraction | None) -> None:
        self.draw, self.alpha = draw, alpha
        self.at_least, self.at_most = cache(self._at_least), cache(self._at_most)

    def _at_least(self, votes: int) -> int:
        known = votes if self.draw.distinct else 0
        return known if self.alpha is None else max(known, self.draw.at_least(votes, self.alpha))

    def _at_most(self, votes: int) -> int:
        draw = self.draw
        known = votes + draw.total - draw.num_groups if draw.distinct else draw.total
        return known if self.alpha is None else min(known, draw.at_most(votes, self.alpha))

    def to_elect(self, target: int, votes: Votes, fixed: Votes) -> int:
        """How many groups must turn before the target draws level with all other labels; C + 1 if all do not suffice.

        Args:
            target: z.
            votes: the votes of the groups; a label without any has no gap to close, unless it has trusted votes.
            fixed: the trusted votes.
        """
        draw = self.draw
        least = {label: self.at_least(votes.get(label, 0)) for label in {*votes, *fixed} - {target}}
        missing = draw.num_groups - sum(votes.values())  # these may have been votes for the target
        most = min(self.at_most(votes.get(target, 0) + missing), draw.total - sum(least.values()))
        lead = {label: fixed.get(label, 0) - fixed.get(target, 0) for label in least}
        weight = {label: ceil(Fraction(more * draw.total, draw.num_groups)) for label, more in lead.items()}
        alone = max(weight.values(), default=0) - most
        if alone + most > draw.total:
            return draw.total + 1
        return max(alone, groups_to_close(least[label] - most + weight[label] for label in least))
