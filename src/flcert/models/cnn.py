"""The convolutional network of the paper's MNIST experiments."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from flcert.errors import InputError


class CNN(nn.Module):
    """conv 3x3x30, ReLU, max-pool 2, conv 3x3x50, ReLU, max-pool 2, dense 100, ReLU, dense L; no padding.

    Three changes leave the function as it is and make a training step on a CPU much faster: the channels-last
    layout; pooling before the ReLU, since both are monotone; and leaving out the rows and columns at the far edges of
    the image that the second pooling drops (26 x 26 of an image of 28 x 28 pixels reach the dense layers).

    Args:
        input_shape: (height, width) or (channels, height, width).
        num_labels: L.
    """

    def __init__(self, input_shape: tuple[int, ...], num_labels: int) -> None:
        super().__init__()
        if len(input_shape) not in (2, 3) or min(input_shape[-2:]) < 10:
            raise InputError(f"model 'cnn' needs images of at least 10 x 10 pixels, got input shape {input_shape}")
        channels = input_shape[0] if len(input_shape) == 3 else 1
        self.image_shape = (channels, *input_shape[-2:])
        height, width = (((side - 2) // 2 - 2) // 2 for side in input_shape[-2:])
        self.used = (4 * height + 6, 4 * width + 6)
        self.conv1 = nn.Conv2d(channels, 30, kernel_size=3)
        self.conv2 = nn.Conv2d(30, 50, kernel_size=3)
        self.dense1 = nn.Linear(50 * height * width, 100)
        self.dense2 = nn.Linear(100, num_labels)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores, (inputs x labels)."""
        height, width = self.used
        images = inputs.reshape(len(inputs), *self.image_shape)[..., :height, :width]
        hidden = self.conv1(images.contiguous(memory_format=torch.channels_last))
        hidden = self.conv2(functional.max_pool2d(hidden, 2).relu_())
        hidden = functional.max_pool2d(hidden, 2).relu_()
        hidden = self.dense1(hidden.flatten(1)).relu_()
        scores: Tensor = self.dense2(hidden)
        return scores
