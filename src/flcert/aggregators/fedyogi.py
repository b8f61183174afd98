"""FedYogi (Reddi et al.): Yogi on the server, with the mean update as the gradient."""

from torch import Tensor

from flcert.aggregators.protocol import Aggregator
from flcert.aggregators.server_optimiser import Decay, Positive, adaptive


def fedyogi(
    server_learning_rate: Positive = 0.1, beta1: Decay = 0.9, beta2: Decay = 0.99, tau: Positive = 1e-3
) -> Aggregator:
    """The rule: ``adaptive`` with v = v - (1 - beta2) Delta^2 sign(v - Delta^2).

    Args:
        server_learning_rate: eta.
        beta1: the decay of the first moment.
        beta2: the decay of the second moment.
        tau: how much the steps adapt: the smaller, the more.
    """

    def second(before: Tensor, square: Tensor) -> Tensor:
        return before - (1 - beta2) * square * (before - square).sign()

    return adaptive(second, server_learning_rate=server_learning_rate, beta1=beta1, tau=tau)
