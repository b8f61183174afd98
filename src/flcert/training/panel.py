"""Models that are asked together: many in one pass of batched products, or one alone."""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from flcert import models
from flcert.certify import ranked
from flcert.core.determinism import one_thread
from flcert.core.store import Arrays
from flcert.errors import RunError
from flcert.models.stacking import SEATS
from flcert.training.device import tensor
from flcert.training.local import Replica
from flcert.training.recipe import Recipe
from flcert.training.smoothing import Smoothing
from flcert.training.start import initial_module, part_of
from flcert.voting import count, predicted_labels, winners

BATCH = 500  # inputs that are scored before their scores are turned into votes

Item = TypeVar("Item")
Inputs = NDArray[np.generic]
Votes = NDArray[np.int32]
Ranks = NDArray[np.uint8] | NDArray[np.uint16]
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class Voter:
    """One model.

    Args:
        recipe: the recipe of its group; the module is made as it was for training.
        arrays: the trained arrays.
    """

    recipe: Recipe
    arrays: Arrays

    def part(self, number: int) -> "Voter":
        """One of several models that vote as one."""
        return Voter(self.recipe.of_model(number), part_of(self.arrays, number))


class Panel(Protocol):
    """Models that are loaded and ready to vote."""

    def votes(self, inputs: Inputs) -> Votes:
        """What each model predicts for each input, (models x inputs)."""

    def ranks(self, inputs: Inputs) -> Ranks:
        """How each model ranks the labels, (models x inputs x labels); see ``certify.ranked``."""

    def blocks(self, inputs: Inputs) -> Iterator[Scores]:
        """The scores of one block of inputs after another, (models x inputs x labels)."""


def single(recipe: Recipe) -> Recipe:
    """The recipe of one model that votes by its scores, as the server's own does."""
    return recipe.of_group(0).model_copy(update={"smoothing": None, "models_per_group": None})


def seats(recipe: Recipe, input_shape: tuple[int, ...], num_labels: int) -> int:
    """How many models of this recipe can be asked together."""
    module = initial_module(recipe, input_shape, num_labels)
    return 1 if recipe.smoothing or not models.stackable(module) else _seats_of(module)


def _seats_of(module: nn.Module) -> int:
    return int(getattr(module, "seats", SEATS))


def chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """The items, at most ``size`` at a time."""
    return (items[start : start + size] for start in range(0, len(items), size))


def panel(voters: Sequence[Voter], input_shape: tuple[int, ...], num_labels: int) -> Panel:
    """The models of at most ``seats`` groups, ready to vote."""
    recipe = voters[0].recipe
    if recipe.models_per_group is not None:
        return Several(
            [
                panel([voter.part(number) for voter in voters], input_shape, num_labels)
                for number in range(recipe.models_per_group)
            ]
        )
    module = initial_module(recipe, input_shape, num_labels)
    if recipe.smoothing is None and models.stackable(module):
        return Stack(module, [voter.arrays for voter in voters], num_labels)
    (voter,) = voters
    return Alone(loaded(recipe, voter.arrays, input_shape, num_labels), recipe.smoothing, num_labels)


def loaded(recipe: Recipe, arrays: Arrays, input_shape: tuple[int, ...], num_labels: int) -> nn.Module:
    """The torch module of one model, ready to predict."""
    module = initial_module(recipe, input_shape, num_labels)
    module.load_state_dict({name: tensor(array) for name, array in arrays.items()})
    return module.eval()


class Stack:
    """Models whose module can be stacked.

    Each input is scored alone, in products of a fixed shape. So a model's votes on it depend only on the model and the
    input, not on other inputs or other models that are asked at the same time.

    Args:
        module: the module that fits all of them.
        arrays: the arrays of each model, at most as many as the module has seats; empty seats are filled with zeros.
        num_labels: L.
    """

    def __init__(self, module: nn.Module, arrays: Sequence[Arrays], num_labels: int) -> None:
        self._size, self._num_labels = len(arrays), num_labels
        stacked = {}
        for name, initial in arrays[0].items():
            table = np.zeros((_seats_of(module), *initial.shape), dtype=initial.dtype)
            table[: self._size] = [of_model[name] for of_model in arrays]
            stacked[name] = tensor(table)
        self._scores = module.stacked(stacked)  # type: ignore[operator]

    def votes(self, inputs: Inputs) -> Votes:
        """What each model predicts for each input, (models x inputs)."""
        return _votes_of(self.blocks(inputs))

    def ranks(self, inputs: Inputs) -> Ranks:
        """How each model ranks the labels, (models x inputs x labels)."""
        return _ranks_of(self.blocks(inputs))

    def blocks(self, inputs: Inputs) -> Iterator[Scores]:
        """The scores of one block of inputs after another, (models x inputs x labels)."""
        for start in range(0, len(inputs), BATCH):
            examples = tensor(inputs[start : start + BATCH])
            with one_thread(), torch.inference_mode():
                scores = torch.stack([self._scores(example) for example in examples], dim=1)[: self._size]
            yield _checked(scores, (self._size, len(examples), self._num_labels))


