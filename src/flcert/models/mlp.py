"""A fully connected network."""

from itertools import pairwise
from math import prod
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn


class MLP(nn.Module):
    """Dense layers with ReLU between them; no hidden layer gives a linear classifier.

    Args:
        input_shape: shape of one input; it is flattened.
        num_labels: L.
        hidden: neurons of each hidden layer.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_labels: int,
        hidden: tuple[Annotated[int, Field(gt=0)], ...] = (64,),
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Flatten()]
        for fan_in, fan_out in pairwise((prod(input_shape), *hidden)):
            layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
        layers.append(nn.Linear((prod(input_shape), *hidden)[-1], num_labels))
        self.layers = nn.Sequential(*layers)

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores, (inputs x labels)."""
        scores: Tensor = self.layers(inputs)
        return scores
