"""FLCert-P: groups of a fixed size, drawn at random."""

from collections.abc import Iterator, Sequence
from itertools import islice
from math import comb
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from flcert.certify import CertificateSettings
from flcert.certify import Sampled as SampledGuarantee
from flcert.core.seeding import stream
from flcert.core.settings import Choice
from flcert.errors import InputError, check_range
from flcert.grouping.grouping import MAX_GROUPS, Grouping, in_order_of_id
from flcert.grouping.kind import GroupingKind, Load, Outlook, Seed, Sizes
from flcert.grouping.participation import share_of_rounds


class Sampled(GroupingKind):
    """Settings of ``sampled``.

    Args:
        num_groups: N.
        group_size: k.
        seed: the seed of the draw.
        distinct: whether to draw N different groups.
    """

    title: ClassVar[str] = "FLCert-P"
    certificate: ClassVar[str] = "sampled"

    kind: str = "sampled"
    num_groups: int = Field(default=40, gt=0)
    group_size: int = Field(gt=0)
    seed: Seed = 0
    distinct: bool = False

    def build(self, ids: Sequence[str]) -> Grouping:
        """Group the clients."""
        return sampled(ids, self.num_groups, self.group_size, self.seed, distinct=self.distinct)

    def restored(self, num_clients: int, members: tuple[NDArray[np.int64], ...]) -> Grouping:
        """The grouping with these settings, from members that are already known."""
        return Grouping(self.kind, num_clients, members, self.group_size, drawn=True, distinct=self.distinct)

    @classmethod
    def proposed(cls, sizes: Sizes) -> Self:
        """The requested number of groups of this size."""
        return cls(num_groups=sizes.num_groups, group_size=sizes.group_size)

    def reseeded(self, number: int) -> Self:
        """The same settings with another draw."""
        return self.model_copy(update={"seed": number})

    def load(self, num_clients: int, participation: float) -> Load:
        """A client is in k N / n groups on average."""
        groups = self.group_size * self.num_groups / num_clients
        return Load(groups, share_of_rounds(self.group_size, participation))

    def check(self, num_clients: int) -> None:
        """Groups cannot be larger than all clients, nor different if there are too few of that size."""
        check_number(num_clients, self.num_groups, self.group_size, distinct=self.distinct)

    def outlook(
        self, num_clients: int, settings: CertificateSettings, trusted: int = 0, certificate: Choice | None = None
    ) -> Outlook:
        """Without members for its own certificate, which does not look at them."""
        if (certificate.name if certificate else self.certificate) != Sampled.certificate:
            return super().outlook(num_clients, settings, trusted, certificate)
        guarantee = SampledGuarantee(
            num_clients=num_clients,
            num_groups=self.num_groups,
            group_size=self.group_size,
            distinct=self.distinct,
            trusted=trusted,
            **settings.model_dump(exclude={"also"}),
        )
        return Outlook(guarantee, self.num_groups)

    def expected_empty(self, num_clients: int) -> float:  # noqa: ARG002 (whatever their number)
        """Zero: every drawn group has k clients."""
        return 0.0


def sampled(ids: Sequence[str], num_groups: int, group_size: int, seed: int = 0, *, distinct: bool = False) -> Grouping:
    """FLCert-P: N groups, each a uniformly random k-subset of the clients.

    By default they are independent of each other, so the same subset can be drawn twice, as Theorem 3 assumes. The seed
    must not depend on clients' data.

    Args:
        ids: the user ids.
        num_groups: N.
        group_size: k.
        seed: the seed of the draw.
        distinct: draw N different subsets instead, with every set of N equally likely.
    """
    order = np.array(in_order_of_id(ids), dtype=np.int64)
    check_number(len(ids), num_groups, group_size, distinct=distinct)
    total = comb(len(ids), group_size)
    generator = stream(seed, "grouping", "distinct" if distinct else "sampled")
    if distinct and total <= MAX_GROUPS:
        chosen = generator.permutation(total)[:num_groups]
        draws = [np.array(_subset(int(number), len(ids), group_size)) for number in chosen]
    else:
        draws = list(islice(_draws(generator, len(ids), group_size, distinct), num_groups))
    members = tuple(order[draw] for draw in draws)
    return Grouping("sampled", len(ids), members, group_size, drawn=True, distinct=distinct)


def check_number(num_clients: int, num_groups: int, group_size: int, *, distinct: bool) -> None:
    """Refuse groups that are larger than all clients, or more different ones than there are."""
    check_range("group_size", group_size, 1, num_clients, "num_clients")
    check_range("num_groups", num_groups, 1, MAX_GROUPS)
    if distinct and num_groups > (total := comb(num_clients, group_size)):
        raise InputError(
            f"num_groups must be at most {total:,}, as many as there are distinct groups of {group_size} of the "
            f"{num_clients} clients, got {num_groups}"
        )


def _draws(
    generator: np.random.Generator, num_clients: int, group_size: int, distinct: bool
) -> Iterator[NDArray[np.int64]]:
    """An endless stream of random subsets; repeated ones are skipped if they must be distinct."""
    seen: set[bytes] = set()
    while True:
        draw = np.sort(generator.choice(num_clients, size=group_size, replace=False))
        if not distinct or draw.tobytes() not in seen:
            seen |= {draw.tobytes()} if distinct else set()
            yield draw


def _subset(number: int, num_clients: int, group_size: int) -> list[int]:
    """The k-subset with this number in lexicographic order.

    >>> [_subset(number, 4, 2) for number in range(6)]
    [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    """
    subset: list[int] = []
    client = 0
    while len(subset) < group_size:
        with_it = comb(num_clients - client - 1, group_size - len(subset) - 1)
        if number < with_it:
            subset.append(client)
        else:
            number -= with_it
        client += 1
    return subset
