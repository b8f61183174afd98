"""One attacker for the whole test set: how many inputs stay right, whichever m clients are malicious."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flcert.certify.certificate import Certificate
from flcert.certify.disjoint import disjoint, groups_with_clients, share_no_client
from flcert.certify.evidence import Evidence
from flcert.certify.guarantee import Figures, Groups, Guarantee, Need, Report
from flcert.certify.trusted import Trusted
from flcert.errors import InputError, check_range
from flcert.voting.count_table import IntArray, runner_up, top_label

SCALE = 2**32  # multipliers of the dual are whole multiples of 1 / SCALE


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
    """A lower bound on how many inputs keep their right label when m malicious clients attack all of them at once.

    Certified accuracy assumes the worst attacker for each input. Here one set of m groups must serve for all inputs
    (Chen et al., ICML 2022). An attacked group gives a rival of y at most one vote, and takes one from y if it voted
    for y, so input i breaks only if

        sum over the attacked groups g of (1 + [f_g = y_i]) >= gap_i + 1,

    where gap_i = v_y - max over z of (v_z + [z < y]).

    Letting groups be attacked and inputs break fractionally gives a linear program whose optimum is at least the
    number of inputs that can break. HiGHS solves it, but the result relies only on a bound by weak duality, which holds
    for any multipliers l_i in [0, 1 / (gap_i + 1)] and is computed in whole numbers:

        broken <= sum of (1 - (gap_i + 1) l_i) + the m largest of S_g,    S_g = sum over i of l_i (1 + [f_g = y_i]).

    Inputs whose own level is at least m never break, so the result is never below CA@m of Theorem 4.

    Args:
        counts: votes for each label, (inputs x labels), those of a trusted model not among them.
        votes: the label that each group gives to each input, (groups x inputs); -1 where it casts no vote.
        truth: the true labels.
        num_malicious: m.
        num_failed: groups with clients but without a model; each counts as one vote for the strongest rival.
        trusted: votes of a model that no client can change; they are part of v_y and v_z.
        num_groups: the groups that have clients; by default all.

    >>> collective([[3, 0], [3, 0]], [[0, 0], [0, 0], [0, 0]], [0, 0], 1)
    2
    """
    table, cast, right = np.asarray(counts), np.asarray(votes), np.asarray(truth)
    if cast.ndim != 2 or cast.shape[1] != len(table) or right.shape != (len(table),):
        raise InputError(f"votes {cast.shape}, counts {table.shape} and truth {right.shape} do not fit together")
    check_range("num_malicious", num_malicious, 0, 2**31)
    reachable = num_groups or len(cast)  # no more groups can be attacked
    certificate = disjoint(table, num_failed=num_failed, trusted=trusted, num_groups=reachable)
    counted = table if trusted is None else trusted.added_to(table)
    labels, top = top_label(counted)
    considered = (labels == right) & ~certificate.abstained
    stands = certificate.levels >= min(num_malicious, reachable)
    safe, at_risk = int((considered & stands).sum()), np.flatnonzero(considered & ~stands)
    if len(at_risk) == 0:
        return safe
    gaps = (top - runner_up(counted, labels, handicap=True) - num_failed)[at_risk]
    reach = 1 + (cast[:, at_risk] == labels[at_risk]).astype(np.int64)
    return safe + len(at_risk) - most_broken(reach, gaps, num_malicious)


def most_broken(reach: IntArray, gaps: IntArray, num_malicious: int) -> int:
    """An upper bound on the number of inputs that can break.

    Args:
        reach: (groups x inputs), by how much attacking a group closes the gap of an input.
        gaps: the gap of each input, which breaks when the attack exceeds it.
        num_malicious: how many groups can be attacked.
    """
    multipliers = _multipliers(reach, gaps, num_malicious)
    return min(int(reach.shape[1]), dual_bound(multipliers, reach, gaps, num_malicious))


def dual_bound(multipliers: IntArray, reach: IntArray, gaps: IntArray, num_malicious: int) -> int:
    """The weak-duality bound for multipliers in units of 1 / SCALE, rounded down: a number of inputs is whole."""
    allowed = np.minimum(np.maximum(multipliers, 0), SCALE // (gaps + 1))
    unused = [SCALE - (int(gap) + 1) * int(one) for gap, one in zip(gaps, allowed, strict=True)]
    sums: list[int] = sorted((int(total) for total in reach @ allowed), reverse=True)
    return (sum(unused) + sum(sums[:num_malicious])) // SCALE


def _multipliers(reach: IntArray, gaps: IntArray, num_malicious: int) -> IntArray:
    """Good multipliers from the linear program; zeros, which are sound too, if HiGHS finds none.

    Its variables are the share of each group that is attacked and the share of each input that breaks.
    """
    from scipy.optimize import linprog  # slow to import, so only where it is needed
    from scipy.sparse import csr_array, diags_array, hstack, vstack

    groups, inputs = reach.shape
    breaking = hstack([csr_array(-reach.T.astype(np.float64)), diags_array(gaps + 1.0)])
    budget = hstack([csr_array(np.ones((1, groups))), csr_array((1, inputs))])
    solved = linprog(
        np.concatenate([np.zeros(groups), -np.ones(inputs)]),
        A_ub=vstack([breaking, budget]).tocsr(),
        b_ub=np.concatenate([np.zeros(inputs), [num_malicious]]),
        bounds=(0, 1),
        method="highs-ds",
    )
    if solved.ineqlin is None or solved.ineqlin.marginals is None:
        return np.zeros(inputs, dtype=np.int64)
    multipliers: IntArray = np.floor(-solved.ineqlin.marginals[:inputs] * SCALE).astype(np.int64)
    return multipliers


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
        given = partial(
            collective,
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
            kept[m] = given(m)
            report(done, len(levels))
        return Figures(title=self.title, inputs=kept)

    @classmethod
    def note_beside(cls, own: Guarantee) -> str:  # noqa: ARG003 (whatever it is)
        """What its curve leaves out."""
        return "The whole-test-set figure counts inputs without naming them, and was computed for some m only."

    def _of_test_set(self, they_do: str, claim: str) -> str:
        return f"Whatever {they_do} to all of them at once, {claim}."
