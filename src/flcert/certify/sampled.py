"""FLCert-P with N sampled groups: Algorithm 1 and Theorems 1 and 3, and tighter bounds for the same votes."""

import json
from bisect import bisect_left
from dataclasses import dataclass
from math import comb
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from pydantic import Field

from flcert.certify.certificate import Certificate
from flcert.certify.confidence import Probability, failure_probability
from flcert.certify.draw import Draw
from flcert.certify.evidence import Evidence
from flcert.certify.guarantee import Groups, Guarantee
from flcert.certify.tails import Election, both_tails, one_tail
from flcert.certify.targeted import implied_levels
from flcert.certify.targeted_drawn import drawn_targets
from flcert.certify.trusted import Trusted
from flcert.errors import InputError, check_range, unknown_name
from flcert.voting.count_table import Counts, CountsLike, IntArray, checked_counts, top_label
from flcert.voting.ties import Ties

Selection = Literal["safe", "paper"]
Tails = Literal["one", "both", "best"]

SELECTIONS: tuple[Selection, ...] = get_args(Selection)
TAILS: tuple[Tails, ...] = get_args(Tails)


@dataclass(frozen=True)
class SampledOptions:
    """Options that go beyond the paper's Algorithm 1.

    Args:
        num_groups: N; by default the row sum. Groups that were drawn but cast no vote count towards N.
        tails: "one" bounds K_y from its votes and takes C - K_y for every K_z, as in the paper. "both" bounds every K_z
            from its own votes too, and pays for all those bounds. "best" takes the higher level of the two, each with
            half of alpha.
        distinct: whether the N groups were drawn without repetition. Then bounds are tighter, and certainty counts too:
            K_y is at least the votes for y, and K_z at most those for z and the groups whose vote is not known.
        trusted: votes of a model that no client can change.
    """

    num_groups: int | None = None
    tails: Tails = "one"
    distinct: bool = False
    trusted: Trusted | None = None

    def __post_init__(self) -> None:
        if self.tails not in TAILS:
            raise unknown_name("tails", self.tails, TAILS)


def sampled(
    counts: CountsLike,
    *,
    num_clients: int,
    group_size: int,
    alpha: Probability = 0.001,
    num_inputs: int | None = None,
    selection: Selection = "safe",
    options: SampledOptions = SampledOptions(),  # noqa: B008 (frozen)
) -> Certificate:
    """Certify the ideal ensemble of all C(n, k) groups from the votes of N groups drawn at random.

    With probability at least 1 - alpha over the draw of the groups, for all inputs at once: the ensemble
    of all C(n, k) groups predicts ``labels`` where not abstained, and still does whatever ``levels``
    malicious clients do. The N deployed models are a sample of that ensemble, not the ensemble itself.

    Let K_j be the number of all C = C(n, k) groups that vote for label j. From a lower bound on K_y and an upper bound
    on every other K_z, Theorem 1 grants the largest m with

        K_y - K_z > 2 C - 2 C(n-m, k),   0 <= m <= n-k.

    T trusted votes beside N groups weigh as much as T C / N beside all C: the ensemble then predicts the label with the
    largest K_j + (T C / N) [j is the trusted model's label], and the level is n if that model cannot be outvoted.

    Args:
        counts: votes for each label, (inputs x labels), an array or a SciPy sparse array.
        num_clients: n.
        group_size: k.
        alpha: the failure probability, shared by all inputs.
        num_inputs: the number of inputs D that share alpha; by default the rows of ``counts``.
        selection: "safe" halves alpha, because the label is chosen from the same votes that then bound
            its probability (see docs/theory.md); "paper" does not, as in the paper's Algorithm 1.
        options: for groups that cast no vote, and tighter bounds.

    Returns:
        The certificate. An input abstains where not even m = 0 is granted; ``labels`` then holds the smallest index
        among those with the most votes.

    Differs from the paper: ``selection="safe"`` and ``options``.

    >>> sampled([[480, 20], [260, 240]], num_clients=1000, group_size=2).levels
    array([238,   0])
    """
    table = checked_counts(counts)
    check_range("group_size", group_size, 1, num_clients, "num_clients")
    per_input = failure_probability(alpha) / _inputs_sharing_alpha(num_inputs, table.shape[0])
    draw = Draw(num_clients, group_size, _number_of_groups(table, options.num_groups), options.distinct)
    labels, _ = top_label(table if options.trusted is None else options.trusted.added_to(table))
    election = Election(table, labels, options.trusted, draw)
    share = per_input / (2 if options.tails == "best" else 1) / _labels_that_can_fail(selection)
    levels = []
    if options.tails != "both":
        levels.append(one_tail(election, share))
    if options.tails != "one":
        levels.append(both_tails(election, share / table.shape[1]))
    return Certificate.build(labels, np.max(levels, axis=0))


