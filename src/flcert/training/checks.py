"""Checks before anything is trained: recipes whose names, options or shapes do not fit are refused."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from flcert import aggregators, models
from flcert.aggregators import Round
from flcert.core.determinism import one_thread, restored_generators
from flcert.core.settings import Choice
from flcert.datasets import Federation
from flcert.errors import FlcertError, InputError
from flcert.grouping import Grouping
from flcert.training import augmentation
from flcert.training.device import tensor
from flcert.training.ensemble import features
from flcert.training.local import Replica
from flcert.training.public import Public, public_of
from flcert.training.recipe import Recipe
from flcert.training.start import initial_module

ALIKE = (
    "groups that are drawn at random must all train alike: Theorem 1 needs a model that depends on a group's clients, "
    "not on which draw it was"
)


def check_recipe(federation: Federation, grouping: Grouping, recipe: Recipe) -> None:
    """Refuse a recipe whose names, options or output width do not fit, before anything is trained."""
    if grouping.num_clients != federation.num_clients:
        raise InputError(f"the grouping is of {grouping.num_clients} clients, the data of {federation.num_clients}")
    check_alike(grouping, recipe)
    public = public_of(recipe, federation.test_inputs, federation.num_labels)
    module = checked_module(recipe, public, federation.test_inputs[:1], federation.num_labels)
    for change in (recipe.augmentation, recipe.features.augmentation if recipe.features else None):
        if change:
            _check_augmentation(change, federation)
    for choice in (recipe.of_group(group).aggregator for group in range(max(1, len(recipe.variants)))):
        _check_aggregator(choice, Replica(module), federation)


def checked_module(recipe: Recipe, public: Public, inputs: NDArray[np.generic], num_labels: int) -> nn.Module:
    """The model that groups start from, refused if it does not turn one input into one score for each label.

    Args:
        recipe: how groups train.
        public: what they share.
        inputs: an input, in a table of one row.
        num_labels: L.
    """
    module = initial_module(recipe, public.shape(inputs.shape[1:]), num_labels, public.start)
    received = features(public.function.module(), inputs) if public.function else inputs
    models.check_output(module, tensor(received[0]), num_labels)
    return module


def check_alike(grouping: Grouping, recipe: Recipe) -> None:
    """Refuse a recipe by which two draws of the same group would train differently."""
    if grouping.drawn and (recipe.seeds == "per-group" or recipe.variants):
        raise InputError(f"{ALIKE}; seeds='per-group' and variants go with groups that are not drawn at random")


def _check_augmentation(choice: Choice, federation: Federation) -> None:
    """Refuse an augmentation that fails on this kind of inputs, or changes their shape or type."""
    example = tensor(federation.test_inputs[:2])
    change = augmentation.build(choice)
    try:
        changed = change(example, torch.Generator().manual_seed(0))
    except FlcertError:
        raise
    except Exception as error:  # a user's code may raise anything
        raise InputError(f"augmentation {choice.name!r} raised {type(error).__name__}: {error}") from None
    if not isinstance(changed, torch.Tensor) or (changed.shape, changed.dtype) != (example.shape, example.dtype):
        got = _kind(changed) if isinstance(changed, torch.Tensor) else type(changed).__name__
        raise InputError(f"augmentation {choice.name!r} must give {_kind(example)}, got {got}")


def _check_aggregator(choice: Choice, replica: Replica, federation: Federation) -> None:
    """Refuse a rule that needs a missing root set, or that does not turn rounds of zero updates into updates."""
    aggregator = aggregators.build(choice)
    if aggregators.uses_root(aggregator) and len(federation.root_labels) == 0:
        raise InputError(f"aggregator {choice.name!r} needs a root set of the server (data.options.num_root)")
    still = torch.zeros_like(replica.read())
    calm = Round(still.repeat(3, 1), tensor([1, 1, 1]), replica.num_parameters, still)
    try:
        with one_thread(), restored_generators():
            next_round = replace(calm, memory=aggregators.remembered(aggregator, calm))
            updates = [aggregator(calm), aggregator(next_round)]
    except Exception as error:  # a user's code may raise anything
        raise InputError(f"aggregator {choice.name!r} raised {type(error).__name__}: {error}") from None
    for update in updates:
        if not isinstance(update, torch.Tensor) or (update.shape, update.dtype) != (still.shape, still.dtype):
            got = _kind(update) if isinstance(update, torch.Tensor) else type(update).__name__
            raise InputError(f"aggregator {choice.name!r} must give {_kind(still)}, got {got}")


def _kind(tensor: torch.Tensor) -> str:
    return f"{tensor.dtype} of shape {tuple(tensor.shape)}"
