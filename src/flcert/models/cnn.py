"""The convolutional network of the paper's MNIST experiments."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from flcert.errors import InputError
from flcert.models.stacking import aligned


class CNN(nn.Module):
    """conv 3x3x30, ReLU, max-pool 2, conv 3x3x50, ReLU, max-pool 2, dense 100, ReLU, dense L; no padding.

    Three changes make a training step on a CPU much faster and do not change the function: the channels-last
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

    def stacked(self, weights: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
        """Many models at once, see ``models.Stackable``: each convolution is one batched product with image patches."""
        count, channels, (height, width) = len(weights["conv1.bias"]), self.image_shape[0], self.used
        first = aligned(weights["conv1.weight"].reshape(count, 30, channels * 9).transpose(1, 2), 1)
        second = aligned(weights["conv2.weight"].permute(0, 3, 4, 2, 1).reshape(count, 270, 50), 1)[:, :270]
        shape = (count, 100, 50, (height - 6) // 4, (width - 6) // 4)  # the image ends in 50 maps of this size
        dense1 = aligned(weights["dense1.weight"].reshape(shape).permute(0, 3, 4, 2, 1).reshape(count, -1, 100), 1, 2)
        dense2 = aligned(weights["dense2.weight"].transpose(1, 2), 1, 2)
        biases = [aligned(weights[f"{name}.bias"][:, None], 2) for name in ("conv1", "conv2", "dense1", "dense2")]
        num_labels = weights["dense2.bias"].shape[1]

        def scores(example: Tensor) -> Tensor:
            image = example.reshape(self.image_shape)[:, :height, :width]
            patches = image.unfold(1, 3, 1).unfold(2, 3, 1).permute(1, 2, 0, 3, 4).reshape(1, -1, channels * 9)
            hidden = torch.baddbmm(biases[0][..., :30], aligned(patches, 2).expand(count, -1, -1), first)
            hidden = _pooled(hidden.view(count, height - 2, width - 2, 30)).relu_()
            hidden = torch.baddbmm(biases[1][..., :50], _patches(hidden), second)
            hidden = hidden[:, : (height // 2 - 3) * (width // 2 - 3)]
            hidden = _pooled(hidden.view(count, height // 2 - 3, width // 2 - 3, 50)).relu_()
            hidden = torch.baddbmm(biases[2], aligned(hidden.view(count, 1, -1), 2), dense1).relu_()
            return torch.baddbmm(biases[3], hidden, dense2)[:, 0, :num_labels]

        return scores


def _pooled(maps: Tensor) -> Tensor:
    """The largest value in each 2 x 2 pixels of (models x height x width x channels)."""
    rows = torch.maximum(maps[:, 0::2], maps[:, 1::2])
    return torch.maximum(rows[:, :, 0::2], rows[:, :, 1::2])


def _patches(maps: Tensor) -> Tensor:
    """All 3 x 3 patches of (models x height x width x channels), (models x patches x 9 channels).

    Rows of zeros follow, so that the matrices of all models start at multiples of 64 bytes.
    """
    count, height, width, channels = maps.shape
    model, row, pixel, _ = maps.stride()
    shape = (count, height - 2, width - 2, 3, 3 * channels)
    rows = shape[1] * shape[2]
    patches = maps.new_zeros(count, rows + -rows % 8, 9 * channels)
    patches[:, :rows].view(shape).copy_(maps.as_strided(shape, (model, row, pixel, row, 1)))
    return patches
