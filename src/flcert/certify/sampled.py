"""FLCert-P with N sampled groups: Algorithm 1 and Theorems 1 and 3, and tighter bounds for the same votes."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, comb, floor
from typing import Literal

import numpy as np

from flcert.certify.confidence import Probability, clopper_pearson, failure_probability, hypergeometric
from flcert.certify.enumerated import enumerated
from flcert.certify.result import Certificate, Counts, CountsLike, IntArray, checked_counts, runner_up, top_label
from flcert.certify.search import levels_by_value, untouched_groups
from flcert.errors import InputError, check_range, unknown_name

Selection = Literal["safe", "paper"]
Tails = Literal["one", "both", "best"]

SELECTIONS: tuple[Selection, ...] = ("safe", "paper")
TAILS: tuple[Tails, ...] = ("one", "both", "best")


def sampled(
    counts: CountsLike,
    *,
    num_clients: int,
    group_size: int,
    alpha: Probability = 0.001,
    num_inputs: int | None = None,
    selection: Selection = "safe",
    num_groups: int | None = None,
    tails: Tails = "one",
    distinct: bool = False,
) -> Certificate:
    """Certify the ideal ensemble of all C(n, k) groups from the votes of N groups drawn at random.

    With probability at least 1 - alpha over the draw of the groups, for all inputs at once: the ensemble
    of all C(n, k) groups predicts ``labels`` where not abstained, and still does whatever ``levels``
    malicious clients do. The N deployed models are a sample of that ensemble, not the ensemble itself.

    Let K_j be the number of all C = C(n, k) groups that vote for label j. From a lower bound on K_y and an upper bound
    on every other K_z, Theorem 1 grants the largest m with

        K_y - K_z > 2 C - 2 C(n-m, k),   0 <= m <= n-k.

    Args:
        counts: votes for each label, (inputs x labels), an array or a SciPy sparse array.
        num_clients: n.
        group_size: k.
        alpha: the failure probability, shared by all inputs.
        num_inputs: the number of inputs D that share alpha; by default the rows of ``counts``.
        selection: "safe" halves alpha, because the label is chosen from the same votes that then bound
            its probability (see docs/theory.md); "paper" does not, as in the paper's Algorithm 1.
        num_groups: N; by default the row sum. Groups that were drawn but cast no vote belong to N.
        tails: "one" bounds K_y from its votes and takes C - K_y for every K_z, as in the paper. "both" bounds every K_z
            from its own votes too, and pays for all those bounds. "best" takes the higher level of the two, each with
            half of alpha.
        distinct: whether the N groups were drawn without repetition, which gives tighter bounds; if all groups were
            drawn and voted, nothing is left to bound.

    Returns:
        The certificate. An input abstains where not even m = 0 is granted; ``labels`` then holds the smallest index
        among those with most votes.

    Differs from the paper: ``selection="safe"``, ``tails`` and ``distinct``.

    >>> sampled([[480, 20], [260, 240]], num_clients=1000, group_size=2).levels
    array([238,   0])
    """
    table = checked_counts(counts)
    check_range("group_size", group_size, 1, num_clients, "num_clients")
    if tails not in TAILS:
        raise unknown_name("tails", tails, TAILS)
    per_input = failure_probability(alpha) / _inputs_sharing_alpha(num_inputs, table.shape[0])
    draw = Draw(num_clients, group_size, _number_of_groups(table, num_groups), distinct)
    if distinct and draw.num_groups == draw.total == table.sum(axis=1).min():  # all of them voted
        return enumerated(table, num_clients=num_clients, group_size=group_size)
    labels, top = top_label(table)
    levels = []
    if tails != "both":
        share = per_input / (2 if tails == "best" else 1)
        levels.append(levels_by_value(top, OneTail(draw, share / _labels_that_can_fail(selection)).level))
    if tails != "one":
        share = per_input / (2 if tails == "best" else 1)
        missing = draw.num_groups - np.asarray(table.sum(axis=1)).reshape(-1)
        second = runner_up(table, labels, handicap=False) + missing
        bounds = table.shape[1] * _labels_that_can_fail(selection)
        levels.append(BothTails(draw, share / bounds).levels(top, second))
    return Certificate.build(labels, np.max(levels, axis=0))


@dataclass(frozen=True)
class Draw:
    """N groups drawn from the C(n, k) possible ones.

    Args:
        num_clients: n.
        group_size: k.
        num_groups: N.
        distinct: whether no group was drawn twice.
    """

    num_clients: int
    group_size: int
    num_groups: int
    distinct: bool

    def __post_init__(self) -> None:
        if self.distinct:
            check_range("num_groups", self.num_groups, 1, self.total, "C(n, k)")

    @cached_property
    def total(self) -> int:
        """C = C(n, k)."""
        return comb(self.num_clients, self.group_size)

    def at_least(self, votes: int, alpha: Fraction) -> int:
        """A number of all groups that, with probability at least 1 - alpha, is not above those that vote alike."""
        if self.distinct:
            return hypergeometric(votes, self.num_groups, self.total, alpha)
        return ceil(clopper_pearson(votes, self.num_groups, alpha) * self.total)

    def at_most(self, votes: int, alpha: Fraction) -> int:
        """A number of all groups that, with probability at least 1 - alpha, is not below those that vote alike."""
        if self.distinct:
            return self.total - hypergeometric(self.num_groups - votes, self.num_groups, self.total, alpha)
        return floor((1 - clopper_pearson(self.num_groups - votes, self.num_groups, alpha)) * self.total)

    def level_of_gap(self, gap: int) -> int:
        """The largest m that Theorem 1 grants for K_y - K_z >= gap, or -1."""
        return untouched_groups(self.num_clients, self.group_size, more_than=2 * self.total - gap)


@dataclass(frozen=True)
class OneTail:
    """The paper's bound: every rival is given all groups that are not known to vote for y."""

    draw: Draw
    alpha: Fraction

    def level(self, votes: int) -> int:
        """The level of a label with so many votes."""
        draw = self.draw
        if 2 * votes <= draw.num_groups:  # no majority: another label may have as many votes
            return -1
        if not draw.distinct:
            bound = clopper_pearson(votes, draw.num_groups, self.alpha)
            return level_of_bound(bound, draw.num_clients, draw.group_size)
        if draw.num_groups == 1 < draw.total:  # one group is a majority of itself, whichever it is: see docs/theory.md
            return -1
        return draw.level_of_gap(2 * draw.at_least(votes, self.alpha) - draw.total)


