"""FLCert-P with every possible group trained: the level from exact label probabilities (Theorem 1)."""

from functools import partial
from math import comb

import numpy as np

from flcert.certify.result import Certificate, Counts, CountsLike, checked_counts, runner_up, top_label
from flcert.certify.search import levels_by_value, untouched_groups
from flcert.errors import InputError, check_range


def enumerated(counts: CountsLike, *, num_clients: int, group_size: int, num_failed: int = 0) -> Certificate:
    """Certify the majority vote of all C(n, k) groups of k clients.

    m malicious clients leave C(n-m, k) groups untouched and may turn each of the others from y to z, so
    y stays strictly ahead while

        v_y - v_z > 2 C(n, k) - 2 C(n-m, k),   0 <= m <= n-k     (Theorem 1 with exact probabilities).

    Args:
        counts: votes for each label, (inputs x labels), an array or a SciPy sparse array; each row sums to
            C(n, k) - num_failed.
        num_clients: n.
        group_size: k.
        num_failed: groups whose vote is missing; each is taken as one vote for the strongest rival.

    Returns:
        The certificate. An input abstains where y is not strictly ahead: the paper breaks such ties at
        random, so there is no label to certify. ``labels`` then holds the smallest tied index.

    >>> enumerated([[10, 0]], num_clients=5, group_size=2).levels
    array([1])
    """
    table = checked_counts(counts)
    check_range("group_size", group_size, 1, num_clients, "num_clients")
    total = comb(num_clients, group_size)
    _check_all_groups_present(table, total, num_clients, group_size, num_failed)
    labels, top = top_label(table)
    gaps = top - runner_up(table, labels, handicap=False) - num_failed
    level = partial(_level, num_clients=num_clients, group_size=group_size)
    return Certificate.build(labels, levels_by_value(gaps, level))


def _level(gap: int, *, num_clients: int, group_size: int) -> int:
    """The largest m whose condition holds for this gap between y and z, or -1."""
    needed = 2 * comb(num_clients, group_size) - gap  # untouched groups, doubled, must exceed this
    return untouched_groups(num_clients, group_size, more_than=needed)


def _check_all_groups_present(table: Counts, total: int, num_clients: int, group_size: int, num_failed: int) -> None:
    check_range("num_failed", num_failed, 0, total, "C(n, k)")
    sums = table.sum(axis=1)
    wrong = np.flatnonzero(sums != total - num_failed)
    if len(wrong):
        raise InputError(
            f"each row of counts must sum to C({num_clients}, {group_size}) - num_failed = {total - num_failed}, "
            f"got {sums[wrong[0]]} for input {wrong[0]}"
        )
