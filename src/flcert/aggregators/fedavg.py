"""FedAvg (McMahan et al.): the mean of the updates, weighted by data size."""

from torch import Tensor

from flcert.aggregators.protocol import Aggregator


def fedavg() -> Aggregator:
    """The rule, which has no options."""
    return _weighted_mean


def _weighted_mean(updates: Tensor, sizes: Tensor) -> Tensor:
    weights = sizes.to(updates.dtype) / sizes.sum()
    return weights @ updates
