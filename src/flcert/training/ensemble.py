"""The trained models of all groups, and their votes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray
from torch import nn

from flcert import models
from flcert.errors import InputError
from flcert.grouping import Grouping
from flcert.store import Arrays
from flcert.training.recipe import Recipe
from flcert.training.vote import Votes, model_votes
from flcert.voting import NO_VOTE


@dataclass(frozen=True)
class Ensemble:
    """One model for each group that has one.

    Args:
        grouping: who trained together.
        recipe: how.
        input_shape: shape of one input.
        input_dtype: "float32" for features, "int64" for tokens.
        num_labels: L.
        keys: for each group the keys of its models by round; None for an empty or failed group.
        load: the arrays behind a key.
        failures: why a group with clients has no model.
        trained: how many groups were trained for this ensemble.
        reused: how many came from the store.
        damaged: how many stored models were damaged, and trained again.
    """

    grouping: Grouping
    recipe: Recipe
    input_shape: tuple[int, ...]
    input_dtype: str
    num_labels: int
    keys: tuple[dict[int, str] | None, ...]
    load: Callable[[str], Arrays]
    failures: dict[int, str] = field(default_factory=dict)
    trained: int = 0
    reused: int = 0
    damaged: int = 0

    def model_keys(self, rounds: int | None = None) -> dict[int, str]:
        """The key of each group's model after this many rounds, by default all; groups without one are left out."""
        return {group: keys[rounds or self.recipe.rounds] for group, keys in enumerate(self.keys) if keys}

    def diverged(self) -> set[int]:
        """Groups whose model has values that are not finite; such a model mostly votes for label 0."""
        return {
            group
            for group, key in self.model_keys().items()
            if not all(np.isfinite(array).all() for array in self.load(key).values())
        }

    def new_module(self, group: int) -> nn.Module:
        """A module that the group's arrays fit into, made as it was for training."""
        recipe = self.recipe.of_group(group)
        return models.build(recipe.model, self.input_shape, self.num_labels, recipe.seed)

    def votes(self, inputs: NDArray[np.generic]) -> Votes:
        """What each group predicts for each input, (groups x inputs); -1 for a group without a model."""
        checked = checked_inputs(inputs, self.input_shape, self.input_dtype)
        table = np.full((len(self.keys), len(checked)), NO_VOTE, dtype=np.int32)
        for group, key in self.model_keys().items():
            table[group] = self._votes_of(group, key, checked)
        return table

    def _votes_of(self, group: int, key: str, inputs: NDArray[np.generic]) -> Votes:
        try:
            return model_votes(self.new_module(group), self.load(key), inputs, self.recipe.smoothing)
        except IndexError as error:  # a token beyond the vocabulary
            raise InputError(f"the model of group {group} cannot read these inputs: {error}") from None


def checked_inputs(inputs: NDArray[np.generic], input_shape: tuple[int, ...], input_dtype: str) -> NDArray[np.generic]:
    """Inputs to predict, as (inputs x input shape); rows that were flattened are given their shape back."""
    array = np.asarray(inputs)
    if array.ndim < 2 or len(array) == 0:
        raise InputError(f"inputs must be a table with one row for each input, got shape {array.shape}")
    if array.shape[1:] not in (input_shape, (prod(input_shape),)):
        raise InputError(f"each input must have shape {input_shape}, got {array.shape[1:]}")
    if not np.can_cast(array.dtype, np.dtype(input_dtype), casting="same_kind"):
        raise InputError(f"inputs must be of dtype {input_dtype}, got {array.dtype}")
    with np.errstate(over="ignore"):  # what overflows becomes infinite, and is refused as such
        converted = array.astype(input_dtype).reshape(-1, *input_shape)
    if not np.isfinite(converted).all():
        row = int(np.argwhere(~np.isfinite(converted))[0][0])
        raise InputError(f"inputs must be finite, got NaN or infinity in row {row}")
    return converted
