"""FLCert-P with every possible group trained: the level from exact label probabilities (Theorem 1)."""

from functools import partial
from math import comb
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from flcert.certify.certificate import Certificate
from flcert.certify.evidence import Evidence
from flcert.certify.guarantee import Groups, Guarantee
from flcert.certify.search import level_of_turned, levels_by_value
from flcert.certify.targeted import groups_to_elect
from flcert.certify.trusted import Trusted
from flcert.certify.turning import groups_to_overtake
from flcert.errors import InputError, check_range
from flcert.voting.count_table import Counts, CountsLike, IntArray, checked_counts, top_label
from flcert.voting.ties import Ties


def enumerated(
    counts: CountsLike, *, num_clients: int, group_size: int, num_failed: int = 0, trusted: Trusted | None = None
) -> Certificate:
    """Certify the majority vote of all C(n, k) groups of k clients.

    m malicious clients leave C(n-m, k) groups untouched and may turn each of the others from y to z, so
    y stays strictly ahead while

        v_y - v_z > 2 C(n, k) - 2 C(n-m, k),   0 <= m <= n-k     (Theorem 1 with exact probabilities).

    With trusted votes the gap can be more than the groups that vote for y close; the level is the largest m that
    touches fewer groups than must turn (``groups_to_turn``), and n if not even all groups suffice.

    Args:
        counts: votes for each label, (inputs x labels), an array or a SciPy sparse array; each row sums to
            C(n, k) - num_failed.
        num_clients: n.
        group_size: k.
        num_failed: groups whose vote is missing; each counts as one vote for the strongest rival.
        trusted: votes of a model that no client can change.

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
    labels, _ = top_label(table if trusted is None else trusted.added_to(table))
    voting = total - num_failed
    needed = groups_to_overtake(table, labels, trusted, ties="random", num_failed=num_failed, total=voting)
    level = partial(level_of_turned, total=voting, num_clients=num_clients, group_size=group_size)
    return Certificate.build(labels, levels_by_value(needed, level))


def enumerated_targets(
    counts: CountsLike,
    target: int,
    *,
    num_clients: int,
    group_size: int,
    num_failed: int = 0,
    trusted: Trusted | None = None,
) -> IntArray:
    """For each input the largest m that touches fewer groups than must turn before the target may win.

    It may win where no label is strictly ahead of it, because ties are broken at random. Among all models with these
    counts there are some that one more client turns.

    Args:
        counts: votes for each label, as for ``enumerated``.
        target: the label.
        num_clients: n.
        group_size: k.
        num_failed: groups whose vote is missing; each counts as one vote for the target.
        trusted: votes of a model that no client can change.

    >>> enumerated_targets([[5, 5, 0], [10, 0, 0]], 2, num_clients=5, group_size=2)
    array([0, 1])
    """
    table, voting = checked_counts(counts), comb(num_clients, group_size) - num_failed
    needed = groups_to_elect(table, target, trusted, ties="random", num_failed=num_failed, total=voting)
    level = partial(level_of_turned, total=voting, num_clients=num_clients, group_size=group_size)
    return levels_by_value(needed, level)


def _check_all_groups_present(table: Counts, total: int, num_clients: int, group_size: int, num_failed: int) -> None:
    check_range("num_failed", num_failed, 0, total, "C(n, k)")
    sums = table.sum(axis=1)
    wrong = np.flatnonzero(sums != total - num_failed)
    if len(wrong):
        raise InputError(
            f"each row of counts must sum to C({num_clients}, {group_size}) - num_failed = {total - num_failed}, "
            f"got {sums[wrong[0]]} for input {wrong[0]}"
        )


class Enumerated(Guarantee):
    """FLCert-P with every possible group trained, see ``enumerated``.

    Args:
        group_size: k.
    """

    title: ClassVar[str] = "all possible groups"
    suits: ClassVar[str] = "all groups of a fixed size"
    ties: ClassVar[Ties] = "random"
    takes_trusted: ClassVar[bool] = True

    kind: str = "enumerated"
    group_size: int | None = Field(default=None, ge=1)

    @classmethod
    def fits(cls, groups: Groups) -> bool:
        """Whether all groups of k clients are present, each exactly once."""
        size = groups.group_size
        if groups.drawn or size is None or len(groups.members) != comb(groups.num_clients, size):
            return False
        if any(len(group) != size for group in groups.members):
            return False
        return len({tuple(sorted(group.tolist())) for group in groups.members}) == len(groups.members)

    @classmethod
    def numbers(cls, groups: Groups, num_failed: int) -> dict[str, Any]:
        """The fields that follow from the groups."""
        return super().numbers(groups, num_failed) | {"group_size": groups.group_size}

    def certify(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:  # noqa: ARG002 (nothing is shared)
        """Theorem 1 with exact probabilities."""
        return enumerated(evidence.counts, **self._known(evidence))

    def target_levels(self, evidence: Evidence, target: int) -> IntArray:
        """The largest m that touches fewer groups than must turn before the target may win."""
        return enumerated_targets(evidence.counts, target, **self._known(evidence))

    def _known(self, evidence: Evidence) -> dict[str, Any]:
        if self.num_clients is None or self.group_size is None:
            raise InputError(f"a certificate of kind {self.kind!r} needs the number of clients and the group size")
        size = {"num_clients": self.num_clients, "group_size": self.group_size}
        return size | {"num_failed": self.num_failed, "trusted": self.trusted_votes(evidence)}

    @property
    def _about(self) -> str:
        """What a level is about, and how certain it is."""
        return "It speaks of all possible groups, each of which was trained, and holds with certainty."
