"""What the server optimisers share: they step along FedAvg's mean update as along a gradient, and remember momenta."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from flcert.aggregators.fedavg import fedavg
from flcert.aggregators.protocol import Memory, Round

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Decay = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class ServerOptimiser:
    """A rule that moves the parameters by an optimiser's step; buffers are averaged as FedAvg does.

    An update that is not finite ruins the group's model, and no other.

    Args:
        momenta: from the mean update of a round and the momenta before it (empty in the first) to those after it.
        step: from the momenta after a round to the update of the parameters.
    """

    momenta: Callable[[Tensor, Memory], Memory]
    step: Callable[[Memory], Tensor]

    def __call__(self, given: Round) -> Tensor:
        """The update of the group's model."""
        mean = fedavg()(given)
        parameters, buffers = mean[: given.num_parameters], mean[given.num_parameters :]
        return torch.cat([self.step(self.momenta(parameters, given.memory)), buffers])

    def remember(self, given: Round) -> Memory:
        """The momenta after the round."""
        return self.momenta(fedavg()(given)[: given.num_parameters], given.memory)


def adaptive(
    second: Callable[[Tensor, Tensor], Tensor], *, server_learning_rate: float, beta1: float, tau: float
) -> ServerOptimiser:
    """Algorithm 2 of Reddi et al.: x + eta m / (sqrt(v) + tau), with m = beta1 m + (1 - beta1) Delta.

    Delta is the mean update. m starts at 0 and v at tau^2, the least that the paper allows. There is no correction of
    the bias of m, as in the paper.

    Args:
        second: from v before the round and Delta^2 to v after it.
        server_learning_rate: eta.
        beta1: the decay of m.
        tau: how much the steps adapt: the smaller, the more.
    """

    def momenta(mean: Tensor, memory: Memory) -> Memory:
        first, spread = memory or (torch.zeros_like(mean), torch.full_like(mean, tau**2))
        return beta1 * first + (1 - beta1) * mean, second(spread, mean.square())

    def step(momenta: Memory) -> Tensor:
        first, spread = momenta
        return server_learning_rate * first / (spread.sqrt() + tau)

    return ServerOptimiser(momenta, step)
