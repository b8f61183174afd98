"""FLCert-P with N sampled groups: Algorithm 1 and Theorems 1 and 3."""

from fractions import Fraction
from functools import partial
from math import ceil, comb
from typing import Literal

import numpy as np

from flcert.certify.confidence import Probability, clopper_pearson, failure_probability
from flcert.certify.result import Certificate, Counts, CountsLike, checked_counts, top_label
from flcert.certify.search import levels_by_value, untouched_groups
from flcert.errors import InputError, check_range, unknown_name

Selection = Literal["safe", "paper"]

SELECTIONS: tuple[Selection, ...] = ("safe", "paper")


def sampled(
    counts: CountsLike,
    *,
    num_clients: int,
    group_size: int,
    alpha: Probability = 0.001,
    num_inputs: int | None = None,
    selection: Selection = "safe",
    num_groups: int | None = None,
) -> Certificate:
    """Certify the ideal ensemble of all C(n, k) groups from the votes of N groups drawn at random.

    With probability at least 1 - alpha over the draw of the groups, for all inputs at once: the ensemble
    of all C(n, k) groups predicts ``labels`` where not abstained, and still does whatever ``levels``
    malicious clients do. The N deployed models are a sample of that ensemble, not the ensemble itself.

    Args:
        counts: votes for each label, (inputs x labels), an array or a SciPy sparse array.
        num_clients: n.
        group_size: k.
        alpha: the failure probability, shared by all inputs.
        num_inputs: the number of inputs D that share alpha; by default the rows of ``counts``.
        selection: "safe" halves alpha, because the label is chosen from the same votes that then bound
            its probability (see docs/theory.md); "paper" does not, as in the paper's Algorithm 1.
        num_groups: N; by default the row sum. Groups that were drawn but cast no vote belong to N.

    Returns:
        The certificate. An input abstains where the lower bound on p_y is at most 1/2; ``labels`` then
        holds the smallest index among those with most votes.

    Differs from the paper: ``selection="safe"``.

    >>> sampled([[480, 20], [260, 240]], num_clients=1000, group_size=2).levels
    array([238,   0])
    """
    table = checked_counts(counts)
    check_range("group_size", group_size, 1, num_clients, "num_clients")
    per_input = failure_probability(alpha) / _inputs_sharing_alpha(num_inputs, table.shape[0])
    per_input /= _labels_that_can_fail(selection)
    trials = _number_of_groups(table, num_groups)
    labels, top = top_label(table)
    level = partial(_level, trials=trials, alpha=per_input, num_clients=num_clients, group_size=group_size)
    return Certificate.build(labels, levels_by_value(top, level))


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


def _level(votes: int, *, trials: int, alpha: Fraction, num_clients: int, group_size: int) -> int:
    if 2 * votes <= trials:  # no majority: another label may have as many votes
        return -1
    return level_of_bound(clopper_pearson(votes, trials, alpha), num_clients, group_size)


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
