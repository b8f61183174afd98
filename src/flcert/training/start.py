"""Where training starts: the module of a recipe, with the weights that every group begins with."""

import json

from torch import nn

from flcert import models
from flcert.core.digest import digest_arrays
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


def initial_digest(recipe: Recipe, input_shape: tuple[int, ...], num_labels: int) -> str:
    """A digest of the weights that a user's own model starts from; empty for models that come with flcert.

    A user's factory may take them from anywhere, such as a checkpoint, so they belong to the key of every model that is
    trained from them. The weights of our own models follow from the recipe.
    """
    if ":" not in recipe.model.name:
        return ""
    arrays = state_arrays(initial_module(recipe, input_shape, num_labels))
    return digest_arrays(*arrays.values(), text=json.dumps(list(arrays)))


def state_arrays(module: nn.Module) -> Arrays:
    """All arrays of a module's state."""
    return {name: array(tensor) for name, tensor in module.state_dict().items()}
