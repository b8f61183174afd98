"""From client ids to groups: FLCert-D, FLCert-P and finite aggregation, one file per kind."""

from flcert.grouping.balanced import Balanced, balanced
from flcert.grouping.enumerated import Enumerated, enumerated
from flcert.grouping.family import (
    DEFAULT_KIND,
    KINDS,
    disjoint_groups,
    from_format_1,
    kind_class,
    paper_variants,
    settings_from,
)
from flcert.grouping.finite_aggregation import FiniteAggregation, finite_aggregation
from flcert.grouping.grouping import MAX_GROUPS, Grouping
from flcert.grouping.hashed import Hashed, group_of, hashed
from flcert.grouping.kind import GroupingKind, Load, Outlook, Sizes
from flcert.grouping.participation import expected_share, num_participants, share_of_rounds
from flcert.grouping.sampled import Sampled, sampled

__all__ = [
    "DEFAULT_KIND",
    "KINDS",
    "MAX_GROUPS",
    "Balanced",
    "Enumerated",
    "FiniteAggregation",
    "Grouping",
    "GroupingKind",
    "Hashed",
    "Load",
    "Outlook",
    "Sampled",
    "Sizes",
    "balanced",
    "disjoint_groups",
    "enumerated",
    "expected_share",
    "finite_aggregation",
    "from_format_1",
    "group_of",
    "hashed",
    "kind_class",
    "num_participants",
    "paper_variants",
    "sampled",
    "settings_from",
    "share_of_rounds",
]
