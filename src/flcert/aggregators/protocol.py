"""What an aggregation rule is."""

from typing import Protocol

from torch import Tensor


class Aggregator(Protocol):
    """One round's updates of one group to one update.

    It must be a pure function of its arguments: no state between rounds, no randomness of its own.
    """

    def __call__(self, updates: Tensor, sizes: Tensor) -> Tensor:
        """Aggregate.

        Args:
            updates: (clients x values), what each client's model moved by, clients in order of id.
            sizes: (clients), the number of examples of each.
        """