class Sampled(Guarantee):
    """FLCert-P with groups drawn at random, see ``sampled``.

    Args:
        group_size: k.
        alpha: the failure probability.
        selection: correction for choosing the label by its votes.
        tails: which labels are bounded from their own votes.
        distinct: whether the groups were drawn without repetition.
    """

    title: ClassVar[str] = "sampled groups"
    suits: ClassVar[str] = "groups drawn at random"
    probabilistic: ClassVar[bool] = True
    ties: ClassVar[Ties] = "random"
    takes_trusted: ClassVar[bool] = True

    kind: str = "sampled"
    group_size: int | None = Field(default=None, ge=1)
    alpha: float = 0.001
    selection: Selection = "safe"
    tails: Tails = "one"
    distinct: bool = False

    @classmethod
    def fits(cls, groups: Groups) -> bool:
        """Whether the groups were drawn at random, all of one size."""
        return groups.drawn and {len(group) for group in groups.members} == {groups.group_size}

    @classmethod
    def numbers(cls, groups: Groups, num_failed: int) -> dict[str, Any]:
        """The fields that follow from the groups."""
        numbers = super().numbers(groups, num_failed)
        return numbers | {"group_size": groups.group_size, "distinct": groups.distinct}

    def certify(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:
        """Algorithm 1."""
        if self.num_clients is None or self.group_size is None:
            raise InputError(f"a certificate of kind {self.kind!r} needs the number of clients and the group size")
        return sampled(
            evidence.counts,
            num_clients=self.num_clients,
            group_size=self.group_size,
            alpha=self.alpha,
            num_inputs=num_inputs,
            selection=self.selection,
            options=self._options(evidence),
        )

    def target_levels(self, evidence: Evidence, target: int) -> IntArray:
        """What the certificate, and the bounds on all labels behind it, say about the target.

        A label that cannot be changed cannot become the target. With one tail only the winner's groups are bounded,
        and that is all, apart from what distinct draws make certain. With both tails every label is bounded, all of
        them at once, and ``drawn_targets`` says more without spending anything.
        """
        certificate, table, options = self.certify(evidence), checked_counts(evidence.counts), self._options(evidence)
        levels, num_labels = implied_levels(certificate, target), table.shape[1]
        check_range("target", target, 0, num_labels - 1)
        if self.tails == "one" and not self.distinct:
            return levels
        assert self.num_clients is not None
        assert self.group_size is not None
        draw = Draw(self.num_clients, self.group_size, _number_of_groups(table, options.num_groups), self.distinct)
        share = failure_probability(self.alpha) / len(levels) / _labels_that_can_fail(self.selection) / num_labels
        each = {"one": None, "both": share, "best": share / 2}[self.tails]
        return np.maximum(levels, drawn_targets(table, target, draw, alpha=each, trusted=options.trusted))

    def _options(self, evidence: Evidence) -> SampledOptions:
        number = self.num_groups or self._groups_behind(evidence.counts)
        return SampledOptions(number, self.tails, self.distinct, self.trusted_votes(evidence))

    def _groups_behind(self, counts: Counts) -> int | None:
        """N from counts and failed groups, if it was not given."""
        return int(counts.sum(axis=1).max()) + self.num_failed if self.num_failed else None

    def least_groups(self, num_inputs: int) -> int:
        """The smallest N with which any input can be certified, if there are two labels.

        With trusted votes one group may do. Of distinct groups no more than half of all and one more are needed. If n
        or k is not known, the groups count as independent. Both tails need log2(L / 2) more groups for L labels.
        """
        if self.trusted:
            return 1
        if self.num_clients is None or self.group_size is None:
            alpha = failure_probability(self.alpha) / (1 if self.tails == "one" else 2)
            return least_groups(num_inputs, alpha, self.selection)
        total, high = comb(self.num_clients, self.group_size), 1
        while not self._certifies_unanimous(high, num_inputs):
            high = min(2 * high, total) if self.distinct else 2 * high
        fewer = range(high // 2, high)
        return fewer[0] + bisect_left(fewer, True, key=lambda number: self._certifies_unanimous(number, num_inputs))

    def _certifies_unanimous(self, num_groups: int, num_inputs: int) -> bool:
        """Whether a unanimous vote of this many groups is certified."""
        if num_groups == 0:
            return False
        alone = self.model_copy(update={"num_groups": num_groups, "num_failed": 0})
        return not alone.certify(Evidence(np.array([[num_groups, 0]])), num_inputs).abstained[0]

    def theorem(self) -> str:
        """The numbers in the order of the first version of flcert, so that existing accounts of alpha stay valid."""
        names = ("kind", "num_clients", "group_size", "num_groups", "num_failed", "tails", "distinct")
        trusted = {"trusted": self.trusted} if self.trusted else {}
        return json.dumps({name: getattr(self, name) for name in names} | {"tie_seed": 0} | trusted)

    @property
    def failure_probability(self) -> str:
        """An upper bound on the probability that a certificate is wrong; see docs/theory.md on selection."""
        return f"{self.alpha}" if self.selection == "safe" else f"2 x {self.alpha}"

    @property
    def _about(self) -> str:
        """What a level is about, and how certain it is."""
        return (
            "It speaks of the ensemble of all possible groups, of which the trained ones are a sample, and holds for "
            f"all inputs that share alpha at once except with probability {self.failure_probability} (selection: "
            f"{self.selection}). Curves along the rounds, where there are any, hold each by itself."
        )

    @property
    def proved(self) -> str:
        """How to begin a sentence about something that is proved."""
        return (
            "Proved of the ensemble of all possible groups, except with probability "
            f"{self.failure_probability} over their draw"
        )

    @property
    def caption(self) -> str:
        """What a curve of certified accuracy shows."""
        return (
            "The share of test inputs that the ensemble of all possible groups gets right and keeps right, whatever m "
            f"clients do, except with probability {self.failure_probability} over the draw of the groups"
        )

    def _of_input(self, name: str, nobody: str) -> str:
        return (
            f"{name}, and {nobody} could have changed what the ensemble of all possible groups answers, "
            f"except with probability {self.failure_probability} over the draw of the groups."
        )

    def _without_malicious(self, claim: str) -> str:
        return (
            "Nothing is proved by this certificate against malicious clients; without any, in the ensemble of all "
            f"possible groups {claim}, except with probability {self.failure_probability} over the draw of the groups."
        )

    def _of_test_set(self, they_do: str, claim: str) -> str:
        return (
            f"Except with probability {self.failure_probability} over the draw of the groups: "
            f"whatever {they_do}, in the ensemble of all possible groups {claim}."
        )


def least_groups(num_inputs: int, alpha: Probability = 0.001, selection: Selection = "safe") -> int:
    """The smallest N with which any input can be certified; with fewer, even a unanimous vote abstains.

    A unanimous vote of N groups bounds p_y by a^(1/N), where a is one input's share of alpha; that exceeds 1/2 only if
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
