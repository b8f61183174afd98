"""What modules need to learn by counting."""

from typing import Protocol, TypeGuard

from torch import Tensor, nn


class Counting(Protocol):
    """A module that learns by counting a client's examples, in place of steps along a gradient; optional.

    What a client sends are its counts. With the aggregator ``fedsum`` and one round, a group's model has the counts of
    all its clients together.
    """

    def count_examples(self, inputs: Tensor, labels: Tensor) -> None:
        """Add examples to the counts, which are parameters of the module."""


def learns_by_counting(module: nn.Module) -> TypeGuard[Counting]:
    """Whether the module's class defines how to count."""
    return callable(getattr(type(module), "count_examples", None))
