"""One attacker for the whole test set: how many inputs stay right, whichever m clients are malicious."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flcert.certify.branching import most_broken
from flcert.certify.certificate import Certificate
from flcert.certify.disjoint import groups_with_clients, share_no_client
from flcert.certify.evidence import Evidence
from flcert.certify.guarantee import Figures, Groups, Guarantee, Need, Report
from flcert.certify.relaxation import relaxed_bound
from flcert.certify.threats import Standing
from flcert.certify.trusted import Trusted
from flcert.errors import InputError, check_range
from flcert.voting.count_table import checked_counts


class Kept(NamedTuple):
    """How many inputs stay right, and whether no larger number holds."""

    inputs: int
    exact: bool


@dataclass(frozen=True, eq=False)
class WholeTestSet:
    """The votes on a test set, for an attacker of all of its inputs at once; see ``collective`` for the fields."""

    counts: ArrayLike
    votes: ArrayLike
    truth: ArrayLike
    num_failed: int = 0
    trusted: Trusted | None = None
    num_groups: int | None = None

    def kept(self, num_malicious: int) -> Kept:
        """How many inputs keep their right label when m malicious clients attack all of them at once."""
        check_range("num_malicious", num_malicious, 0, 2**31)
        threats = self._standing.threats(num_malicious)
        if len(threats.gaps) == 0:
            return Kept(len(self._standing.labels), exact=True)
        most, exact = most_broken(threats, num_malicious)
        if not exact:
            most = min(most, relaxed_bound(threats, num_malicious))
        return Kept(len(self._standing.labels) - most, exact)

    @cached_property
    def _standing(self) -> Standing:
        """The inputs that are right without an attack."""
        table, cast, right = checked_counts(self.counts), np.asarray(self.votes), np.asarray(self.truth)
        if cast.ndim != 2 or cast.shape[1] != len(table) or right.shape != (len(table),):
            raise InputError(f"votes {cast.shape}, counts {table.shape} and truth {right.shape} do not fit together")
        numbers = {"num_failed": self.num_failed, "num_groups": self.num_groups or len(cast)}
        return Standing.of(table, cast, right, trusted=self.trusted, **numbers)


def collective(
    counts: ArrayLike,
    votes: ArrayLike,
    truth: ArrayLike,
    num_malicious: int,
    *,
    num_failed: int = 0,
    trusted: Trusted | None = None,
    num_groups: int | None = None,
) -> int:
    """How many inputs at least keep their right label when m malicious clients attack all of them at once.

    Certified accuracy assumes the worst attacker for each input. Here one set S of m groups must serve for all inputs
    (Chen et al., ICML 2022). Input i breaks if for some rival z of its label y

        sum over g in S of (1 + [f_g = y] - [f_g = z]) > v_y - v_z - [z < y].

    ``branching.most_broken`` finds the most inputs that any S breaks, by branch and bound. If that takes too long, it
    returns an upper bound; a second one comes from the linear relaxation (``relaxation.dual_bound``), and the smaller
    of the two counts. All of it is computed in whole numbers. An input that no m groups can break alone never counts as
    broken, so the result is never below CA@m of Theorem 4.

    Args:
        counts: votes for each label, (inputs x labels), those of a trusted model not among them.
        votes: the label that each group gives to each input, (groups x inputs); -1 where it casts no vote. A group that
            never votes counts as empty or failed, unless more groups are said to have clients and a model than vote.
        truth: the true labels.
        num_malicious: m.
        num_failed: groups with clients but without a model; each counts as one vote for z.
        trusted: votes of a model that no client can change; they are part of v_y and v_z.
        num_groups: the groups that have clients, including those that failed; by default all.

    >>> collective([[3, 0], [3, 0]], [[0, 0], [0, 0], [0, 0]], [0, 0], 1)
    2
    """
    return WholeTestSet(counts, votes, truth, num_failed, trusted, num_groups).kept(num_malicious).inputs


class Collective(Guarantee):
    """One attacker for the whole test set, among disjoint groups, see ``collective``."""

    title: ClassVar[str] = "whole test set at once"
    suits: ClassVar[str] = "disjoint groups"
    needs: ClassVar[Need] = "votes"
    per_input: ClassVar[bool] = False
    takes_trusted: ClassVar[bool] = True

    kind: str = "collective"

    @classmethod
    def fits(cls, groups: Groups) -> bool:
        """Whether no client is in two groups."""
        return share_no_client(groups)

    def certify(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:  # noqa: ARG002 (always refused)
        """Refused: it counts inputs without naming them."""
        raise InputError(f"certificate {self.kind!r} counts the inputs of a test set without naming them")

    def figures(self, evidence: Evidence, truth: NDArray[np.generic], levels: Sequence[int], report: Report) -> Figures:
        """How many inputs stay right when m clients attack all of them at once, for each m in ``levels``."""
        if evidence.votes is None or not isinstance(evidence.counts, np.ndarray):
            raise InputError("a collective certificate needs each group's vote, and at most some thousand labels")
        whole = WholeTestSet(
            evidence.counts,
            evidence.votes,
            truth,
            num_failed=self.num_failed,
            trusted=self.trusted_votes(evidence),
            num_groups=groups_with_clients(self, evidence),
        )
        kept = {}
        report(0, len(levels))
        for done, m in enumerate(levels, start=1):
            kept[m] = whole.kept(m)
            report(done, len(levels))
        return Figures(title=self.title, note=_how_exact(kept), inputs={m: one.inputs for m, one in kept.items()})

    @classmethod
    def note_beside(cls, own: Guarantee) -> str:  # noqa: ARG003 (whatever it is)
        """What its curve leaves out."""
        return "The whole-test-set figure counts inputs without naming them, and was computed for some m only."

    def _of_test_set(self, they_do: str, claim: str) -> str:
        return f"Whatever {they_do} to all of them at once, {claim}."


def _how_exact(kept: Mapping[int, Kept]) -> str:
    """For which m the figure is the largest that holds, and for which it is only a lower bound."""
    exact, bounds = (_listed([m for m, one in kept.items() if one.exact is is_it]) for is_it in (True, False))
    parts = []
    if exact:
        parts.append(f"exact at m = {exact}: some m groups, turned as suits them, leave no more inputs right")
    if bounds:
        parts.append(f"a lower bound at m = {bounds}, where the search for the worst groups was cut off")
    return f"The whole-test-set figure is {'. It is '.join(parts)}." if parts else ""


def _listed(numbers: Sequence[int]) -> str:
    *first, last = [""] + [f"{number:,}" for number in numbers]
    return f"{', '.join(first[1:])} and {last}" if first[1:] else last
