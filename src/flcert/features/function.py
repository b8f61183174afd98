"""A public function with its weights: what turns inputs into features, in any process."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from flcert import models
from flcert.core import plugins
from flcert.core.determinism import one_thread, restored_generators, seed_everything
from flcert.core.digest import digest_json, digest_named
from flcert.core.settings import Choice
from flcert.core.store import Arrays
from flcert.errors import InputError
from flcert.features.efficientnet import efficientnet_lite0
from flcert.features.front import front
from flcert.features.word_vectors import word_vectors

FEATURES: dict[str, plugins.Factory] = {
    "efficientnet-lite0": efficientnet_lite0,
    "front": front,
    "word-vectors": word_vectors,
}
"""The public functions by name."""

BATCH = 8  # examples of one client that pass a function together; more are no faster for large networks

_kept: dict[str, nn.Module] = {}  # the function of ours that this process used last, by its identity


@dataclass(frozen=True)
class PublicFunction:
    """A frozen function of an input.

    Args:
        choice: a name from ``FEATURES`` or an import path, with all options.
        input_shape: shape of one input.
        weights: what its module is loaded with; None if the factory brings its own.
        identity: a digest of its code, options and weights.
        width: the number of features.
    """

    choice: Choice
    input_shape: tuple[int, ...]
    weights: Arrays | None
    identity: str
    width: int

    @classmethod
    def of(cls, choice: Choice, inputs: NDArray[np.generic], weights: Arrays | None) -> "PublicFunction":
        """The function, tried on some inputs.

        Args:
            choice: which one.
            inputs: a few inputs that no client owns, such as test inputs.
            weights: what to load into its module, if anything.
        """
        input_shape = inputs.shape[1:]
        module = _built(choice, input_shape, weights)
        width = _tried(choice.name, module, torch.tensor(inputs))
        return cls(choice, input_shape, weights, _identity(choice, input_shape, module), width)

    @property
    def ours(self) -> bool:
        """Whether no code of a user's own has a part in it, not even in its options."""
        return not any(plugins.choice_sources(self.choice).split())

    def module(self) -> nn.Module:
        """The function as a torch module.

        One with code of a user's own is built anew each time, so that the module can keep nothing of a client.
        """
        if self.identity in _kept:
            return _kept[self.identity]
        module = _built(self.choice, self.input_shape, self.weights)
        if _identity(self.choice, self.input_shape, module) != self.identity:
            raise InputError(
                f"features {self.choice.name!r} must be the same each time they are built, in every process, but their "
                "weights or code differ from the first time"
            )
        if self.ours:
            _kept.clear()
            _kept[self.identity] = module
        return module


def of_client(module: nn.Module, inputs: Tensor) -> Tensor:
    """The features of one client's inputs, which pass the function in batches of their own."""
    return _features(module, inputs, BATCH)


def one_by_one(module: nn.Module, inputs: Tensor) -> Tensor:
    """The features of inputs that have nothing to do with each other: each passes the function alone.

    In a batch, the number of inputs and their places decide which kernel computes a row, and so how it is rounded.
    """
    return _features(module, inputs, 1)


def _features(module: nn.Module, inputs: Tensor, batch: int) -> Tensor:
    with one_thread(), torch.inference_mode():
        # a part of a larger table may begin at any address, and some kernels round by it: a copy never does
        features = torch.cat([module(part.clone()) for part in torch.split(inputs, batch)]).clone()
    if features.shape[0] != len(inputs):
        raise InputError(f"a features function must give one row for each input, got {len(features)} for {len(inputs)}")
    return features


def _built(choice: Choice, input_shape: tuple[int, ...], weights: Arrays | None) -> nn.Module:
    with restored_generators():
        seed_everything(0)
        module = plugins.build("features", FEATURES, choice, input_shape=input_shape)
    if not isinstance(module, nn.Module):
        raise InputError(f"features {choice.name!r} must be a torch.nn.Module, got {type(module).__name__}")
    if weights is not None:
        try:
            module.load_state_dict({name: torch.tensor(array) for name, array in weights.items()})
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise InputError(f"the weights do not fit features {choice.name!r}: {reason}") from None
    return module.requires_grad_(False).eval()


def _identity(choice: Choice, input_shape: tuple[int, ...], module: nn.Module) -> str:
    state = {name: tensor.detach().cpu().numpy() for name, tensor in module.state_dict().items()}
    held = digest_named({**state, **models.unregistered(module)})
    return digest_json([choice.model_dump(mode="json"), plugins.choice_sources(choice), list(input_shape), held])


def _tried(name: str, module: nn.Module, inputs: Tensor) -> int:
    """The number of features, if the function gives one row of finite numbers for each input, always the same."""
    try:
        tries = [_rows(module, inputs), _rows(module, inputs[:1]), _rows(module, inputs)]
    except Exception as error:  # a user's code may raise anything
        raise InputError(f"features {name!r} raised {type(error).__name__}: {error}") from None
    first, one, again = tries
    if not isinstance(first, Tensor) or first.dtype != torch.float32 or first.ndim != 2 or len(first) != len(inputs):
        got = f"{first.dtype} of shape {tuple(first.shape)}" if isinstance(first, Tensor) else type(first).__name__
        raise InputError(f"features {name!r} must give a row of float32 for each of {len(inputs)} inputs, got {got}")
    if not first.isfinite().all():
        raise InputError(f"features {name!r} must be finite, got NaN or infinity")
    if not torch.equal(first, again):
        raise InputError(f"features {name!r} must be the same at each call, got different values for the same inputs")
    if one.shape != (1, first.shape[1]) or not torch.allclose(one, first[:1], 1e-3, 1e-4 * float(first.abs().max())):
        raise InputError(f"features {name!r} of an input must not depend on the inputs beside it")
    return first.shape[1]


def _rows(module: nn.Module, inputs: Tensor) -> Tensor:
    with one_thread(), torch.inference_mode():
        return cast(Tensor, module(inputs))
