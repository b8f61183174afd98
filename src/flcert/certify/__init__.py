"""The certificates: pure functions of vote counts, in exact integer arithmetic."""

from flcert.certify.accuracy import certified_accuracy, certified_share
from flcert.certify.disjoint import disjoint
from flcert.certify.enumerated import enumerated
from flcert.certify.result import Certificate
from flcert.certify.sampled import sampled

__all__ = ["Certificate", "certified_accuracy", "certified_share", "disjoint", "enumerated", "sampled"]
