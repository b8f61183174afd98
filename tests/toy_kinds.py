"""A certificate and groupings of a user's own, as small as they can be."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from flcert.certify import Certificate, Evidence, Guarantee, disjoint
from flcert.grouping import Grouping, GroupingKind


class Cautious(Guarantee):
    """A part of what Theorem 4 proves, for people who trust nobody."""

    title: ClassVar[str] = "cautious levels"

    part: int = Field(default=2, ge=1)

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
