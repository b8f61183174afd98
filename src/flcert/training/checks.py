"""Checks before anything is trained: recipes whose names, options or shapes do not fit are refused."""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from flcert import aggregators, models
from flcert.aggregators import Round
from flcert.attacks import AttackPlan
from flcert.core.determinism import one_thread, restored_generators
from flcert.core.plugins import names_main
from flcert.core.settings import Choice
from flcert.datasets import Federation
from flcert.engines import Engine
from flcert.errors import FlcertError, InputError
from flcert.grouping import Grouping
from flcert.training import augmentation, optimisers
from flcert.training.device import tensor
from flcert.training.ensemble import features
from flcert.training.keys import recipe_choices
from flcert.training.local import Replica, learning_rates
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
    check_augmentations(recipe, federation.test_inputs)
    check_local(recipe, module)
    for own in _of_all_groups(recipe):
        _check_aggregator(own.aggregator, Replica(module), federation)


def check_augmentations(recipe: Recipe, inputs: NDArray[np.generic]) -> None:
    """Refuse augmentations that fail on this kind of inputs, or change their shape or type.

    Args:
        recipe: how clients change their examples.
        inputs: some inputs that no client owns.
    """
    for change in (recipe.augmentation, recipe.features.augmentation if recipe.features else None):
        if change:
            _check_augmentation(change, tensor(inputs[:2]))


def check_local(recipe: Recipe, module: nn.Module) -> None:
    """Refuse an optimiser or a schedule that a client could not use.

    Args:
        recipe: how clients train.
        module: the recipe's model.
    """
    for own in _of_all_groups(recipe):
        rates = [learning_rates(own, number, num_steps=1)[0] for number in range(1, own.rounds + 1)]
        if own.optimiser:
            _check_optimiser(own.optimiser, Replica(module).trained, rates[0])


def check_reachable(engine: Engine, recipe: Recipe, attack: AttackPlan | None) -> None:
    """Refuse a class or function of the running script or notebook that the engine's workers could not import."""
    used = (choice for own in _of_all_groups(recipe) for choice in recipe_choices(own, attack))
    for choice in used if not engine.imports_main else ():
        if names_main(choice):
            raise InputError(
                f"{choice.name!r} is defined in this script or notebook, which the workers cannot import: put it into "
                "a module of its own, or use the inline engine"
            )


def _of_all_groups(recipe: Recipe) -> list[Recipe]:
    """The recipes of groups, one for each variant."""
    return [recipe.of_group(group) for group in range(max(1, len(recipe.variants)))]


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


def _check_augmentation(choice: Choice, example: Tensor) -> None:
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


def _check_optimiser(choice: Choice, trained: list[Tensor], learning_rate: float) -> None:
    """Refuse an optimiser that fails on the model's parameters, or does not take two steps."""
    copies: list[Tensor] = [nn.Parameter(parameter.detach().clone()) for parameter in trained]
    try:
        with one_thread(), restored_generators(), torch.no_grad():
            optimiser = optimisers.build(choice)
            for _ in range(2):
                optimiser.step(copies, tuple(torch.ones_like(one) for one in copies), learning_rate)
    except FlcertError:
        raise
    except Exception as error:  # a user's code may raise anything
        raise InputError(f"optimiser {choice.name!r} raised {type(error).__name__}: {error}") from None


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
