"""Models by name. A factory returns a torch module; it is told the input shape and the number of labels if it asks."""

import torch
from torch import nn

from flcert.core import plugins
from flcert.core.determinism import restored_generators, seed_everything
from flcert.core.seeding import derive
from flcert.core.settings import Choice
from flcert.errors import InputError
from flcert.models.cnn import CNN
from flcert.models.counting import Counting, learns_by_counting
from flcert.models.lstm import LSTM
from flcert.models.mlp import MLP, linear
from flcert.models.ngram import NGram
from flcert.models.resnet20 import ResNet20
from flcert.models.small_cnn import SmallCNN
from flcert.models.stacking import Stackable, stackable

MODELS: dict[str, plugins.Factory] = {
    "cnn": CNN,
    "linear": linear,
    "lstm": LSTM,
    "mlp": MLP,
    "ngram": NGram,
    "resnet20": ResNet20,
    "small-cnn": SmallCNN,
}
"""The models by name."""

__all__ = ["MODELS", "Counting", "Stackable", "build", "check_output", "learns_by_counting", "stackable"]


def build(choice: Choice, input_shape: tuple[int, ...], num_labels: int, seed: int) -> nn.Module:
    """The model with this name (or a user's ``package.module:factory``), initialised from ``seed`` alone.

    A factory gets those of ``input_shape``, ``num_labels`` and ``num_classes`` (the same number) that its signature
    names and that the user's options do not give.
    """
    offered = {"input_shape": input_shape, "num_labels": num_labels, "num_classes": num_labels}
    factory = plugins.resolve("model", MODELS, choice.name)
    told = plugins.asked_for(factory, offered, usual=("input_shape", "num_labels"))
    told = {name: value for name, value in told.items() if name not in choice.options}
    with restored_generators():
        seed_everything(derive(seed, "initial model"))
        model = plugins.build("model", MODELS, choice, **told)
    if not isinstance(model, nn.Module):
        raise InputError(f"model {choice.name!r} must be a torch.nn.Module, got {type(model).__name__}")
    return model


def check_output(module: nn.Module, example: torch.Tensor, num_labels: int) -> None:
    """Refuse a model that does not turn one example into one score for each label."""
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise InputError("the model has no parameters to train")
    for name, parameter in module.named_parameters():
        if parameter.dtype != torch.float32:
            raise InputError(f"the model's parameters must be float32, got {parameter.dtype} for {name!r}")
    module.eval()
    with torch.no_grad():
        try:
            scores = module(example[None])
        except Exception as error:  # a user's code may raise anything
            reason = f"{type(error).__name__}: {error}"
            raise InputError(f"the model cannot read an input of shape {tuple(example.shape)}: {reason}") from None
    if not isinstance(scores, torch.Tensor) or not scores.is_floating_point():
        got = scores.dtype if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise InputError(f"the model must give a tensor of floating-point scores, got {got}")
    if tuple(scores.shape) != (1, num_labels):
        raise InputError(
            f"the model must give one score for each of the {num_labels} labels, "
            f"shape (1, {num_labels}), got {tuple(scores.shape)}"
        )
    if stackable(module):
        _check_stacked(module, example, scores)


def _check_stacked(module: nn.Module, example: torch.Tensor, scores: torch.Tensor) -> None:
    """Refuse a stacked form that differs from the module, or lets models affect each other's scores."""
    state = module.state_dict()
    spoilt = {name: value * float("nan") if value.is_floating_point() else value for name, value in state.items()}
    weights = {name: torch.stack([value, spoilt[name], value]) for name, value in state.items()}
    with torch.no_grad():
        try:
            stacked = module.stacked(weights)(example)  # type: ignore[operator]
        except Exception as error:  # a user's code may raise anything
            raise InputError(f"the model's stacked form raised {type(error).__name__}: {error}") from None
    if stacked.shape != (3, scores.shape[1]) or not torch.allclose(stacked[::2], scores.expand(2, -1), 1e-3, 1e-4):
        raise InputError(
            "the model's stacked form must give the scores that each model gives alone, one row for each model"
        )
