"""Models by name. A factory returns a torch module; it is told the input shape and the number of labels if it asks."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
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

__all__ = [
    "MODELS",
    "Counting",
    "Stackable",
    "build",
    "check_output",
    "learns_by_counting",
    "stackable",
    "unregistered",
]


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


_REGISTERED = ("_parameters", "_buffers", "_modules")  # where torch keeps what is in the state


def unregistered(module: nn.Module) -> dict[str, NDArray[np.generic]]:
    """Tensors and arrays that a module holds outside its state: plain attributes, and buffers that are left out."""
    found: dict[str, NDArray[np.generic]] = {}
    for path, part in module.named_modules():
        left_out = {name: part.get_buffer(name) for name in part._non_persistent_buffers_set}
        own = {name: value for name, value in vars(part).items() if name not in _REGISTERED}
        for name, value in {**own, **left_out}.items():
            for number, one in enumerate(_held(value)):
                found[f"{path}.{name} {number}"] = one
    return found


def _held(value: object) -> Iterator[NDArray[np.generic]]:
    """The tensors and arrays in a value."""
    if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
        yield value.detach().cpu().numpy()
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield value
    elif isinstance(value, list | tuple | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _held(one)


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
            scores, again = module(example[None]), module(example[None])
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
    if not torch.allclose(scores, again, rtol=0, atol=0, equal_nan=True):
        raise InputError(
            "the model must give the same scores for the same input each time in evaluation mode; noise is for training"
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
