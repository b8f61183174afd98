"""The family of groupings: what every kind must define, and what it gets for free.

A kind is one class in one file of this package, and one line in ``flcert.grouping.KINDS``. A user's own kind is named
by its import path. Nothing outside this package knows any kind by name.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from flcert.certify import CertificateSettings, Guarantee
from flcert.core.settings import Choice, Strict, named_by_import_path
from flcert.errors import FlcertError, InputError, check_range
from flcert.grouping.grouping import Grouping
from flcert.grouping.participation import share_of_rounds

Seed = Annotated[int, Field(ge=0, lt=2**63)]


@dataclass(frozen=True)
class Sizes:
    """The numbers from which groups are planned.

    Args:
        num_clients: n.
        num_groups: N.
        group_size: k, for kinds with groups of a fixed size.
        groups_per_client: for kinds in which a client serves several groups; None if the user did not ask for one.
    """

    num_clients: int
    num_groups: int
    group_size: int
    groups_per_client: int | None = None


@dataclass(frozen=True)
class Load:
    """The average work that groups ask of a client.

    Args:
        groups: how many groups it is in.
        share_of_rounds: the share of a group's rounds in which it takes part.
    """

    groups: float
    share_of_rounds: float


@dataclass(frozen=True)
class Outlook:
    """Groups that nobody has trained yet, and a certificate of what they will vote.

    Args:
        guarantee: the certificate.
        num_groups: N, empty groups among them.
        members: for each group, the positions of its clients; empty if the certificate does not look at them.
        any_order: whether all that matters is how many of the groups that have clients agree, or else the first ones
            of ``members`` are those whose agreement is worth least.
    """

    guarantee: Guarantee
    num_groups: int
    members: tuple[NDArray[np.int64], ...] = ()
    any_order: bool = True

    @property
    def num_voting(self) -> int:
        """How many groups have clients."""
        return sum(len(group) > 0 for group in self.members) if self.members else self.num_groups

    def with_voting(self, number: int) -> "Outlook":
        """The same if only this many of the groups have clients."""
        if number == self.num_voting:
            return self
        nobody, ranks = np.array([], dtype=np.int64), np.cumsum([len(group) > 0 for group in self.members])
        kept = (group if rank <= number else nobody for group, rank in zip(self.members, ranks, strict=True))
        return replace(self, members=tuple(kept))


class GroupingKind(Strict, ABC):
    """A kind of grouping with its settings, which are the fields of the class.

    Args:
        kind: the name of the kind, or its import path.
    """

    title: ClassVar[str]  # what people call it, in a few words
    certificate: ClassVar[str]  # the kind of certificate that its groups get, by name or import path
    can_forget: ClassVar[bool] = False  # whether the other groups stay as they are when a client leaves

    kind: str = ""

    @model_validator(mode="before")
    @classmethod
    def _named_by_import_path(cls, values: Any) -> Any:
        return named_by_import_path(cls, values)

    @abstractmethod
    def build(self, ids: Sequence[str]) -> Grouping:
        """Group the clients."""

    def groups_of(self, ids: Sequence[str], forgotten: Sequence[str] = ()) -> Grouping:
        """Group the clients; a kind that can forget leaves the places of forgotten clients empty.

        Args:
            ids: ids of the clients.
            forgotten: ids that were registered too and are left out.
        """
        if not self.can_forget:
            return self._built(ids)
        everybody = self._built([*ids, *forgotten])
        members = tuple(group[group < len(ids)] for group in everybody.members)
        return replace(everybody, num_clients=len(ids), members=members)

    def _built(self, ids: Sequence[str]) -> Grouping:
        """What ``build`` returns, refused if a user's own kind returns or raises something else."""
        try:
            grouping = self.build(ids)
        except FlcertError:
            raise
        except Exception as error:  # a user's code may raise anything
            raise InputError(f"grouping {self.kind!r} raised {type(error).__name__}: {error}") from error
        if not isinstance(grouping, Grouping):
            raise InputError(f"grouping {self.kind!r} must build a Grouping, got {type(grouping).__name__}")
        return grouping

    def restored(self, num_clients: int, members: tuple[NDArray[np.int64], ...]) -> Grouping:
        """The grouping with these settings, from members that are already known."""
        return Grouping(self.kind, num_clients, members)

    @classmethod
    def proposed(cls, sizes: Sizes) -> Self | None:  # noqa: ARG003 (for subclasses)
        """Settings of this kind for a plan with these sizes; None if it does not apply or was not asked for."""
        return None

    def check(self, num_clients: int) -> None:
        """Refuse a number of registered clients with which these groups are not possible."""

    @property
    def label(self) -> str:
        """What to call these settings in a table."""
        return self.title

    def reseeded(self, number: int) -> Self:  # noqa: ARG002 (for subclasses)
        """The same settings with different randomness, if they use any."""
        return self

    def load(self, num_clients: int, participation: float) -> Load:
        """The average work that the groups ask of a client.

        Args:
            num_clients: n.
            participation: beta_e, the share of a group's clients in a round.
        """
        sizes = [size for size in self._example(num_clients).sizes.tolist() if size]
        shares = [size * share_of_rounds(size, participation) for size in sizes]
        return Load(sum(sizes) / num_clients, sum(shares) / sum(sizes))

    def outlook(
        self, num_clients: int, settings: CertificateSettings, trusted: int = 0, certificate: Choice | None = None
    ) -> Outlook:
        """The groups as certificates will see them, and a certificate for them; as few groups are empty as can be.

        Args:
            num_clients: n.
            settings: how certain to be.
            trusted: T, the votes of a model of the server's own.
            certificate: which one; by default the one that these groups get.
        """
        groups = self.sketch(num_clients)
        guarantee = settings.of(certificate or self.certificate, groups, trusted=trusted)
        return Outlook(guarantee, len(groups), groups.members, guarantee.needs == "counts")

    def sketch(self, num_clients: int) -> Grouping:
        """Groups of made-up clients that a certificate cannot tell from real ones."""
        return self._example(num_clients)

    def expected_empty(self, num_clients: int) -> float:
        """The average number of groups without clients."""
        return float((self._example(num_clients).sizes == 0).sum())

    def _example(self, num_clients: int) -> Grouping:
        """The groups for this many made-up clients."""
        return self._built([f"client-{number}" for number in range(num_clients)])


class KeyedKind(GroupingKind):
    """A kind of grouping that a keyed hash of the user ids decides.

    Args:
        num_groups: N.
        key: the key of the hash.
    """

    can_forget: ClassVar[bool] = True

    num_groups: int = Field(default=40, gt=0)
    key: str = "flcert"

    def reseeded(self, number: int) -> Self:
        """The same with another key."""
        return self.model_copy(update={"key": f"flcert-{number}"})


class DisjointKind(KeyedKind):
    """Such a kind whose groups share no client: Theorem 4 certifies it."""

    certificate: ClassVar[str] = "disjoint"

    @classmethod
    def proposed(cls, sizes: Sizes) -> Self:
        """The requested number of groups."""
        return cls(num_groups=sizes.num_groups)

    def check(self, num_clients: int) -> None:
        """There cannot be more disjoint groups than clients."""
        check_range("num_groups", self.num_groups, 1, num_clients, "num_clients")

    def sketch(self, num_clients: int) -> Grouping:
        """One client in each group, as far as there are enough: its group falls with it, whoever else is there."""
        alone = tuple(np.arange(min(self.num_groups, num_clients))[:, None])
        nobody = (np.array([], dtype=np.int64),) * (self.num_groups - len(alone))
        return Grouping(self.kind, num_clients, alone + nobody)