class Alone:
    """One model, asked with batches of inputs.

    Args:
        module: the model.
        smoothing: if given, the model's noisy copies decide its vote by majority.
        num_labels: L.
    """

    def __init__(self, module: nn.Module, smoothing: Smoothing | None, num_labels: int) -> None:
        self._module, self._smoothing, self._num_labels = module, smoothing, num_labels

    def votes(self, inputs: Inputs) -> Votes:
        """What the model predicts for each input, (1 x inputs)."""
        if self._smoothing is None:
            return _votes_of(self.blocks(inputs))
        smoothing, replica = self._smoothing, Replica(deepcopy(self._module))  # the model itself never changes
        state = replica.read()
        copies = np.empty((smoothing.copies, len(inputs)), dtype=np.int32)
        for number in range(smoothing.copies):
            replica.write(smoothing.perturbed(state, replica.num_parameters, smoothing.seed, "copy", number))
            copies[number] = _votes_of(_batches(replica.module, inputs, self._num_labels))[0]
        return winners(count(copies)).astype(np.int32)[None]

    def ranks(self, inputs: Inputs) -> Ranks:
        """How the model ranks the labels, (1 x inputs x labels)."""
        return _ranks_of(self.blocks(inputs))

    def blocks(self, inputs: Inputs) -> Iterator[Scores]:
        """The scores of one block of inputs after another, (1 x inputs x labels)."""
        return _batches(self._module, inputs, self._num_labels)


class Broken:
    """Models that cannot even be made from their weights.

    Args:
        error: what their module raised.
    """

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def votes(self, inputs: Inputs) -> Votes:  # noqa: ARG002 (a panel's)
        """Raise the error."""
        raise self._error

    def ranks(self, inputs: Inputs) -> Ranks:  # noqa: ARG002 (a panel's)
        """Raise the error."""
        raise self._error

    def blocks(self, inputs: Inputs) -> Iterator[Scores]:  # noqa: ARG002 (a panel's)
        """Raise the error."""
        raise self._error


class Several:
    """Groups with several models each, whose scores are added up.

    Args:
        panels: the first models of all groups, their second ones, and so on.
    """

    def __init__(self, panels: Sequence[Panel]) -> None:
        self._panels = panels

    def votes(self, inputs: Inputs) -> Votes:
        """What each group predicts for each input, (groups x inputs)."""
        return _votes_of(self.blocks(inputs))

    def ranks(self, inputs: Inputs) -> Ranks:
        """How each group ranks the labels, (groups x inputs x labels)."""
        return _ranks_of(self.blocks(inputs))

    def blocks(self, inputs: Inputs) -> Iterator[Scores]:
        """The summed scores of one block of inputs after another, (groups x inputs x labels)."""
        for parts in zip(*(one.blocks(inputs) for one in self._panels), strict=True):
            yield np.add.reduce(parts)


def _votes_of(blocks: Iterable[Scores]) -> Votes:
    return np.concatenate([predicted_labels(scores) for scores in blocks], axis=1, dtype=np.int32)


def _ranks_of(blocks: Iterable[Scores]) -> Ranks:
    placed = ([_places(of_model) for of_model in scores] for scores in blocks)
    return np.concatenate([np.stack(block) for block in placed], axis=1)


def _batches(module: nn.Module, inputs: Inputs, num_labels: int) -> Iterator[Scores]:
    """The scores of each batch of inputs, (1 x inputs x labels)."""
    module.eval()
    for start in range(0, len(inputs), BATCH):
        batch = tensor(inputs[start : start + BATCH])
        with one_thread(), torch.inference_mode():
            scores = module(batch).float()[None]
        yield _checked(scores, (1, len(batch), num_labels))


def _checked(scores: torch.Tensor, shape: tuple[int, int, int]) -> Scores:
    """The scores as an array, refused if a user's module gave more or fewer of them than it should."""
    if scores.shape != shape:
        raise RunError(f"the model gave scores of shape {tuple(scores.shape[1:])}, not {shape[1:]}")
    found: Scores = scores.cpu().numpy()
    return found


def _places(scores: Scores) -> Ranks:
    places = ranked(scores)
    return places if scores.shape[1] > 256 else places.astype(np.uint8)
