"""What all groups share and no client can influence: the weights that they start from, and a function of inputs."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import nn

from flcert import models
from flcert.core.settings import Choice
from flcert.core.store import Arrays
from flcert.errors import InputError
from flcert.features import PublicFunction
from flcert.features.front import divided
from flcert.public import Card, PublicModel, find
from flcert.public.model import finite_as
from flcert.training.recipe import Recipe
from flcert.training.start import state_arrays

EXAMPLES = 3  # inputs on which a public function is tried
FRONT = "front"  # the features that are a public model's own


@dataclass(frozen=True)
class Public:
    """What is public in a training.

    Args:
        start: the weights that every group starts from; None if the recipe's seed decides them.
        function: what turns an input into the features that models are trained on; None for the input itself.
        name: the public model that the start comes from; empty if there is none.
        card: where that model comes from; None for a file without a card.
    """

    start: Arrays | None = None
    function: PublicFunction | None = None
    name: str = ""
    card: Card | None = None

    def shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of what models receive, for inputs of this shape."""
        return (self.function.width,) if self.function else input_shape


NOTHING = Public()
"""What is public if the recipe names nothing."""


def public_of(recipe: Recipe, inputs: NDArray[np.generic], num_labels: int) -> Public:
    """Read what a recipe names, and refuse what does not fit.

    Args:
        recipe: how groups train.
        inputs: some inputs that no client owns, such as test inputs.
        num_labels: L.
    """
    found, some = find(recipe.initial) if recipe.initial else None, inputs[:EXAMPLES]
    function, start = _function(recipe, found, some, num_labels)
    if found is None and function is None and (name := _own_start(recipe)):
        module = models.build(recipe.model, inputs.shape[1:], num_labels, recipe.seed)
        return Public(state_arrays(module), None, name)  # the model itself starts from something public
    if found is None or start is None:
        return Public(None, function)
    shape = (function.width,) if function else inputs.shape[1:]
    module = models.build(recipe.model, shape, num_labels, recipe.seed)
    return Public(fitted(start, module, found.name), function, found.name, found.card)


def function_of(recipe: Recipe, inputs: NDArray[np.generic]) -> PublicFunction | None:
    """The public function of a recipe, without the weights that groups start from; None if it names none.

    Args:
        recipe: how groups train.
        inputs: some inputs to try it on.
    """
    if recipe.features is None:
        return None
    found = find(recipe.initial) if recipe.initial and recipe.features.name == FRONT else None
    num_labels = found.card.num_labels if found and found.card else 0  # whether it fits the data, the server checks
    return _function(recipe, found, inputs[:EXAMPLES], num_labels)[0]


def _own_start(recipe: Recipe) -> str:
    """The public start that one of our own models takes by itself, if it does."""
    return str(recipe.model.options.get("public") or "") if ":" not in recipe.model.name else ""


def _function(
    recipe: Recipe, found: PublicModel | None, inputs: NDArray[np.generic], num_labels: int
) -> tuple[PublicFunction | None, Arrays | None]:
    """The public function of a recipe, and the weights for the model that is trained on its features."""
    settings = recipe.features
    if settings is None:
        return None, found.arrays if found else None
    if settings.name != FRONT:
        choice = Choice(name=settings.name, options=settings.options)
        weights = find(settings.weights).arrays if settings.weights else None
        return PublicFunction.of(choice, inputs, weights), found.arrays if found else None
    if found is None:
        raise InputError("features 'front' are those of a public model: set recipe.initial")
    if settings.weights:
        raise InputError(f"features 'front' have the weights of recipe.initial, got weights={settings.weights!r} too")
    choice, weights, head = divided(found, settings.options, inputs, num_labels)
    return PublicFunction.of(choice, inputs, weights), head


def fitted(arrays: Mapping[str, NDArray[np.generic]], module: nn.Module, name: str) -> Arrays:
    """Weights in the order and the types of a module's state, refused if they do not fit it."""
    state = state_arrays(module)
    for key in sorted({*arrays, *state}):
        needed = f"shape {state[key].shape}" if key in state else "no such array"
        got = f"shape {np.shape(arrays[key])}" if key in arrays else "none"
        if needed != got:
            raise InputError(f"the weights of {name!r} must fit the model, which has {needed} for {key!r}, got {got}")
        if not finite_as(arrays[key], state[key].dtype):
            raise InputError(
                f"the weights of {name!r} must be finite as {state[key].dtype}, "
                f"got NaN, infinity or too large a number in {key!r}"
            )
    return {key: np.array(arrays[key], dtype=one.dtype) for key, one in state.items()}
