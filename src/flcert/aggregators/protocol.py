"""What an aggregation rule is given, and what it must be."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class Round:
    """What one round of one group brought.

    Args:
        updates: (clients x values), what each client's model moved by, clients in order of id. The values are the
            model's parameters, then its floating-point buffers.
        sizes: (clients), the number of examples of each.
        num_parameters: how many of the values are parameters.
        server: what the server's own model moved by on its root set; None where there is none.
    """

    updates: Tensor
    sizes: Tensor
    num_parameters: int
    server: Tensor | None = None


class Aggregator(Protocol):
    """One round's updates of one group to one update.

    It must be a pure function of its argument: no state between rounds, no randomness of its own.

    A rule may also have the attribute ``uses_root = True``, to be given the server's update, and a method
    ``substitute(num_updates)`` that names the rule which acts in its place when a round has so few updates.
    """

    def __call__(self, given: Round) -> Tensor:
        """The update of the group's model."""
