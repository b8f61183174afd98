"""What an aggregation rule receives, and the interface it must have."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

Memory = tuple[Tensor, ...]
"""What a rule remembers of a group's earlier rounds."""


@dataclass(frozen=True)
class Round:
    """The results of one round of one group.

    Args:
        updates: (clients x values), the change of each client's model, clients in order of id. The values are the
            model's parameters, then its floating-point buffers.
        sizes: (clients), the number of examples of each client.
        num_parameters: how many of the values are parameters.
        server: the change of the server's own model on its root set; None if there is none.
        memory: what the rule remembers of the group's earlier rounds; empty in the first.
    """

    updates: Tensor
    sizes: Tensor
    num_parameters: int
    server: Tensor | None = None
    memory: Memory = ()


class Aggregator(Protocol):
    """Turns one round's updates of one group into one update.

    It must be a pure function of its argument, which it leaves as it is: no state of its own, no randomness. Whoever
    calls it to try something out, such as a check or an attacker, then changes nothing.

    A rule may also have

    - a method ``remember(given)``, if a round depends on earlier ones: it returns what the rule must know in the next
      round, such as a momentum, and is as pure as the rule. Whoever runs a group's rounds keeps it and passes it on in
      ``given.memory``. It begins empty with the group's training, ends with it, and reaches no other group.
    - the attribute ``uses_root = True``, to receive the server's update.
    - a method ``substitute(num_updates)`` that names the rule that replaces it when a round has this few updates.
    """

    def __call__(self, given: Round) -> Tensor:
        """The update of the group's model."""
