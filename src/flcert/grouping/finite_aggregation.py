"""Finite aggregation: each client serves several groups, the same number for all."""

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from pydantic import Field

from flcert.certify import Certificate, CertificateSettings, Evidence
from flcert.core.digest import keyed_number
from flcert.core.seeding import stream
from flcert.errors import check_range
from flcert.grouping.grouping import Grouping, in_order_of_id
from flcert.grouping.hashed import hashed
from flcert.grouping.kind import KeyedKind, Load, Sizes
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
        check_range("num_groups", sizes.num_groups, 1, sizes.num_clients, "num_clients")
        check_range("groups_per_client", sizes.groups_per_client, 1, sizes.num_groups, "num_groups")
        return cls(num_groups=sizes.num_groups, groups_per_client=sizes.groups_per_client)

    @property
    def label(self) -> str:
        """What to call these settings in a table."""
        return f"{self.title}, {self.groups_per_client} groups a client"

    def load(self, num_clients: int, participation: float) -> Load:
        """A client serves d groups, and takes part in about beta_e of their rounds."""
        probability = self.groups_per_client / self.num_groups
        return Load(float(self.groups_per_client), expected_share(num_clients, probability, participation))

    def unanimous(self, num_clients: int, settings: CertificateSettings, num_inputs: int) -> Certificate:  # noqa: ARG002 (any number will do)
        """With one client in each bucket: several in a bucket reach no further than one of them."""
        shifted = [np.roll(np.arange(self.num_groups), shift) for shift in range(self.groups_per_client)]
        members = tuple(np.stack(shifted, axis=1))
        votes = np.zeros((self.num_groups, 1), dtype=np.int64)
        grouping = Grouping(self.kind, self.num_groups, members)
        return settings.of(self.certificate, grouping).certify(Evidence.of_votes(votes, 2, members))

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
