"""A certificate and groupings of a user's own, as small as they can be."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from flcert.certify import Certificate, Disjoint, Evidence, Guarantee, disjoint
from flcert.certify.disjoint import share_no_client
from flcert.certify.guarantee import Groups
from flcert.grouping import Grouping, GroupingKind


class Cautious(Guarantee):
    """A part of what Theorem 4 proves, for people who trust nobody."""

    title: ClassVar[str] = "cautious levels"
    suits: ClassVar[str] = "disjoint groups"

    part: int = Field(default=2, ge=1)

    @classmethod
    def fits(cls, groups: Groups) -> bool:
        return share_no_client(groups)

    def certify(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:  # noqa: ARG002
        whole = disjoint(evidence.counts, num_failed=self.num_failed)
        return Certificate(whole.labels, whole.levels // self.part, whole.abstained)

    @classmethod
    def note_beside(cls, own: Guarantee) -> str:  # noqa: ARG003
        return "Cautious levels are lower than they need be."

    def _of_input(self, name: str, nobody: str) -> str:
        return f"{name}, and {nobody} could have changed this, said with care."

    def _of_test_set(self, they_do: str, claim: str) -> str:
        return f"Said with care: whatever {they_do}, {claim}."


class Dealt(GroupingKind):
    """Clients dealt out to the groups one after the other, in order of id."""

    title: ClassVar[str] = "dealt out"
    certificate: ClassVar[str] = "disjoint"

    num_groups: int = Field(default=4, gt=0)

    def build(self, ids: Sequence[str]) -> Grouping:
        order = sorted(range(len(ids)), key=lambda client: ids[client])
        groups = tuple(np.array(order[start :: self.num_groups], dtype=np.int64) for start in range(self.num_groups))
        return Grouping(self.kind, len(ids), groups)


class CautiouslyDealt(Dealt):
    """The same with a certificate of one's own."""

    certificate: ClassVar[str] = "tests.toy_kinds:Cautious"


class WronglyDealt(Dealt):
    """Everybody in every group, which its certificate does not hold for."""

    def build(self, ids: Sequence[str]) -> Grouping:
        return Grouping(self.kind, len(ids), tuple(np.arange(len(ids)) for _ in range(self.num_groups)))


class Outside(Dealt):
    """A client that is not there, counted from the end."""

    def build(self, ids: Sequence[str]) -> Grouping:
        return Grouping(self.kind, len(ids), (np.array([0, len(ids) - 1]), np.array([1, -1])))


class Nothing(Dealt):
    """No groups at all."""

    def build(self, ids: Sequence[str]) -> Grouping:  # noqa: ARG002
        return None  # type: ignore[return-value]


class Clumsy(Dealt):
    """Groups that cannot be made."""

    def build(self, ids: Sequence[str]) -> Grouping:  # noqa: ARG002
        raise ZeroDivisionError("no reason")


class Drawn(Dealt):
    """Groups drawn at random, by a hand of one's own."""

    certificate: ClassVar[str] = "sampled"

    def build(self, ids: Sequence[str]) -> Grouping:
        draws = np.random.default_rng(0)
        groups = tuple(np.sort(draws.choice(len(ids), 3, replace=False)) for _ in range(self.num_groups))
        return Grouping(self.kind, len(ids), groups, group_size=3, drawn=True)


class Careless(Cautious):
    """A certificate that fails."""

    def certify(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:  # noqa: ARG002
        raise KeyError("lost")


class Listed(Cautious):
    """A certificate that is none."""

    def certify(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:  # noqa: ARG002
        return [1, 2]  # type: ignore[return-value]


class Undecided(Guarantee):
    """A certificate that does not say which groups it holds for."""

    title: ClassVar[str] = "undecided"

    def certify(self, evidence: Evidence, num_inputs: int | None = None) -> Certificate:  # noqa: ARG002
        return disjoint(evidence.counts)


class Stricter(Disjoint):
    """A kind of flcert's, changed a little."""

    title: ClassVar[str] = "stricter"


class Hopeful(Cautious):
    """A certificate that may fail, with a probability that nobody can account for."""

    probabilistic: ClassVar[bool] = True
