"""The sum of the updates: for models that count, whose clients send the counts of their own examples."""

from torch import Tensor

from flcert.aggregators.protocol import Aggregator, Round


def fedsum() -> Aggregator:
    """The rule, which has no options. As with ``fedavg``, one client can ruin its own group's model, and no other."""
    return _sum


def _sum(given: Round) -> Tensor:
    return given.updates.sum(dim=0)
