"""ResNet20 for images of 32 x 32 pixels (He et al., "Deep Residual Learning", section 4.2)."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from flcert.errors import InputError


class ResNet20(nn.Module):
    """A convolution, three stages of three residual blocks with 16, 32 and 64 channels, mean pooling, a dense layer.

    Args:
        input_shape: (channels, height, width), at least 8 x 8 pixels.
        num_labels: L.
    """

    def __init__(self, input_shape: tuple[int, ...], num_labels: int) -> None:
        super().__init__()
        if len(input_shape) != 3 or min(input_shape[1:]) < 8:
            raise InputError(
                "model 'resnet20' needs inputs of shape (channels, height, width) with at least 8 x 8 pixels, "
                f"got {input_shape}"
            )
        self.conv = nn.Conv2d(input_shape[0], 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        widths = (16, 16, 16, 16, 32, 32, 32, 64, 64, 64)
        self.blocks = nn.Sequential(*(Block(fan_in, fan_out) for fan_in, fan_out in pairwise(widths)))
        self.dense = nn.Linear(64, num_labels)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores, (inputs x labels)."""
        images = inputs.contiguous(memory_format=torch.channels_last)
        hidden = self.blocks(self.norm(self.conv(images)).relu_())
        scores: Tensor = self.dense(hidden.mean(dim=(2, 3)))
        return scores


class Block(nn.Module):
    """Two convolutions and a shortcut without parameters: it skips pixels and adds channels of zeros."""

    def __init__(self, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.stride = 1 if fan_in == fan_out else 2
        self.added = fan_out - fan_in
        self.conv1 = nn.Conv2d(fan_in, fan_out, 3, stride=self.stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(fan_out)
        self.conv2 = nn.Conv2d(fan_out, fan_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(fan_out)

    def forward(self, inputs: Tensor) -> Tensor:
        """The block's output."""
        hidden = self.norm2(self.conv2(self.norm1(self.conv1(inputs)).relu_()))
        shortcut = inputs[:, :, :: self.stride, :: self.stride]
        output: Tensor = (hidden + functional.pad(shortcut, (0, 0, 0, 0, 0, self.added))).relu_()
        return output
