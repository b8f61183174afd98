"""One client's part of one round: a few steps on its own data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from flcert.core.seeding import derive, stream
from flcert.errors import InputError
from flcert.models import learns_by_counting
from flcert.training import augmentation, optimisers, schedules
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
    """Train on the client's data for one round, in place; a model that counts does so once instead of taking steps.

    The gradient is taken directly, and without an optimiser in the recipe also applied directly: a DataLoader and an
    optimiser object cost more than the arithmetic of a small model.
    """
    if learns_by_counting(replica.module):
        replica.module.count_examples(client.inputs, client.labels)
        return
    torch.default_generator.manual_seed(derive(seed, "dropout", client.id, round_number))
    change, optimiser = _augmentation(client, recipe, seed, round_number), optimisers.build(recipe.optimiser)
    start = [parameter.detach().clone() for parameter in replica.trained] if recipe.proximal else []
    rarity = None if recipe.label_weights is None else _rarity(client.labels)
    batches = _batches(client, recipe, seed, round_number)
    for batch, rate in zip(batches, learning_rates(recipe, round_number, len(batches)), strict=True):
        scores = replica.module(change(client.inputs[batch]))
        loss = _loss(scores, client.labels[batch], recipe, None if rarity is None else rarity[batch])
        gradients = torch.autograd.grad(loss, replica.trained, allow_unused=True, materialize_grads=True)
        with torch.no_grad():
            if recipe.proximal is not None:
                gradients = _pulled_back(gradients, replica.trained, start, recipe.proximal)
            if recipe.gradient_clip is not None:
                _clip(gradients, recipe.gradient_clip)
            optimiser.step(replica.trained, gradients, rate)


def _loss(scores: Tensor, labels: Tensor, recipe: Recipe, weights: Tensor | None) -> Tensor:
    """The loss of a batch; weights are scaled to a mean of 1 over the batch."""
    smoothing = recipe.label_smoothing or 0.0
    if weights is None:
        return functional.cross_entropy(scores, labels, reduction=recipe.reduction, label_smoothing=smoothing)
    losses = functional.cross_entropy(scores, labels, reduction="none", label_smoothing=smoothing)
    weighted = losses * (weights / weights.mean())
    return weighted.mean() if recipe.reduction == "mean" else weighted.sum()


def _rarity(labels: Tensor) -> Tensor:
    """For each example, 1 / how many examples of the same client have its label."""
    return labels.bincount()[labels].float().reciprocal()


def learning_rates(recipe: Recipe, round_number: int, num_steps: int) -> list[float]:
    """The learning rate of each step of a round; see ``flcert.training.schedules`` for the progress."""
    if recipe.schedule is None:
        return [recipe.learning_rate] * num_steps
    name, factor = recipe.schedule.name, schedules.build(recipe.schedule)
    points = [(round_number - 1 + step / num_steps) / recipe.rounds for step in range(num_steps)]
    try:
        factors = [factor(point) for point in points]
    except Exception as error:  # a user's code may raise anything
        raise InputError(f"schedule {name!r} raised {type(error).__name__}: {error}") from None
    for wrong in (one for one in factors if not (isinstance(one, float | int) and 0 <= one < inf)):
        raise InputError(f"schedule {name!r} must give numbers from 0, got {wrong!r}")
    return [recipe.learning_rate * one for one in factors]


def _augmentation(client: Client, recipe: Recipe, seed: int, round_number: int) -> Callable[[Tensor], Tensor]:
    """The change to each batch of inputs, from a stream of this client and round; none by default."""
    if recipe.augmentation is None:
        return _itself
    change = augmentation.build(recipe.augmentation)
    generator = torch.Generator().manual_seed(derive(seed, "augmentation", client.id, round_number))
    return lambda inputs: change(inputs, generator)


def _itself(inputs: Tensor) -> Tensor:
    return inputs


def _pulled_back(
    gradients: tuple[Tensor, ...], parameters: list[Tensor], start: list[Tensor], strength: float
) -> tuple[Tensor, ...]:
    """The gradients of a loss with FedProx's term, mu / 2 times the squared distance from the start of the round."""
    return torch._foreach_add(gradients, torch._foreach_sub(parameters, start), alpha=strength)


def _clip(gradients: tuple[Tensor, ...], largest: float) -> None:
    """Scale the gradients down, in place, if their common norm exceeds ``largest``."""
    norm = float(torch.stack(torch._foreach_norm(gradients)).norm())
    if norm > largest:
        torch._foreach_mul_(gradients, largest / norm)


def _batches(client: Client, recipe: Recipe, seed: int, round_number: int) -> Sequence[Tensor]:
    """The rows of each step's batch.

    With ``local_steps`` each batch is drawn without repetition. With ``local_epochs`` the examples are shuffled for
    each epoch and cut into batches, of which the last may be smaller.
    """
    rows = np.tile(np.arange(len(client)), (recipe.local_epochs or recipe.local_steps, 1))
    drawn = tensor(stream(seed, "batches", client.id, round_number).permuted(rows, axis=1))
    if recipe.local_epochs is None:
        return drawn[:, : recipe.batch_size].unbind()
    return [batch for epoch in drawn for batch in epoch.split(recipe.batch_size)]
