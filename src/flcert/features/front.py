"""The front of a network: all its layers but the last dense ones, which become the head that groups train."""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import nn
from torch.nn import functional

from flcert import models
from flcert.core.plugins import checked_options
from flcert.core.settings import Choice, Strict
from flcert.core.store import Arrays
from flcert.errors import InputError, check_range
from flcert.public import Card, PublicModel


class FrontOptions(Strict):
    """Options of the features ``front``.

    Args:
        layers: how many dense layers at the network's end belong to the head.
    """

    layers: int = Field(default=1, gt=0)


def front(
    input_shape: tuple[int, ...],
    model: Choice,
    num_labels: Annotated[int, Field(ge=2)],
    layers: Annotated[int, Field(gt=0)],
) -> nn.Module:
    """The network without its last dense layers.

    Args:
        input_shape: shape of one input.
        model: the network.
        num_labels: how many labels it has.
        layers: how many dense layers at its end belong to the head.
    """
    network = models.build(model, input_shape, num_labels, 0)
    for name in _last_dense(network, layers):
        network.set_submodule(name, nn.Identity())
    return network


def divided(
    public: PublicModel, options: Mapping[str, Any], inputs: NDArray[np.generic], num_labels: int
) -> tuple[Choice, Arrays, Arrays]:
    """Divide a public model in two.

    Args:
        public: the model, with a card that names its network.
        options: the user's options.
        inputs: some inputs that no client owns.
        num_labels: L.

    Returns:
        The front as a choice with all its options, its weights, and those of the head as an ``mlp`` names them.
    """
    card = _card_for(public, inputs, num_labels)
    layers = checked_options(FrontOptions, "features 'front'", options).layers
    network = models.build(card.model, card.input_shape, num_labels, 0)
    names = _last_dense(network, layers)
    left = {name: array for name, array in public.arrays.items() if name.rpartition(".")[0] not in names}
    head = {
        f"layers.{1 + 2 * place}.{part}": public.arrays[f"{name}.{part}"]  # after Flatten, with ReLU between them
        for place, name in enumerate(names)
        for part in ("weight", "bias")
    }
    choice = Choice(
        name="front", options={"model": card.model.model_dump(mode="json"), "num_labels": num_labels, "layers": layers}
    )
    _check_parts(network, public, names, torch.tensor(inputs))
    return choice, left, head


def _card_for(public: PublicModel, inputs: NDArray[np.generic], num_labels: int) -> Card:
    if public.card is None:
        raise InputError(f"public model {public.name!r} has no card that names its network; features 'front' need one")
    if (public.card.input_shape, public.card.num_labels) != (inputs.shape[1:], num_labels):
        raise InputError(
            f"public model {public.name!r} is for inputs of shape {public.card.input_shape} and "
            f"{public.card.num_labels} labels, the data have {inputs.shape[1:]} and {num_labels}"
        )
    return public.card


def _check_parts(network: nn.Module, public: PublicModel, names: list[str], inputs: torch.Tensor) -> None:
    """Refuse a network that is more than its front followed by its last dense layers with ReLU between them."""
    network.load_state_dict({name: torch.tensor(array) for name, array in public.arrays.items()})
    with torch.no_grad():
        scores = network.eval()(inputs)
        dense = [network.get_submodule(name) for name in names]
        for name in names:
            network.set_submodule(name, nn.Identity())
        hidden = dense[0](network(inputs))
        for layer in dense[1:]:
            hidden = layer(functional.relu(hidden))
    if not torch.allclose(scores, hidden, 1e-3, 1e-3):
        raise InputError(f"public model {public.name!r} must end in dense layers with ReLU between them")


def _last_dense(network: nn.Module, layers: int) -> list[str]:
    names = [name for name, layer in network.named_modules() if isinstance(layer, nn.Linear)]
    check_range("option 'layers' of features 'front'", layers, 1, len(names), "the network's dense layers")
    return names[len(names) - layers :]
