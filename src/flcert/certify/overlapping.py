"""Fixed groups that may share clients: one deterministic certificate for every family of groups."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flcert.certify.certificate import Certificate
from flcert.certify.coverage import Coverage
from flcert.certify.evidence import Evidence
from flcert.certify.guarantee import Groups, Guarantee, Need
from flcert.certify.seats import seats_of
from flcert.certify.targeted_overlapping import overlapping_targets
from flcert.certify.trusted import Trusted, checked_labels
from flcert.errors import InputError
from flcert.voting.count_table import BoolArray, IntArray, checked_counts
from flcert.voting.counting import NO_VOTE


def overlapping(
    votes: ArrayLike,
    groups: Sequence[ArrayLike],
    *,
    num_clients: int,
    trusted: Trusted | None = None,
    num_labels: int | None = None,
) -> Certificate:
    """Certify the majority vote of fixed groups; a client may be in several of them.

    A group with a malicious client in it may vote for any label. For a rival z, this closes the gap between the winner
    y and z by at most 1 + [f_g = y] - [f_g = z]. Ties go to the smaller index, so y stands against m clients if for
    every z != y and every set S of m clients

        sum over the groups g that hold a client of S of (1 + [f_g = y] - [f_g = z]) <= v_y - v_z - [z < y].

    The largest left side is a weighted maximum coverage, which is hard to compute. A first level follows from a sum:
    client c alone reaches w_c, the sum over its groups, and m clients no more than the m largest w_c together, nor more
    than all groups with clients. Clients that are in the same groups reach no further together than one of them alone,
    so they count once. The sum charges a group twice that two of the clients share. Where groups do share clients, the
    level is therefore raised as long as ``coverage`` shows that one client more is withstood: by a search, which is
    exact if it ends within its effort, or else by weak duality. The level of an input depends on the votes on it and on
    the groups, not on the other inputs.

    The certificate is about the deployed models themselves and involves no probability. The groups may be disjoint,
    drawn by FLCert-P, or those of finite aggregation. For disjoint groups it is never below Theorem 4.

    Args:
        votes: the label that each group gives to each input, (groups x inputs); -1 where it casts no vote.
        groups: for each group, the positions of its clients. A group with clients that casts no vote has failed; it
            counts as one vote for the rival.
        num_clients: n.
        trusted: votes of a model that no client can change.
        num_labels: L, if known; otherwise there is always a rival that nobody votes for.

    Returns:
        The certificate; a level is at most n. An input abstains where nobody voted or where the failed groups alone
        could have changed its label.

    >>> overlapping([[0], [0], [0], [1]], [[0, 1], [1, 2], [2, 0], [3]], num_clients=4).levels
    array([0])
    >>> overlapping([[0], [0], [0], [0]], [[0], [1], [2], [3]], num_clients=4).levels
    array([2])
    """
    table = np.asarray(votes)
    if table.ndim != 2 or table.shape[0] != len(groups) or table.shape[1] == 0:
        raise InputError(f"votes must be ({len(groups)} groups x inputs), got shape {table.shape}")
    if not np.issubdtype(table.dtype, np.integer) or int(table.min()) < NO_VOTE:
        raise InputError("votes must be labels from 0, or -1 for no vote")
    fixed = _fixed(trusted, table.shape[1])
    highest = max(int(table.max()), max(label for label, _ in fixed))
    if num_labels is not None and highest >= num_labels:
        raise InputError(f"labels must be in [0, num_labels - 1={num_labels - 1}], got {highest}")
    seats = seats_of(groups, num_clients)
    failed = (table == NO_VOTE) & (np.asarray(seats.sum(axis=0)).reshape(-1) > 0)[:, None]
    coverage = Coverage(seats)
    results = [
        _level(table[:, column], failed[:, column], coverage, fixed[column], num_labels)
        for column in range(table.shape[1])
    ]
    labels, levels = (np.array(part, dtype=np.int64) for part in zip(*results, strict=True))
    return Certificate.build(labels, np.where(levels == seats.shape[0], num_clients, levels))


def _fixed(trusted: Trusted | None, num_inputs: int) -> list[tuple[int, int]]:
    """For each input the label of the trusted model, and its votes."""
    if trusted is None or not trusted.votes:
        return [(NO_VOTE, 0)] * num_inputs
    return [(label, trusted.votes) for label in checked_labels(trusted.labels, num_inputs).tolist()]


def _level(
    votes: NDArray[np.integer], failed: BoolArray, coverage: Coverage, fixed: tuple[int, int], num_labels: int | None
) -> tuple[int, int]:
    """The label of one input, and how many kinds of clients it withstands; -1 if not even level 0 holds."""
    cast = np.append(votes, fixed[0])
    cast = cast[cast != NO_VOTE]
    if len(cast) == 0:
        return 0, -1
    present, counts = np.unique(cast, return_counts=True)
    counts[present == fixed[0]] += fixed[1] - 1
    label, top = int(present[counts.argmax()]), int(counts.max())
    rivals, supporters = _rivals(present, counts, label, num_labels)
    gaps = top - supporters - (rivals < label) - int(failed.sum())
    if (gaps < 0).any():
        return label, -1
    against = np.where(failed, 0, 1 + (votes == label))[:, None] - (votes[:, None] == rivals)
    weights = -np.sort(-np.asarray(coverage.seats @ against), axis=0)  # (kinds x rivals), the heaviest first
    everything = against[coverage.manned].sum(axis=0)
    within = (np.minimum(weights.cumsum(axis=0), everything) <= gaps).all(axis=1)
    return label, coverage.withstood(against, gaps, len(within) if within.all() else int(within.argmin()))


def _rivals(present: IntArray, counts: IntArray, label: int, num_labels: int | None) -> tuple[IntArray, IntArray]:
    """Labels that could win, and their votes: those with votes, and the strongest of those without, if there is one."""
    others = present != label
    absent = next((other for other in range(len(present)) if other not in present), len(present))
    if absent == num_labels:
        return present[others], counts[others]
    return np.append(present[others], absent), np.append(counts[others], 0)


class Overlapping(Guarantee):
    """The majority vote of fixed groups that may share clients, see ``overlapping``."""

    title: ClassVar[str] = "fixed overlapping groups"
    needs: ClassVar[Need] = "votes"
    takes_trusted: ClassVar[bool] = True

    kind: str = "overlapping"

    @classmethod
    def fits(cls, groups: Groups) -> bool:  # noqa: ARG003 (any will do)
        """It holds for all groups."""
        return True

    def certify(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:  # noqa: ARG002 (nothing is shared)
        """Bound what m clients can do to known groups."""
        num_clients, votes = self._known(evidence)
        return overlapping(
            votes,
            evidence.groups,
            num_clients=num_clients,
            trusted=self.trusted_votes(evidence),
            num_labels=evidence.counts.shape[1],
        )

    def target_levels(self, evidence: Evidence, target: int) -> IntArray:
        """Bound what m clients can do for the target; sound, not always tight."""
        (num_clients, votes), trusted = self._known(evidence), self.trusted_votes(evidence)
        counts, seats = checked_counts(evidence.counts), seats_of(evidence.groups, num_clients)
        found = overlapping_targets(counts, votes, target, seats=seats, num_clients=num_clients, trusted=trusted)
        plain = self.certify(evidence)  # what keeps its label does not get another
        certified = (plain.labels != target) & ~plain.abstained
        return np.where(certified, np.maximum(found, plain.levels), found)

    def _known(self, evidence: Evidence) -> tuple[int, NDArray[np.integer]]:
        if self.num_clients is None or evidence.votes is None or not evidence.groups:
            raise InputError("a certificate of overlapping groups needs each group's vote and its clients")
        return self.num_clients, evidence.votes

    @property
    def _about(self) -> str:
        """What a level is about, and how certain it is."""
        return (
            "It speaks of the trained groups themselves, in which a client may be several times, and holds with "
            "certainty."
        )

    @classmethod
    def note_beside(cls, own: Guarantee) -> str:
        """How it differs from a probabilistic certificate."""
        if not own.probabilistic:
            return ""
        return (
            "The certificate of fixed overlapping groups speaks of the groups that were trained, holds with certainty, "
            "and gives equal votes to the smallest label instead of breaking ties at random."
        )
