"""Finite aggregation: each client serves several groups, the same number for all."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
from pydantic import Field

from flcert.certify import CertificateSettings
from flcert.core.digest import keyed_number
from flcert.core.seeding import stream
from flcert.core.settings import Choice
from flcert.errors import check_range
from flcert.grouping.grouping import Grouping, in_order_of_id
from flcert.grouping.hashed import hashed
from flcert.grouping.kind import KeyedKind, Load, Outlook, Sizes
from flcert.grouping.participation import expected_share


class FiniteAggregation(KeyedKind):
    """Settings of ``finite_aggregation``.

    Args:
        num_groups: N.
        groups_per_client: d, how many groups a client serves.
        key: the key of the hash and the shifts.
    """

    title: ClassVar[str] = "finite aggregation"
    certificate: ClassVar[str] = "overlapping"

    kind: str = "finite-aggregation"
    groups_per_client: int = Field(default=2, gt=0)

    def build(self, ids: Sequence[str]) -> Grouping:
        """Group the clients."""
        return finite_aggregation(ids, self.num_groups, self.groups_per_client, self.key)

    @classmethod
    def proposed(cls, sizes: Sizes) -> Self | None:
        """The requested settings, if the user says how many groups a client serves."""
        if sizes.groups_per_client is None:
            return None
        return cls(num_groups=sizes.num_groups, groups_per_client=sizes.groups_per_client)

    @property
    def label(self) -> str:
        """What to call these settings in a table."""
        return f"{self.title}, {self.groups_per_client} groups a client"

    def load(self, num_clients: int, participation: float) -> Load:
        """A client serves d groups, and takes part in about beta_e of their rounds."""
        probability = self.groups_per_client / self.num_groups
        return Load(float(self.groups_per_client), expected_share(num_clients, probability, participation))

    def check(self, num_clients: int) -> None:
        """There cannot be more groups than clients, and a client cannot serve more than there are."""
        check_range("num_groups", self.num_groups, 1, num_clients, "num_clients")
        check_range("groups_per_client", self.groups_per_client, 1, self.num_groups, "num_groups")

    def outlook(
        self, num_clients: int, settings: CertificateSettings, trusted: int = 0, certificate: Choice | None = None
    ) -> Outlook:
        """With groups in the order of the buckets: agreement of neighbours is worth least to its own certificate."""
        found = super().outlook(num_clients, settings, trusted, certificate)
        return replace(found, any_order=found.any_order or found.guarantee.kind == FiniteAggregation.certificate)

    def sketch(self, num_clients: int) -> Grouping:  # noqa: ARG002 (any number will do)
        """One client in each bucket, and shifts in a row: several in a bucket reach no further than one of them."""
        shifted = [np.roll(np.arange(self.num_groups), shift) for shift in range(self.groups_per_client)]
        return Grouping(self.kind, self.num_groups, tuple(np.stack(shifted, axis=1)))

    def expected_empty(self, num_clients: int) -> float:
        """The average number of groups whose buckets are all empty: N (1 - d/N)^n."""
        number = self.num_groups
        return float(number * (1 - self.groups_per_client / number) ** num_clients)


def finite_aggregation(
    ids: Sequence[str], num_groups: int, groups_per_client: int = 2, key: str = "flcert"
) -> Grouping:
    """Finite aggregation (Wang et al., ICML 2022): each client serves several groups, the same number for all.

    A keyed hash puts each client into one of N buckets, and bucket h feeds the groups (h + s) mod N for
    ``groups_per_client`` different shifts s, drawn from the key. Each group then learns from that many buckets.

    Args:
        ids: the user ids, unique and fixed at registration.
        num_groups: N.
        groups_per_client: d, how many groups a client serves; its work grows by this factor.
        key: the key of the hash and the shifts.
    """
    buckets = hashed(ids, num_groups, key).members
    check_range("groups_per_client", groups_per_client, 1, num_groups, "num_groups")
    draws = stream(keyed_number("shifts", key, size=7), "grouping", "spread")
    shifts = draws.permutation(num_groups)[:groups_per_client]
    rank = {client: place for place, client in enumerate(in_order_of_id(ids))}
    groups = []
    for group in range(num_groups):
        fed = np.concatenate([buckets[(group - int(shift)) % num_groups] for shift in shifts])
        groups.append(np.array(sorted(fed.tolist(), key=rank.__getitem__), dtype=np.int64))
    return Grouping("finite-aggregation", len(ids), tuple(groups))
