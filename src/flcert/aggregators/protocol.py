"""What an aggregation rule receives, and the interface it must have."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class Round:
    """The results of one round of one group.

    Args:
        updates: (clients x values), the change of each client's model, clients in order of id. The values are the
            model's parameters, then its floating-point buffers.
        sizes: (clients), the number of examples of each client.
        num_parameters: how many of the values are parameters.
        server: the change of the server's own model on its root set; None if there is none.
    """

    updates: Tensor
    sizes: Tensor
    num_parameters: int
    server: Tensor | None = None


class Aggregator(Protocol):
    """Turns one round's updates of one group into one update.

    It must be a pure function of its argument: no state between rounds, no randomness of its own.

    A rule may also have the attribute ``uses_root = True``, to receive the server's update, and a method
    ``substitute(num_updates)`` that names the rule that replaces it when a round has this few updates.
    """

    def __call__(self, given: Round) -> Tensor:
        """The update of the group's model."""
