"""The certificates: pure functions of votes, in exact integer arithmetic, and the family that they form."""

from flcert.certify.accuracy import certified_accuracy, certified_share
from flcert.certify.certificate import Certificate
from flcert.certify.collective import Collective, collective
from flcert.certify.disjoint import Disjoint, disjoint
from flcert.certify.enumerated import Enumerated, enumerated
from flcert.certify.evidence import Evidence
from flcert.certify.family import KINDS, CertificateSettings, guarantee_for, guarantee_from, kind_class, kinds_with
from flcert.certify.guarantee import Figures, Guarantee
from flcert.certify.overlapping import Overlapping, overlapping
from flcert.certify.overlapping_runoff import overlapping_runoff
from flcert.certify.ranks import RankCounts, count_ranks, ranked
from flcert.certify.runoff import Runoff, runoff
from flcert.certify.sampled import Sampled, SampledOptions, sampled
from flcert.certify.targeted import groups_to_elect, implied_levels, success_at, targeted_success
from flcert.certify.trade import trade
from flcert.certify.trusted import Trusted, with_trusted
from flcert.certify.turning import groups_to_turn

__all__ = [
    "KINDS",
    "Certificate",
    "CertificateSettings",
    "Collective",
    "Disjoint",
    "Enumerated",
    "Evidence",
    "Figures",
    "Guarantee",
    "Overlapping",
    "RankCounts",
    "Runoff",
    "Sampled",
    "SampledOptions",
    "Trusted",
    "certified_accuracy",
    "certified_share",
    "collective",
    "count_ranks",
    "disjoint",
    "enumerated",
    "groups_to_elect",
    "groups_to_turn",
    "guarantee_for",
    "guarantee_from",
    "implied_levels",
    "kind_class",
    "kinds_with",
    "overlapping",
    "overlapping_runoff",
    "ranked",
    "runoff",
    "sampled",
    "success_at",
    "targeted_success",
    "trade",
    "with_trusted",
]
