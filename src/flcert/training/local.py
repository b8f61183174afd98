"""One client's part of one round: a few steps of SGD on its own data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from flcert.core.seeding import derive, stream
from flcert.training import augmentation
from flcert.training.device import tensor
from flcert.training.recipe import Recipe


@dataclass(frozen=True)
class Client:
    """One client's id and examples.

    Args:
        id: the user id.
        inputs: the inputs of its examples.
        labels: the labels of its examples.
        reported: the number of examples that it reports to the server; a poisoned client leaves out those it added.
    """

    id: str
    inputs: Tensor
    labels: Tensor
    reported: int

    def __len__(self) -> int:
        return len(self.labels)


class Replica:
    """A working copy of the model whose state can be read and written as one vector.

    The vector holds the parameters, then the floating-point buffers (such as the statistics of batch
    normalisation), in the order of the module. Integer buffers keep their initial value.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module.train()
        self.num_parameters = sum(parameter.numel() for parameter in module.parameters())
        self.trained: list[Tensor] = [parameter for parameter in module.parameters() if parameter.requires_grad]
        buffers = [buffer for buffer in module.buffers() if buffer.is_floating_point()]
        self._tensors = [tensor.detach() for tensor in (*module.parameters(), *buffers)]
        self._counters = [(buffer, buffer.clone()) for buffer in module.buffers() if not buffer.is_floating_point()]
        self._sizes = [tensor.numel() for tensor in self._tensors]

    def read(self) -> Tensor:
        """The state as a new vector."""
        return torch.cat([tensor.reshape(-1) for tensor in self._tensors])

    def write(self, vector: Tensor) -> None:
        """Set the state."""
        for target, values in zip(self._tensors, torch.split(vector, self._sizes), strict=True):
            target.copy_(values.view(target.shape))
        for counter, initial in self._counters:
            counter.copy_(initial)


def train_locally(replica: Replica, client: Client, recipe: Recipe, seed: int, round_number: int) -> None:
    """Take ``recipe.local_steps`` steps on the client's data, in place.

    The gradient is taken and applied directly: an optimiser object and a DataLoader cost more than the
    arithmetic of a small model.
    """
    torch.default_generator.manual_seed(derive(seed, "dropout", client.id, round_number))
    change, optimiser = _augmentation(client, recipe, seed, round_number), build_optimiser(recipe)
    for batch in _batches(client, recipe, seed, round_number):
        inputs = change(client.inputs[batch])
        loss = functional.cross_entropy(replica.module(inputs), client.labels[batch], reduction=recipe.reduction)
        gradients = torch.autograd.grad(loss, replica.trained, allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            if recipe.gradient_clip is not None:
                _clip(gradients, recipe.gradient_clip)
            optimiser.step(replica.trained, gradients)


class Optimiser(Protocol):
    """How a client's model follows the gradients of a batch; each client gets a new optimiser in each round."""

    def step(self, parameters: list[Tensor], gradients: tuple[Tensor, ...]) -> None:
        """Change the parameters in place."""


@dataclass(frozen=True)
class SGD:
    """Plain stochastic gradient descent.

    Args:
        learning_rate: the factor on the gradients.
    """

    learning_rate: float

    def step(self, parameters: list[Tensor], gradients: tuple[Tensor, ...]) -> None:
        """Take a step against the gradients."""
        torch._foreach_add_(parameters, gradients, alpha=-self.learning_rate)


def build_optimiser(recipe: Recipe) -> Optimiser:
    """The optimiser that a recipe asks for."""
    return SGD(recipe.learning_rate)


def _augmentation(client: Client, recipe: Recipe, seed: int, round_number: int) -> Callable[[Tensor], Tensor]:
    """The change to each batch of inputs, from a stream of this client and round; none by default."""
    if recipe.augmentation is None:
        return _itself
    change = augmentation.build(recipe.augmentation)
    generator = torch.Generator().manual_seed(derive(seed, "augmentation", client.id, round_number))
    return lambda inputs: change(inputs, generator)


def _itself(inputs: Tensor) -> Tensor:
    return inputs


def _clip(gradients: tuple[Tensor, ...], largest: float) -> None:
    """Scale the gradients down, in place, if their common norm exceeds ``largest``."""
    norm = float(torch.stack(torch._foreach_norm(gradients)).norm())
    if norm > largest:
        torch._foreach_mul_(gradients, largest / norm)


def _batches(client: Client, recipe: Recipe, seed: int, round_number: int) -> Tensor:
    """The rows of each step's batch, (steps x batch size): each batch is drawn without repetition."""
    rows = np.tile(np.arange(len(client)), (recipe.local_steps, 1))
    generator = stream(seed, "batches", client.id, round_number)
    return tensor(generator.permuted(rows, axis=1)[:, : recipe.batch_size])
