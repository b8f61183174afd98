"""Local augmentation: a client changes its examples at random each time it trains on them."""

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Annotated

import torch
from pydantic import Field
from torch import Generator, Tensor
from torch.nn import functional

from flcert.core import plugins
from flcert.core.settings import Choice
from flcert.errors import InputError

Augmentation = Callable[[Tensor, Generator], Tensor]  # a batch of inputs and the stream of this client and round

Share = Annotated[float, Field(ge=0, lt=1)]


def affine(
    rotation: Annotated[float, Field(ge=0, le=180)] = 15.0,
    scale: Share = 0.15,
    shear: Share = 0.2,
    shift: Annotated[float, Field(ge=0)] = 2.0,
) -> Augmentation:
    """Rotate, scale, shear and shift each picture at random; pixels from outside the picture are 0.

    Args:
        rotation: up to this many degrees either way.
        scale: up to this share larger or smaller, independently in each direction.
        shear: up to this much either way.
        shift: up to this many pixels either way, in each direction.
    """
    reach = _Reach(rotation * pi / 180, scale, shear, shift)

    def change(inputs: Tensor, generator: Generator) -> Tensor:
        if inputs.ndim not in (3, 4) or not inputs.is_floating_point():
            raise InputError(f"augmentation 'affine' needs pictures, got inputs of shape {tuple(inputs.shape[1:])}")
        images = inputs[:, None] if inputs.ndim == 3 else inputs
        grid = functional.affine_grid(reach.maps(images, generator), list(images.shape), align_corners=False)
        return functional.grid_sample(images, grid, align_corners=False).reshape(inputs.shape)

    return change


@dataclass(frozen=True)
class _Reach:
    """The largest changes to a picture; angles in radians, shifts in pixels."""

    angle: float
    scale: float
    shear: float
    shift: float

    def maps(self, images: Tensor, generator: Generator) -> Tensor:
        """One map per picture, from places in the result to places in the picture, (pictures x 2 x 3)."""
        drawn = 2 * torch.rand(len(images), 6, generator=generator) - 1
        angle, slant = self.angle * drawn[:, 0], self.shear * drawn[:, 3]
        wide, high = (1 + self.scale * drawn[:, 1:3]).unbind(dim=1)
        across, down = (2 * self.shift * drawn[:, 4:] / torch.tensor(images.shape[:1:-1])).unbind(dim=1)
        cosine, sine = angle.cos(), angle.sin()
        rows = (
            (cosine / wide, (slant * cosine - sine) / high, across),
            (sine / wide, (slant * sine + cosine) / high, down),
        )
        return torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)


AUGMENTATIONS: dict[str, plugins.Factory] = {"affine": affine}


def build(choice: Choice) -> Augmentation:
    """The augmentation with this name, or the one that a user's ``package.module:factory`` returns.

    Each client gets a new one in each round, so any state it keeps reaches nobody else.
    """
    augmentation: Augmentation = plugins.build("augmentation", AUGMENTATIONS, choice)
    return augmentation
