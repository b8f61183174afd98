"""Where training starts: the module of a recipe, with the weights that every group begins with."""

import json

from torch import nn

from flcert import models
from flcert.core.digest import digest_arrays
from flcert.core.store import Arrays
from flcert.training.device import DEVICE, array, tensor
from flcert.training.recipe import Recipe


def initial_module(
    recipe: Recipe, input_shape: tuple[int, ...], num_labels: int, start: Arrays | None = None
) -> nn.Module:
    """The model of a recipe as it is before any client trains it.

    Args:
        recipe: the recipe of the group, whose seed decides the weights.
        input_shape: shape of what the model receives: an input, or its features.
        num_labels: L.
        start: public weights to start from instead.
    """
    module = models.build(recipe.model, input_shape, num_labels, recipe.seed).to(DEVICE)
    if start is not None:
        module.load_state_dict({name: tensor(values) for name, values in start.items()})
    return module


def initial_digest(recipe: Recipe, input_shape: tuple[int, ...], num_labels: int, start: Arrays | None = None) -> str:
    """A digest of the weights that groups start from; empty if a model that comes with flcert starts from the seed.

    Public weights, and those of a user's factory, may come from anywhere, such as a checkpoint, and a model's option
    ``public`` takes them from a file, so they belong to the key of every model that is trained from them. Those of our
    other models follow from the recipe.
    """
    if ":" not in recipe.model.name and start is None and not recipe.model.options.get("public"):
        return ""
    module = initial_module(recipe, input_shape, num_labels, start)
    arrays = {**state_arrays(module), **models.unregistered(module)}
    return digest_arrays(*arrays.values(), text=json.dumps(list(arrays)))


def model_bytes(recipe: Recipe, input_shape: tuple[int, ...], num_labels: int) -> int:
    """The bytes of a group's weights, as a client sends them in a round and the server stores them."""
    one = sum(array.nbytes for array in state_arrays(initial_module(recipe, input_shape, num_labels)).values())
    return one * (recipe.models_per_group or 1)


def part_name(number: int, name: str) -> str:
    """The name of an array of one of a group's several models."""
    return f"{number}/{name}"


def part_of(arrays: Arrays, number: int) -> Arrays:
    """The arrays of one of a group's several models."""
    prefix = part_name(number, "")
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def state_arrays(module: nn.Module) -> Arrays:
    """All arrays of a module's state."""
    return {name: array(tensor) for name, tensor in module.state_dict().items()}
