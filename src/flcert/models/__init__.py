"""Models by name. A factory takes the input shape and the number of labels, and returns a torch module."""

import torch
from torch import nn

from flcert import registry
from flcert.errors import InputError
from flcert.models.cnn import CNN
from flcert.models.mlp import MLP
from flcert.registry import Choice
from flcert.seeding import derive

MODELS: dict[str, registry.Factory] = {
    "cnn": CNN,
    "mlp": MLP,
}

__all__ = ["MODELS", "build", "check_output"]


def build(choice: Choice, input_shape: tuple[int, ...], num_labels: int, seed: int) -> nn.Module:
    """The model of this name (or a user's ``package.module:factory``), initialised from ``seed`` alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "initial model"))
        model = registry.build("model", MODELS, choice, input_shape=input_shape, num_labels=num_labels)
    if not isinstance(model, nn.Module):
        raise InputError(f"model {choice.name!r} must be a torch.nn.Module, got {type(model).__name__}")
    return model


def check_output(model: nn.Module, example: torch.Tensor, num_labels: int) -> None:
    """Refuse a model that does not turn one example into one score for each label."""
    model.eval()
    with torch.no_grad():
        try:
            scores = model(example[None])
        except (RuntimeError, ValueError, IndexError) as error:
            raise InputError(f"the model cannot read an input of shape {tuple(example.shape)}: {error}") from None
    if tuple(scores.shape) != (1, num_labels):
        raise InputError(
            f"the model must give one score for each of the {num_labels} labels, "
            f"shape (1, {num_labels}), got {tuple(scores.shape)}"
        )
