"""Median (Yin et al.): the coordinate-wise median of the updates."""

from flcert.aggregators.protocol import Aggregator
from flcert.aggregators.robust import Robust, middle


def median() -> Aggregator:
    """The rule, which has no options."""
    return Robust(middle, least=1)
