"""A model that draws from every process-wide generator, and insists on one thread."""

import random

import numpy as np
import torch
from torch import Tensor, nn


class NoisyNet(nn.Module):
    """Dropout, noise from three generators in training, and a projection that is no part of the state."""

    def __init__(self, input_shape: tuple[int, ...], num_labels: int) -> None:
        super().__init__()
        self.projection = torch.tensor(np.random.normal(size=(input_shape[0], 12)), dtype=torch.float32)  # noqa: NPY002
        self.shift = random.random() + torch.rand(1)
        self.dropout = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(12)
        self.scores = nn.Linear(12, num_labels)

    def forward(self, inputs: Tensor) -> Tensor:
        if torch.get_num_threads() != 1 and torch.is_inference_mode_enabled():
            raise RuntimeError("more than one thread")
        hidden = self.norm(inputs @ self.projection + self.shift)
        if self.training:
            hidden = hidden + 0.01 * (random.random() + np.random.random())  # noqa: NPY002
        return self.scores(self.dropout(hidden))


def plain_convolutions(input_shape: tuple[int, ...], num_labels: int) -> nn.Module:
    """Convolutions that run in whatever memory layout their inputs have."""
    first = nn.Conv2d(input_shape[0], 16, 3)
    return nn.Sequential(
        first, nn.ReLU(), nn.Conv2d(16, 16, 3), nn.Flatten(), nn.Linear(16 * (input_shape[1] - 4) ** 2, num_labels)
    )
