"""The options that a ServerApp passes to ``flcert.flower.train``."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ConfigRecord
from flwr.serverapp.strategy import Strategy
from numpy.typing import ArrayLike, NDArray

from flcert.certify import CertificateSettings
from flcert.core.store import Arrays
from flcert.errors import InputError
from flcert.flower.users import Users, by_name, by_query
from flcert.training import Progress, Recipe
from flcert.training.context import silent
from flcert.training.trusted import TrustedModel

FEATURES = "flcert-features"  # in the train config: the identity of the public function
NUMBERS = "fiub"  # kinds of array types whose values are real numbers
RESERVED = ("flcert-seed", "flcert-group", FEATURES, "server-round")  # names in the train config


@dataclass(frozen=True)
class Clients:
    """Who takes part.

    Args:
        registered: the number of clients, or the ids of all registered clients.
        users: where user ids come from: ``by_name()``, ``by_public_key`` or ``by_query()``.
        absent: how many listed clients may be missing at the start.
    """

    registered: int | Collection[str]
    users: Users
    absent: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.registered, str | float):
            raise InputError(f"clients must be a whole number or a list of user ids, got {self.registered!r}")
        makers: tuple[Any, ...] = (by_name, by_query)
        for maker in makers:
            if self.users is maker:
                raise InputError(f"users must be what {maker.__name__}() returns, got {maker.__name__} itself")


@dataclass(frozen=True)
class Learning:
    """How each group learns.

    Args:
        recipe: the model (a name or an import path), rounds, participation and seed; other settings are for clients.
        strategy: a function that makes a new Flower strategy at each call; by default the recipe's aggregator is used.
        initial: arrays or tensors by name, as ``module.state_dict()`` has them, that all groups start from and no
            client may have influenced; by default those of ``recipe.initial``, or of the recipe's model and seed.
        train_config: sent to clients with every model.
        trusted: a model of the server's own that votes beside the groups; "initial" or a file.
        allow_overlap: start from a public model even if it was trained on test inputs.
    """

    recipe: Recipe = Recipe()  # noqa: RUF009 (frozen)
    strategy: Callable[[], Strategy] | None = None
    initial: Mapping[str, NDArray[np.generic] | torch.Tensor | Array] | None = None
    train_config: Mapping[str, Any] = field(default_factory=dict)
    trusted: TrustedModel | None = None
    allow_overlap: bool = False

    def __post_init__(self) -> None:
        check_recipe(self.recipe)
        if self.trusted is not None and not isinstance(self.trusted, TrustedModel):
            raise InputError(f"trusted must be a TrustedModel, got {self.trusted!r}")
        if self.arrays is not None and self.recipe.initial is not None:
            raise InputError(f"give initial arrays or recipe.initial, not both, got {self.recipe.initial!r} and arrays")
        for name in RESERVED:
            if name in self.train_config:
                raise InputError(f"train_config must leave {name!r} to flcert, got {self.train_config[name]!r}")
        try:
            ConfigRecord(dict(self.train_config))
        except (TypeError, ValueError) as error:
            raise InputError(f"train_config must be what a ConfigRecord can hold: {error}") from None

    @cached_property
    def arrays(self) -> Arrays | None:
        """The arrays that are given as ``initial``."""
        if self.initial is None:
            return None
        if not isinstance(self.initial, Mapping):
            raise InputError(
                "initial must be arrays by name, such as module.state_dict(), "
                f"got {type(self.initial).__name__}; a file goes to recipe.initial"
            )
        return {name: _array(name, value) for name, value in self.initial.items()}


def check_recipe(recipe: object) -> None:
    """Refuse anything but a recipe."""
    if not isinstance(recipe, Recipe):
        raise InputError(f"recipe must be a flcert.Recipe, got {type(recipe).__name__}")


def examples_of(whose: str, inputs: ArrayLike, labels: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Inputs and labels as arrays; refuse rows of different lengths."""
    try:
        return np.asarray(inputs), np.asarray(labels)
    except (TypeError, ValueError) as error:
        raise InputError(f"{whose} must have inputs and labels that are arrays: {error}") from None


def _array(name: object, value: object) -> NDArray[np.generic]:
    """One of the arrays that groups start from."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().to(torch.float32 if value.is_floating_point() else value.dtype).numpy()
    elif isinstance(value, Array):
        value = value.numpy()
    if not isinstance(name, str) or not isinstance(value, np.ndarray) or value.dtype.kind not in NUMBERS:
        got = f"{value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise InputError(f"initial must be arrays of real numbers by name, got {got} for {name!r}")
    return value


@dataclass(frozen=True)
class TestSet:
    """The inputs on the server that the models vote on.

    Args:
        inputs: (inputs x input shape).
        labels: their true labels.
        num_labels: L; by default one more than the largest label.
        name: what to call it in reports.
        image_shape: shape of an input as a picture, if it is one with values in [0, 1].
    """

    __test__ = False  # the name looks like a test to pytest

    inputs: ArrayLike
    labels: ArrayLike
    num_labels: int | None = None
    name: str = "flower"
    image_shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.num_labels is not None and not isinstance(self.num_labels, int | np.integer):
            raise InputError(f"num_labels must be a whole number, got {self.num_labels!r}")


@dataclass(frozen=True)
class Timing:
    """How long to wait, in seconds, and how much to do at once.

    Args:
        wait: time until all clients must be connected.
        timeout: time that a round waits for replies.
        poll: time between two checks for replies.
        concurrent: how many groups train at a time; by default all.
    """

    wait: float = 60.0
    timeout: float = 3600.0
    poll: float = 0.2
    concurrent: int | None = None

    def __post_init__(self) -> None:
        for limit in ("timeout", "wait", "poll"):
            seconds = getattr(self, limit)
            if not isinstance(seconds, int | float) or not seconds >= 0:
                raise InputError(f"{limit} must be a number of seconds from 0, got {seconds!r}")
        if not self.timeout:
            raise InputError("timeout must be positive, got 0: no reply would be in time")
        if self.concurrent is not None and (not isinstance(self.concurrent, int) or self.concurrent < 1):
            raise InputError(f"concurrent must be a whole number from 1, got {self.concurrent!r}")


@dataclass(frozen=True)
class Options:
    """Options that are rarely changed.

    Args:
        certificate: alpha, and which further certificates to compute.
        timing: how long to wait.
        progress: called with a stage, the number done and the total.
    """

    certificate: CertificateSettings = CertificateSettings()  # noqa: RUF009 (frozen)
    timing: Timing = Timing()
    progress: Progress = silent
