"""Where training starts: the module of a recipe, with the weights that every group begins with."""

from torch import nn

from flcert import models
from flcert.core.store import Arrays
from flcert.training.device import DEVICE, array
from flcert.training.recipe import Recipe


def initial_module(recipe: Recipe, input_shape: tuple[int, ...], num_labels: int) -> nn.Module:
    """The model of a recipe as it is before any client trains it.

    Args:
        recipe: the recipe of the group, whose seed decides the weights.
        input_shape: shape of one input.
        num_labels: L.
    """
    return models.build(recipe.model, input_shape, num_labels, recipe.seed).to(DEVICE)


def state_arrays(module: nn.Module) -> Arrays:
    """All arrays of a module's state."""
    return {name: array(tensor) for name, tensor in module.state_dict().items()}
