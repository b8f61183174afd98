"""A small convolutional network that learns from few pictures."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from flcert.errors import InputError


class SmallCNN(nn.Module):
    """conv 5x5x16, ReLU, max-pool 2, conv 5x5x32, ReLU, max-pool 2, dense 64, ReLU, dense L; no padding.

    It pools before the ReLU and uses the channels-last layout, as ``CNN`` does, to be fast on a CPU.

    Args:
        input_shape: (height, width) or (channels, height, width).
        num_labels: L.
    """

    def __init__(self, input_shape: tuple[int, ...], num_labels: int) -> None:
        super().__init__()
        if len(input_shape) not in (2, 3) or min(input_shape[-2:]) < 16:
            rule = "model 'small-cnn' needs images of at least 16 x 16 pixels"
            raise InputError(f"{rule}, got input shape {input_shape}")
        channels = input_shape[0] if len(input_shape) == 3 else 1
        self.image_shape = (channels, *input_shape[-2:])
        height, width = (((side - 4) // 2 - 4) // 2 for side in input_shape[-2:])
        self.conv1 = nn.Conv2d(channels, 16, kernel_size=5)
        self.conv2 = nn.Conv2d(16, 32, kernel_size=5)
        self.dense1 = nn.Linear(32 * height * width, 64)
        self.dense2 = nn.Linear(64, num_labels)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores, (inputs x labels)."""
        images = inputs.reshape(len(inputs), *self.image_shape)
        hidden = self.conv1(images.contiguous(memory_format=torch.channels_last))
        hidden = self.conv2(functional.max_pool2d(hidden, 2).relu_())
        hidden = functional.max_pool2d(hidden, 2).relu_()
        hidden = self.dense1(hidden.flatten(1)).relu_()
        scores: Tensor = self.dense2(hidden)
        return scores