def level_of_bound(lower_bound: Fraction, num_clients: int, group_size: int) -> int:
    """The largest m that Theorem 1 grants for a lower bound on p_y and 1 - p_y above every p_z, or -1.

    With C = C(n, k) the condition of Theorem 1 is, in integers,

        2 ceil(p C) + 2 C(n-m, k) > 3 C,   0 <= m <= n-k.

    >>> level_of_bound(Fraction(1), 30, 2)
    8
    """
    if lower_bound <= Fraction(1, 2):
        return -1
    total = comb(num_clients, group_size)
    return untouched_groups(num_clients, group_size, more_than=3 * total - 2 * ceil(lower_bound * total))


@dataclass(frozen=True)
class BothTails:
    """Bounds on the groups of all labels at once: from below for y, from above for its strongest rival."""

    draw: Draw
    alpha: Fraction

    def levels(self, top: IntArray, second: IntArray) -> IntArray:
        """The level of each input from the votes of y and of the strongest rival."""
        draw = self.draw
        low = {int(votes): draw.at_least(int(votes), self.alpha) for votes in np.unique(top)}
        high = {int(votes): draw.at_most(int(votes), self.alpha) for votes in np.unique(second)}
        gaps = np.empty(len(top), dtype=object)  # C(n, k) may be beyond any machine integer
        for position, (mine, rival) in enumerate(zip(top.tolist(), second.tolist(), strict=True)):
            gaps[position] = low[mine] - min(high[rival], draw.total - low[mine])
        return levels_by_value(gaps, draw.level_of_gap)


def least_groups(num_inputs: int, alpha: Probability = 0.001, selection: Selection = "safe") -> int:
    """The smallest N with which any input can be certified; with fewer, even a unanimous vote abstains.

    A unanimous vote of N groups bounds p_y by a^(1/N), with a what alpha leaves to one input; that is above 1/2 only if
    N > log2(1/a).

    >>> least_groups(10_000, 0.001, "paper"), least_groups(10_000)
    (24, 25)
    """
    check_range("num_inputs", num_inputs, 1, 2**62)
    per_input = failure_probability(alpha) / num_inputs / _labels_that_can_fail(selection)
    return (per_input.denominator // per_input.numerator).bit_length()


def _labels_that_can_fail(selection: str) -> int:
    if selection not in SELECTIONS:
        raise unknown_name("selection", selection, SELECTIONS)
    return 2 if selection == "safe" else 1


def _inputs_sharing_alpha(num_inputs: int | None, rows: int) -> int:
    if num_inputs is None:
        return rows
    if num_inputs < rows:
        raise InputError(f"num_inputs must be at least the {rows} inputs in counts, got {num_inputs}")
    return num_inputs


def _number_of_groups(table: Counts, num_groups: int | None) -> int:
    sums = table.sum(axis=1)
    largest = int(sums.max())
    if num_groups is None:
        if len(np.unique(sums)) > 1 or largest == 0:
            raise InputError(
                f"rows of counts must have the same positive sum, got {sums.min()} to {largest}; "
                "give num_groups if some groups cast no vote"
            )
        return largest
    if num_groups < max(largest, 1):
        raise InputError(
            f"num_groups must be at least {max(largest, 1)}, the votes cast for one input, got {num_groups}"
        )
    return num_groups
