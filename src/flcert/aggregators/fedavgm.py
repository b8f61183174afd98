"""FedAvgM (Hsu et al.): FedAvg with momentum on the server."""

import torch
from torch import Tensor

from flcert.aggregators.protocol import Aggregator, Memory
from flcert.aggregators.server_optimiser import Decay, Positive, ServerOptimiser


def fedavgm(server_learning_rate: Positive = 1.0, momentum: Decay = 0.9) -> Aggregator:
    """The rule: x + eta v, with v = beta v + Delta, Delta the mean update, and v = 0 before the first round.

    Args:
        server_learning_rate: eta.
        momentum: beta; with 0 and eta = 1 the rule is FedAvg.
    """

    def momenta(mean: Tensor, memory: Memory) -> Memory:
        (before,) = memory or (torch.zeros_like(mean),)
        return (momentum * before + mean,)

    return ServerOptimiser(momenta, lambda momenta: server_learning_rate * momenta[0])
