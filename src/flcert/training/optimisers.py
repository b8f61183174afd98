"""Local optimisers by name: how a client's model follows the gradients of its batches."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Protocol

import torch
from pydantic import Field
from torch import Tensor

from flcert.core import plugins
from flcert.core.settings import Choice
from flcert.errors import InputError

Decay = Annotated[float, Field(ge=0)]
Momentum = Annotated[float, Field(ge=0, lt=1)]


class Optimiser(Protocol):
    """How a client's model follows the gradients of a batch; each client gets a new optimiser in each round."""

    def step(self, parameters: list[Tensor], gradients: tuple[Tensor, ...], learning_rate: float) -> None:
        """Change the parameters in place."""


class PlainSGD:
    """Stochastic gradient descent without memory, in one call: what a recipe without an optimiser uses."""

    def step(self, parameters: list[Tensor], gradients: tuple[Tensor, ...], learning_rate: float) -> None:
        """Take a step against the gradients."""
        torch._foreach_add_(parameters, gradients, alpha=-learning_rate)


class TorchOptimiser:
    """One of torch's optimisers, or a class derived from them, made when the parameters are first seen.

    Args:
        make: called with ``params`` and ``lr``.
    """

    def __init__(self, make: Callable[..., torch.optim.Optimizer]) -> None:
        self._make = make
        self._made: torch.optim.Optimizer | None = None

    def step(self, parameters: list[Tensor], gradients: tuple[Tensor, ...], learning_rate: float) -> None:
        """Take the optimiser's step with these gradients."""
        if self._made is None:
            self._made = self._make(params=parameters, lr=learning_rate)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        for group in self._made.param_groups:
            group["lr"] = learning_rate
        self._made.step()
        self._made.zero_grad()


def sgd(momentum: Momentum = 0.0, nesterov: bool = False, weight_decay: Decay = 0.0) -> Optimiser:
    """Stochastic gradient descent with momentum.

    Args:
        momentum: the share of the last step's direction that stays.
        nesterov: whether to look ahead along the momentum.
        weight_decay: how much of the weights is added to their gradients.
    """
    if nesterov and not momentum:
        raise InputError(f"option 'momentum' of optimiser 'sgd' must be above 0 with nesterov=true, got {momentum:g}")
    made = partial(torch.optim.SGD, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay, foreach=True)
    return TorchOptimiser(made)


def adamw(
    beta1: Momentum = 0.9,
    beta2: Momentum = 0.999,
    epsilon: Annotated[float, Field(gt=0)] = 1e-8,
    weight_decay: Decay = 0.01,
) -> Optimiser:
    """Adam with decoupled weight decay.

    Args:
        beta1: the share of the running mean of the gradients that stays.
        beta2: the share of the running mean of their squares that stays.
        epsilon: added to the root of that mean.
        weight_decay: the share of the weights, times the learning rate, that each step takes away.
    """
    betas = (beta1, beta2)
    return TorchOptimiser(partial(torch.optim.AdamW, betas=betas, eps=epsilon, weight_decay=weight_decay, foreach=True))


OPTIMISERS: dict[str, plugins.Factory] = {"adamw": adamw, "sgd": sgd}
"""The local optimisers by name."""


def build(choice: Choice | None) -> Optimiser:
    """The optimiser with this name, or a user's own at ``package.module:name``; without a choice plain SGD.

    A user's own is a class derived from ``torch.optim.Optimizer``, which gets the parameters and the learning rate as
    ``params`` and ``lr``, or a function that returns an ``Optimiser``. Either takes the options.
    """
    if choice is None:
        return PlainSGD()
    found = plugins.resolve("optimiser", OPTIMISERS, choice.name)
    if isinstance(found, type) and issubclass(found, torch.optim.Optimizer):
        return TorchOptimiser(partial(plugins.build, "optimiser", OPTIMISERS, choice))
    optimiser: Optimiser = plugins.build("optimiser", OPTIMISERS, choice)
    if not callable(getattr(optimiser, "step", None)):
        raise InputError(f"optimiser {choice.name!r} must have a method 'step', got {type(optimiser).__name__}")
    return optimiser
