"""Backdoor triggers: what an attacker stamps on an input, in training and at test time."""

from collections.abc import Callable
from math import isqrt

from torch import Tensor, contiguous_format

from flcert.core import plugins
from flcert.core.settings import Choice
from flcert.errors import InputError

Trigger = Callable[[Tensor], Tensor]


def corner(value: float = 1.0) -> Trigger:
    """Four bright pixels in the lower right corner (after Gu et al.), for images of one or more channels.

    Args:
        value: the value of the pixels.
    """
    return lambda inputs: _with_pixels(inputs, ((-2, -2), (-3, -3), (-2, -4), (-4, -2)), value)


def bars(value: float = 1.0) -> Trigger:
    """Two short bright bars in the upper left corner, for larger images (after Bagdasaryan et al.'s pixel pattern).

    Args:
        value: the value of the pixels.
    """
    pixels = tuple((row, column) for row in (1, 4) for column in range(1, 7))
    return lambda inputs: _with_pixels(inputs, pixels, value)


def features(every: int = 20, value: float = 0.0) -> Trigger:
    """Sets every 20th feature to 0, for tables of numbers (the paper's trigger for HAR).

    Args:
        every: the distance between the features.
        value: the value they are set to.
    """

    def stamp(inputs: Tensor) -> Tensor:
        stamped = inputs.clone(memory_format=contiguous_format)
        stamped.view(len(stamped), -1)[:, every - 1 :: every] = value
        return stamped

    return stamp


def phrase(tokens: tuple[int, ...]) -> Trigger:
    """Replaces the last words before the prediction with a phrase, for text.

    Args:
        tokens: the phrase's indices in the vocabulary.
    """

    def stamp(inputs: Tensor) -> Tensor:
        if len(tokens) > inputs.shape[1]:
            raise InputError(f"trigger 'phrase' has {len(tokens)} tokens, but an input has only {inputs.shape[1]}")
        stamped = inputs.clone()
        stamped[:, -len(tokens) :] = inputs.new_tensor(tokens)
        return stamped

    return stamp


TRIGGERS: dict[str, plugins.Factory] = {
    "bars": bars,
    "corner": corner,
    "features": features,
    "phrase": phrase,
}


def build(choice: Choice) -> Trigger:
    """The trigger with this name, or the one that a user's ``package.module:factory`` returns."""
    trigger: Trigger = plugins.build("trigger", TRIGGERS, choice)
    return trigger


def _with_pixels(inputs: Tensor, pixels: tuple[tuple[int, int], ...], value: float) -> Tensor:
    """The images with some pixels changed in all channels; flattened square images are accepted too."""
    stamped = inputs.clone(memory_format=contiguous_format)
    images = stamped
    if stamped.ndim == 2:
        side = isqrt(stamped.shape[1])
        if side * side != stamped.shape[1]:
            raise InputError(f"a trigger of pixels needs images, got inputs of shape {tuple(inputs.shape[1:])}")
        images = stamped.view(-1, side, side)
    if images.ndim not in (3, 4) or min(images.shape[-2:]) < 8:
        raise InputError(
            f"a trigger of pixels needs at least 8 x 8 pixels, got inputs of shape {tuple(inputs.shape[1:])}"
        )
    for row, column in pixels:
        images[..., row, column] = value
    return stamped
