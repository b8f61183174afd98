"""The certificates: pure functions of votes, in exact integer arithmetic."""

from flcert.certify.accuracy import certified_accuracy, certified_share
from flcert.certify.collective import collective
from flcert.certify.disjoint import clients_to_overtake, disjoint
from flcert.certify.enumerated import enumerated
from flcert.certify.overlapping import overlapping
from flcert.certify.result import Certificate
from flcert.certify.runoff import Tally, ranked, runoff, tally
from flcert.certify.sampled import sampled

__all__ = [
    "Certificate",
    "Tally",
    "certified_accuracy",
    "certified_share",
    "clients_to_overtake",
    "collective",
    "disjoint",
    "enumerated",
    "overlapping",
    "ranked",
    "runoff",
    "sampled",
    "tally",
]
