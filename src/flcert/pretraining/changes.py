"""Variations of strokes: where they run, how wide they are, how sharp and how bright."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Generator, Tensor
from torch.nn import functional

from flcert.core.settings import Strict
from flcert.pretraining.ink import SIDE, drawn
from flcert.training.augmentation import affine

Range = tuple[Annotated[float, Field(gt=0)], float]

_OUTSIDE = 8.0  # added to the distances before they are moved, since pixels from outside the picture are 0


class Changes(Strict):
    """How far strokes are varied; each picture draws its own variation.

    Args:
        rotation: up to this many degrees either way.
        scale: up to this share larger or smaller, independently in each direction.
        shear: up to this much either way.
        shift: up to this many pixels either way, in each direction.
        bend: the typical shift of a point against its neighbourhood, in pixels.
        knots: points in each direction that are shifted independently; the others follow smoothly.
        width: half of the width of strokes, in pixels, from and to.
        softness: pixels over which an edge fades, from and to.
        brightness: the largest pixel, from and to.
    """

    rotation: float = 15.0
    scale: float = 0.15
    shear: float = 0.3
    shift: float = 2.0
    bend: float = 1.0
    knots: int = 5
    width: Range = (0.7, 2.2)
    softness: Range = (0.8, 2.5)
    brightness: Range = (0.8, 1.0)


def varied(changes: Changes, distances: Tensor, widths: Tensor, generator: Generator) -> Tensor:
    """Pictures of the same strokes, varied; the same generator gives the same variations.

    Args:
        changes: how far.
        distances: as in ``Ink``.
        widths: as in ``Ink``.
        generator: draws everything.
    """
    move = affine(changes.rotation, changes.scale, changes.shear, changes.shift)
    moved = move(_bent(changes, distances + _OUTSIDE, generator), generator) - _OUTSIDE
    width, softness, brightness = (
        low + (high - low) * torch.rand(len(distances), 1, 1, generator=generator)
        for low, high in (changes.width, changes.softness, changes.brightness)
    )
    return drawn(moved + width - widths[:, None, None], softness) * brightness


def _bent(changes: Changes, images: Tensor, generator: Generator) -> Tensor:
    """Each picture with its points shifted smoothly."""
    shifts = torch.randn(len(images), 2, changes.knots, changes.knots, generator=generator) * changes.bend
    field = functional.interpolate(shifts, size=(SIDE, SIDE), mode="bicubic", align_corners=True)
    places = functional.affine_grid(torch.eye(2, 3)[None], [1, 1, SIDE, SIDE], align_corners=False)
    grid = places + field.permute(0, 2, 3, 1) * (2 / SIDE)
    return functional.grid_sample(images[:, None], grid, align_corners=False)[:, 0]
