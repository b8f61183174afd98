"""What a ClientApp trains on: the client's own examples, or their public features."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from flcert.core.store import Arrays, Store
from flcert.datasets import Federation
from flcert.engines import Inline, Workers
from flcert.errors import InputError, RunError
from flcert.features import Features, PublicFunction
from flcert.flower.options import FEATURES, check_recipe, examples_of
from flcert.training import Context, Recipe
from flcert.training.device import tensor
from flcert.training.examples import features_of_clients
from flcert.training.local import Client
from flcert.training.public import function_of


def examples(
    recipe: Recipe,
    user: str,
    inputs: ArrayLike,
    labels: ArrayLike,
    *,
    told: Mapping[str, Any] | None = None,
    store: Store | None = None,
) -> Client:
    """The examples that a client trains on, with the same bytes as in ``flcert run``.

    With ``recipe.features`` they are the public features of the client's examples, then those of the changed copies.
    They are computed once and kept on the client's own disk, because Flower may start a process for each message.
    Without, they are the examples themselves.

    Args:
        recipe: the recipe that the server has.
        user: the client's user id.
        inputs: the inputs of its own examples.
        labels: their labels.
        told: the train config of a message; features that are not the server's are refused.
        store: where features are kept; by default the platform's cache directory.

    Returns:
        The examples as tensors; ``reported`` is the number of the client's own, without copies.
    """
    check_recipe(recipe)
    given = examples_of(f"client {user!r}", inputs, labels)
    own = Federation.build(user, {user: given}, given)
    function = function_of(recipe, own.inputs)
    if told is not None:
        _check_same(function, told)
    arrays: Arrays = {"inputs": own.inputs, "labels": own.labels}
    if function and recipe.features:
        arrays = _features(own, function, recipe.features, store or Store())
    return Client(user, tensor(arrays["inputs"]), tensor(arrays["labels"]), len(own.labels))


def _check_same(function: PublicFunction | None, told: Mapping[str, Any]) -> None:
    mine, theirs = function.identity if function else None, told.get(FEATURES)
    if mine != theirs:
        raise InputError(f"recipe.features must be those of the server, {theirs or 'none'}, got {mine or 'none'}")


def _features(own: Federation, function: PublicFunction, settings: Features, store: Store) -> Arrays:
    """The features of the only client of a federation."""
    with Workers(Inline(), own) as workers:
        featured = features_of_clients(Context(workers, store), function, settings, {0: None})
    if reason := featured.failure([0]):
        raise RunError(f"the features of {own.ids[0]!r} cannot be computed: {reason}")
    return store.load(featured.keys[0])
