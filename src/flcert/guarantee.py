"""Which theorem applies to a vote, with its numbers: from counts to a certificate, and to a sentence."""

from typing import Literal

from pydantic import Field

from flcert import certify, voting
from flcert.ballots import Ballots
from flcert.certify.result import Certificate, Counts, IntArray
from flcert.certify.sampled import Selection, Tails
from flcert.errors import InputError
from flcert.grouping import Grouping
from flcert.registry import Strict

GuaranteeKind = Literal["disjoint", "sampled", "enumerated", "overlapping"]

Further = Literal["overlapping", "runoff", "collective"]  # certificates of the same models beside it

KIND_OF_GROUPING: dict[str, GuaranteeKind] = {
    "hashed": "disjoint",
    "sampled": "sampled",
    "enumerated": "enumerated",
    "spread": "overlapping",
}


class Guarantee(Strict):
    """Everything but the votes that a certificate depends on.

    Args:
        kind: which theorem.
        num_clients: n; needed by all but "disjoint".
        group_size: k; needed by "sampled" and "enumerated".
        num_groups: N, the groups drawn, whether they voted or not; used by "sampled".
        num_failed: groups with clients but without a model.
        alpha: failure probability of "sampled".
        selection: correction of "sampled" for choosing the label by its votes.
        tails: which labels "sampled" bounds from their own votes.
        distinct: whether the groups of "sampled" were drawn without repetition.
        tie_seed: of the random tie rule of FLCert-P.
    """

    kind: GuaranteeKind = "disjoint"
    num_clients: int | None = Field(default=None, ge=1)
    group_size: int | None = Field(default=None, ge=1)
    num_groups: int | None = Field(default=None, ge=1)
    num_failed: int = Field(default=0, ge=0)
    alpha: float = 0.001
    selection: Selection = "safe"
    tails: Tails = "one"
    distinct: bool = False
    tie_seed: int = 0

    @classmethod
    def of(
        cls,
        grouping: Grouping,
        *,
        num_failed: int = 0,
        alpha: float = 0.001,
        selection: Selection = "safe",
        tails: Tails = "one",
    ) -> "Guarantee":
        """The guarantee that groups of this kind have."""
        return cls(
            kind=KIND_OF_GROUPING[grouping.kind],
            num_clients=grouping.num_clients,
            group_size=grouping.group_size,
            num_groups=len(grouping),
            num_failed=num_failed,
            alpha=alpha,
            selection=selection,
            tails=tails,
            distinct=grouping.distinct,
        )

    def certify(self, ballots: Ballots, num_inputs: int | None = None) -> Certificate:
        """The certificate of these votes.

        Args:
            ballots: the votes.
            num_inputs: how many inputs share the alpha of "sampled"; by default those of the ballots.
        """
        counts = ballots.counts
        if self.kind == "disjoint":
            return certify.disjoint(counts, num_failed=self.num_failed)
        if self.kind == "overlapping":
            if self.num_clients is None or ballots.votes is None or not ballots.groups:
                raise InputError("a certificate of overlapping groups needs each group's vote and its clients")
            return certify.overlapping(ballots.votes, ballots.groups, num_clients=self.num_clients)
        if self.num_clients is None or self.group_size is None:
            raise InputError(f"a certificate of kind {self.kind!r} needs the number of clients and the group size")
        if self.kind == "enumerated":
            return certify.enumerated(
                counts, num_clients=self.num_clients, group_size=self.group_size, num_failed=self.num_failed
            )
        return certify.sampled(
            counts,
            num_clients=self.num_clients,
            group_size=self.group_size,
            alpha=self.alpha,
            num_inputs=num_inputs,
            selection=self.selection,
            num_groups=self.num_groups or self._groups_behind(counts),
            tails=self.tails,
            distinct=self.distinct,
        )

    def _groups_behind(self, counts: Counts) -> int | None:
        """N from counts and failed groups, where it was not given."""
        return int(counts.sum(axis=1).max()) + self.num_failed if self.num_failed else None

    def predict(self, ballots: Ballots) -> IntArray:
        """The label that the deployed groups vote for, with the tie rule of this kind."""
        ties: voting.Ties = "smallest" if self.kind in ("disjoint", "overlapping") else "random"
        return voting.winners(ballots.counts, ties, self.tie_seed)

    @property
    def failure_probability(self) -> str:
        """The probability that a certificate of sampled groups is wrong, at most; see docs/theory.md on selection."""
        return f"{self.alpha}" if self.selection == "safe" else f"2 x {self.alpha}"

    def sentence_for_input(self, name: str, level: int, *, abstained: bool) -> str:
        """What is proved about one input, in words.

        Args:
            name: of its label.
            level: how many malicious clients cannot change it.
            abstained: whether nothing is certified.
        """
        if abstained:
            return f"{name}, but nothing is certified: the vote is too close."
        if level == 0:
            return f"{name}, but nothing is proved against even one malicious client."
        of_clients = f"of the {self.num_clients:,} clients" if self.num_clients else "clients"
        nobody = f"no {level:,} {of_clients} together" if level > 1 else f"no one {of_clients}"
        if self.kind != "sampled":
            return f"{name}, and {nobody} could have changed this."
        return (
            f"{name}, and {nobody} could have changed what the ensemble of all possible groups answers, "
            f"except with probability {self.failure_probability} over the draw of the groups."
        )

    def sentence(self, level: int, certified: int, num_inputs: int, *, right: bool) -> str:
        """What a point of the curve proves, in words."""
        whose = f"of the {self.num_clients:,} clients" if self.num_clients else "clients" if level > 1 else "client"
        they_do = f"any {level:,} {whose} do" if level > 1 else f"any one {whose} does"
        share = f"{certified:,} of these {num_inputs:,} test inputs ({certified / num_inputs:.1%})"
        if level == 0:
            return f"Nothing is proved here against malicious clients; without any, {share} are certified."
        keep = "keep their right label" if right else "keep their label"
        if self.kind != "sampled":
            return f"Whatever {they_do}, at least {share} {keep}."
        return (
            f"Except with probability {self.failure_probability} over the draw of the groups: "
            f"whatever {they_do}, in the ensemble of all possible groups at least {share} {keep}."
        )
