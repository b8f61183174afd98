"""What modules need to run many models in one pass."""

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor, nn
from torch.nn import functional

LANE = 16  # floats in 64 bytes, the widest vector of a processor
SEATS = 16  # models in a stack, unless the module says otherwise; fixed, so that no product changes its shape


@runtime_checkable
class Stackable(Protocol):
    """A module that can run many models of its kind in one pass; optional, and much faster for small models.

    An attribute ``seats`` says how many at most; it must be the same for all models of a recipe.
    """

    def stacked(self, weights: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
        """A function from one input to the scores of all models, (models x labels).

        Nothing of one model may reach the scores of another, and a model's scores must not depend on its place. Use
        batched products in which each model's matrices start at a multiple of 64 bytes, see ``aligned``.

        Args:
            weights: the entries of the models' ``state_dict``, each with the models as its first dimension.
        """


def stackable(module: nn.Module) -> bool:
    """Whether the module's own class defines how to stack it; a subclass may compute something else."""
    return callable(vars(type(module)).get("stacked"))


def aligned(tensor: Tensor, *dimensions: int) -> Tensor:
    """A copy with zeros at the end of these dimensions, so that their sizes are multiples of 16.

    At addresses that are not a multiple of the vector size, products start differently and so may round differently.
    """
    padding = [0, 0] * tensor.ndim
    for dimension in dimensions:
        padding[2 * (tensor.ndim - 1 - dimension) + 1] = -tensor.shape[dimension] % LANE
    return functional.pad(tensor, padding).contiguous()
