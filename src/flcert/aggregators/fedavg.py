"""FedAvg (McMahan et al.): the mean of the updates, weighted by data size."""

from torch import Tensor

from flcert.aggregators.protocol import Aggregator, Round


def fedavg() -> Aggregator:
    """The rule, which has no options. An update that is not finite ruins the group's model, and no other."""
    return _weighted_mean


def _weighted_mean(given: Round) -> Tensor:
    weights = given.sizes.to(given.updates.dtype) / given.sizes.sum()
    return weights @ given.updates
