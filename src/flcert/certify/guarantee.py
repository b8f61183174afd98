"""The family of certificates: what every kind must define, and what it gets for free.

A kind is one class in one file of this package, and one line in ``flcert.certify.KINDS``. A user's own kind is named by
its import path. Nothing outside this package knows any kind by name.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from flcert.certify.accuracy import certified_accuracy
from flcert.certify.certificate import Certificate
from flcert.certify.evidence import Evidence, Members
from flcert.certify.trusted import MOST, Trusted
from flcert.core.settings import Strict, named_by_import_path, validated
from flcert.errors import InputError
from flcert.voting.count_table import Counts, IntArray
from flcert.voting.ties import Ties, winners

Need = Literal["counts", "votes", "ranks"]

Report = Callable[[int, int], None]  # the number done, and the total

_TRUSTED = "{:,} of the votes are those of a model of the server's own, which no client can change."


class Groups(Protocol):
    """What a certificate needs to know about groups; ``flcert.grouping.Grouping`` provides it."""

    @property
    def kind(self) -> str:
        """How they were made."""

    @property
    def num_clients(self) -> int:
        """The number of clients n."""

    @property
    def members(self) -> Members:
        """For each group, the positions of its clients."""

    @property
    def group_size(self) -> int | None:
        """The number of clients k of every group, if it is fixed."""

    @property
    def drawn(self) -> bool:
        """Whether the groups were drawn at random."""

    @property
    def distinct(self) -> bool:
        """Whether they were drawn without repetition."""


class Figures(Strict):
    """What a certificate says about a test set.

    Args:
        title: the title of the certificate.
        note: a note for readers who see it beside the run's own certificate; may be empty.
        accuracy: the accuracy of the labels that it certifies, without an attack; None if it has no labels of its own.
        certified_accuracy: CA@m at index m, zero beyond; None if it was computed only for some m.
        inputs: for those m, the number of inputs that stay right.
    """

    title: str = ""
    note: str = ""
    accuracy: float | None = None
    certified_accuracy: tuple[float, ...] | None = None
    inputs: dict[int, int] | None = None


class Guarantee(Strict, ABC):
    """A kind of certificate with its numbers: everything that its levels depend on, except the votes.

    To add a kind, derive a class from this one. Fields are its numbers and settings, class variables describe it, and
    ``certify`` computes the levels. Everything else here has a default that suits a deterministic certificate.

    Args:
        kind: the name of the kind, or its import path.
        num_clients: n, if known.
        num_groups: N, including groups that did not vote, if known.
        num_failed: groups with clients but without a model.
        trusted: T, the votes that a model of the server's own casts on each input; left out of files where it is 0.
    """

    title: ClassVar[str]  # what people call it, in a few words
    suits: ClassVar[str] = "any groups"  # which groups it is for, in words
    needs: ClassVar[Need] = "counts"
    probabilistic: ClassVar[bool] = False
    per_input: ClassVar[bool] = True  # whether it certifies each input, or only how many of a test set stay right
    ties: ClassVar[Ties] = "smallest"
    takes_trusted: ClassVar[bool] = False  # whether its proof covers trusted votes

    kind: str = ""
    num_clients: int | None = Field(default=None, ge=1)
    num_groups: int | None = Field(default=None, ge=1)
    num_failed: int = Field(default=0, ge=0)
    trusted: int = Field(default=0, ge=0, le=MOST)

    @model_validator(mode="before")
    @classmethod
    def _named_by_import_path(cls, values: Any) -> Any:
        return named_by_import_path(cls, values)

    @model_validator(mode="after")
    def _takes_trusted(self) -> Self:
        if self.trusted and not self.takes_trusted:
            raise InputError(f"certificate {self.kind!r} cannot take trusted votes, got {self.trusted}")
        return self

    @model_serializer(mode="wrap")
    def _without_no_trusted(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in plain(self).items() if name != "trusted" or value}

    @classmethod
    @abstractmethod
    def fits(cls, groups: Groups) -> bool:
        """Whether the certificate holds for these groups; ``disjoint.share_no_client`` tells disjoint ones."""

    @classmethod
    def numbers(cls, groups: Groups, num_failed: int) -> dict[str, Any]:
        """The fields that follow from the groups."""
        return {"num_clients": groups.num_clients, "num_groups": len(groups.members), "num_failed": num_failed}

    @classmethod
    def of(cls, kind: str, groups: Groups, *, num_failed: int = 0, settings: Mapping[str, Any] | None = None) -> Self:
        """The guarantee for these groups, refused if it does not hold for them.

        Args:
            kind: the name of this kind.
            groups: who trained together.
            num_failed: groups with clients but without a model.
            settings: values for fields that the user chooses; those that this kind does not have are ignored.
        """
        cls.check_fits(kind, groups)
        chosen = {name: value for name, value in (settings or {}).items() if name in cls.model_fields}
        return validated(cls, {**chosen, "kind": kind, **cls.numbers(groups, num_failed)}, f"certificate {kind!r}: ")

    @classmethod
    def check_fits(cls, kind: str, groups: Groups) -> None:
        """Refuse groups that this certificate does not hold for."""
        if not cls.fits(groups):
            raise InputError(f"certificate {kind!r} is for {cls.suits}, got groups of kind {groups.kind!r}")

    @abstractmethod
    def certify(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:
        """The certificate of these votes.

        Args:
            evidence: the votes.
            num_inputs: how many inputs share the failure probability of a probabilistic certificate; by default those
                of the evidence.
        """

    def certify_each(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:
        """The certificate of votes some of which are missing on some inputs only.

        A group that has clients and a model but casts no vote on an input counts as failed there. Elsewhere it votes as
        any other.

        Args:
            evidence: the votes.
            num_inputs: see ``certify``.
        """
        silent, number = evidence.silent() - self.num_failed, num_inputs or len(evidence)
        if not (silent > 0).any():
            return self.certify(evidence, num_inputs)
        rows = {count: np.flatnonzero(np.maximum(silent, 0) == count) for count in np.unique(np.maximum(silent, 0))}
        parts = [self.with_failed(int(count)).certify(evidence.part(at), number) for count, at in rows.items()]
        back = np.argsort(np.concatenate(list(rows.values())))
        columns = zip(*((one.labels, one.levels, one.abstained) for one in parts), strict=True)
        return Certificate(*(np.concatenate(column)[back] for column in columns))

    def with_failed(self, more: int) -> Self:
        """The same guarantee with more failed groups."""
        return self.model_copy(update={"num_failed": self.num_failed + more})

    def check_evidence(self, evidence: Evidence) -> None:
        """Refuse evidence that lacks what this kind needs."""
        if self.needs == "ranks" and evidence.ranks is None:
            raise InputError(
                f"certificate {self.kind!r} needs how the models rank the labels, which a run keeps if it was made "
                f"with --also {self.kind}"
            )
        if self.needs == "votes" and evidence.votes is None:
            raise InputError(f"certificate {self.kind!r} needs the vote of each group, not only counts")
        self.trusted_votes(evidence)

    def trusted_votes(self, evidence: Evidence) -> Trusted | None:
        """The votes of the trusted model, if there are any."""
        if not self.trusted:
            return None
        if evidence.trusted is None:
            raise InputError(f"{self.trusted} trusted votes were asked for, but no trusted model gave labels")
        return Trusted(evidence.trusted, self.trusted)

    def counted(self, evidence: Evidence) -> Counts:
        """The votes for each label, those of the trusted model among them."""
        trusted = self.trusted_votes(evidence)
        return evidence.counts if trusted is None else trusted.added_to(evidence.counts)

    def predict(self, evidence: Evidence, *, alone: bool = False) -> IntArray:
        """The label of each input, by the tie rule of this kind.

        Args:
            evidence: the votes.
            alone: break each tie as if the input were the only one.
        """
        if alone and self.ties == "random":
            parts = (evidence.part(slice(row, row + 1)) for row in range(len(evidence)))
            return np.concatenate([winners(self.counted(part), self.ties) for part in parts])
        return winners(self.counted(evidence), self.ties)

    def figures(self, evidence: Evidence, truth: NDArray[np.generic], levels: Sequence[int], report: Report) -> Figures:  # noqa: ARG002 (for subclasses)
        """What the certificate says about a test set.

        Args:
            evidence: the votes on its inputs.
            truth: their true labels.
            levels: the numbers of malicious clients to consider, for a kind that cannot afford all of them.
            report: called with the number of levels done and their total.
        """
        labels, certificate = self.answer(evidence)
        return Figures(
            title=self.title,
            accuracy=float(np.mean(labels == truth)),
            certified_accuracy=tuple(certified_accuracy(certificate, truth).tolist()),
        )

    def answer(self, evidence: Evidence, num_inputs: int | None = None) -> tuple[IntArray, Certificate]:
        """The label of each input, and the certificate.

        Args:
            evidence: the votes.
            num_inputs: see ``certify``.
        """
        certificate = self.certify_each(evidence, num_inputs)
        return certificate.labels if self.ties == "smallest" else self.predict(evidence), certificate

    def takeover(self, evidence: Evidence, position: int) -> dict[str, int] | None:  # noqa: ARG002 (for subclasses)
        """The smallest number of malicious clients with which each other label could pass the winner; None if unknown.

        Labels that could not win even if all clients were malicious are left out.
        """
        return None

    def target_levels(self, evidence: Evidence, target: int) -> IntArray | None:  # noqa: ARG002 (for subclasses)
        """For each input the largest m such that no m malicious clients can make its label the target.

        -1 where the label is the target already, or nothing is certified; None if this kind cannot tell. A level is
        never below that of ``certify`` where the label is another. A probabilistic kind certifies all inputs and all
        targets at once, together with ``certify``, within the same failure probability.

        Args:
            evidence: the votes.
            target: the label.
        """
        return None

    def least_groups(self, num_inputs: int) -> int:  # noqa: ARG002 (for subclasses)
        """The smallest number of groups with which anything can be certified for this many inputs."""
        return 1

    def theorem(self) -> str:
        """Everything but the failure probability, as text; it identifies an account of alpha."""
        return self.model_dump_json(exclude={"alpha", "selection"})

    @property
    def failure_probability(self) -> str:
        """An upper bound on the probability that the certificate is wrong; "0" if it holds with certainty."""
        return "0"

    @property
    def meaning(self) -> str:
        """What a level is about, and how certain it is, in one sentence."""
        return " ".join(filter(None, [self._about, self.about_trusted]))

    @property
    def about_trusted(self) -> str:
        """How many of the votes are the server's own, in one sentence; empty if there are none."""
        return _TRUSTED.format(self.trusted) if self.trusted else ""

    @property
    def _about(self) -> str:
        """What it is about without trusted votes."""
        return "It speaks of the trained groups themselves and holds with certainty."

    @property
    def proved(self) -> str:
        """How to begin a sentence about something that is proved."""
        return "Proved"

    @property
    def caption(self) -> str:
        """What a curve of certified accuracy shows, without a full stop."""
        return "The share of test inputs that are right and provably stay so, whatever m clients do"

    @classmethod
    def note_beside(cls, own: "Guarantee") -> str:  # noqa: ARG003 (for subclasses)
        """A note for readers who see this certificate beside the run's own; may be empty."""
        return ""

    def sentence_for_input(self, name: str, level: int, *, abstained: bool) -> str:
        """What is proved about one input, in words.

        Args:
            name: the name of its label.
            level: how many malicious clients cannot change it.
            abstained: whether nothing is certified.
        """
        if abstained:
            return f"{name}, but nothing is certified: the vote is too close, or there are too few groups."
        if level == 0:
            return f"{name}, but nothing is proved against even one malicious client."
        of_clients = f"of the {self.num_clients:,} clients" if self.num_clients else "clients"
        nobody = f"no {level:,} {of_clients} together" if level > 1 else f"no one {of_clients}"
        if level > 1 and level == self.num_clients:
            nobody = f"not even all {level:,} clients together"
        return self._of_input(name, nobody)

    def _of_input(self, name: str, nobody: str) -> str:
        return f"{name}, and {nobody} could have changed this."

    def sentence(self, level: int, certified: int, num_inputs: int, *, right: bool) -> str:
        """What a point of the curve proves, in words.

        Args:
            level: the number of malicious clients m.
            certified: how many inputs are certified against that many.
            num_inputs: how many inputs there are.
            right: whether the counted inputs have the right label.
        """
        share = f"{certified:,} of these {num_inputs:,} test inputs ({certified / num_inputs:.1%})"
        if level == 0:
            return self._without_malicious(f"{share} are certified")
        claim = f"at least {share} keep their {'right ' if right else ''}label"
        return self._of_test_set(self._they_do(level), claim)

    def target_sentence(self, target: str, level: int, reached: int, num_inputs: int) -> str:
        """What a point of the curve of ``targeted_success`` proves, in words.

        Args:
            target: the name of the target label.
            level: the number of malicious clients m.
            reached: how many inputs that many clients could turn into the target at most.
            num_inputs: how many inputs have another true label.
        """
        share = f"{reached:,} of the {num_inputs:,} inputs ({reached / num_inputs:.1%}) whose true label is another"
        claim = f"at most {share} get the label {target}"
        return self._of_test_set(self._they_do(level), claim) if level else self._without_malicious(claim)

    def _without_malicious(self, claim: str) -> str:
        return f"Nothing is proved by this certificate against malicious clients; without any, {claim}."

    def _they_do(self, level: int) -> str:
        whose = f"of the {self.num_clients:,} clients" if self.num_clients else "clients" if level > 1 else "client"
        if level > 1 and level >= (self.num_clients or level + 1):
            return f"all {self.num_clients:,} clients do"
        return f"any {level:,} {whose} do" if level > 1 else f"any one {whose} does"

    def _of_test_set(self, they_do: str, claim: str) -> str:
        return f"Whatever {they_do}, {claim}."
