"""A fully connected network."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from math import prod
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from flcert.models.stacking import SEATS, aligned

MANY_SEATS = 256
"""How many heads are asked in one pass: they are small, and calls would cost more than their products."""


class MLP(nn.Module):
    """Dense layers with ReLU between them; no hidden layer gives a linear classifier.

    Args:
        input_shape: shape of one input; it is flattened.
        num_labels: L.
        hidden: neurons of each hidden layer.
        zero: whether the last layer starts at zero, so that all labels have the same score at first.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_labels: int,
        hidden: tuple[Annotated[int, Field(gt=0)], ...] = (64,),
        zero: bool = False,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Flatten()]
        for fan_in, fan_out in pairwise((prod(input_shape), *hidden)):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
        layers.append(nn.Linear((prod(input_shape), *hidden)[-1], num_labels))
        self.layers = nn.Sequential(*layers)
        self.seats = SEATS
        if zero:
            for parameter in self.layers[-1].parameters():
                nn.init.zeros_(parameter)

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores, (inputs x labels)."""
        scores: Tensor = self.layers(inputs)
        return scores

    def stacked(self, weights: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
        """Many models at once, see ``models.Stackable``: each layer is one batched product."""
        names = [name for name, layer in self.layers.named_children() if isinstance(layer, nn.Linear)]
        dense = [aligned(weights[f"layers.{name}.weight"].transpose(1, 2), 1, 2) for name in names]
        biases = [aligned(weights[f"layers.{name}.bias"][:, None], 2) for name in names]
        num_labels = weights[f"layers.{names[-1]}.bias"].shape[1]

        def scores(example: Tensor) -> Tensor:
            row = aligned(example.reshape(1, 1, -1), 2).expand(len(dense[0]), -1, -1)
            hidden = torch.baddbmm(biases[0], row, dense[0])
            for weight, bias in zip(dense[1:], biases[1:], strict=True):
                hidden = torch.baddbmm(bias, hidden.relu_(), weight)
            return hidden[:, 0, :num_labels]

        return scores


def linear(input_shape: tuple[int, ...], num_labels: int, zero: bool = False) -> MLP:
    """One dense layer, the usual head on public features.

    Args:
        input_shape: shape of one input; it is flattened.
        num_labels: L.
        zero: whether it starts at zero.
    """
    head = MLP(input_shape, num_labels, hidden=(), zero=zero)
    head.seats = MANY_SEATS
    return head
