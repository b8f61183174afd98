"""Digits as ink: for each pixel its distance to the edge of the strokes, from which strokes of any width are drawn.

The pictures look as MNIST describes its own: white strokes on black, scaled to a box of 20 x 20 pixels without changing
their proportions, in a picture of 28 x 28 pixels whose middle is their centre of mass.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.ndimage import distance_transform_edt
from torch import Tensor

SIDE, BOX = 28, 20  # pixels of a picture, and of the box that its strokes fill
FINE = 3  # bitmaps are this much finer than pictures, in each direction

Bitmap = NDArray[np.bool_]


@dataclass(frozen=True)
class Ink:
    """Strokes with their labels.

    Args:
        distances: the distance of each pixel to the nearest edge in pixels, positive inside, (pictures x 28 x 28).
        widths: half of the mean width of each picture's strokes, in pixels.
        labels: the labels.
    """

    distances: NDArray[np.float32]
    widths: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: NDArray[np.integer]) -> "Ink":
        return Ink(self.distances[rows], self.widths[rows], self.labels[rows])

    def pictures(self) -> NDArray[np.float32]:
        """The strokes as they are, with pixels in [0, 1]."""
        pictures: NDArray[np.float32] = np.clip(self.distances + np.float32(0.5), 0, 1)
        return pictures


def drawn(distances: Tensor, softness: Tensor) -> Tensor:
    """Pictures of strokes whose edges fade over ``softness`` pixels."""
    return (distances / softness + 0.5).clamp(0, 1)


def joined(inks: Iterable[Ink]) -> Ink:
    """All of them, one after the other."""
    parts = list(inks)
    return Ink(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("distances", "widths", "labels")))


def ink(bitmaps: Iterable[Bitmap], labels: NDArray[np.integer]) -> Ink:
    """Ink from bitmaps of any size, each with at least one pixel set."""
    measured = [_measured(_framed(bitmap)) for bitmap in bitmaps]
    distances, widths = (np.array(values, dtype=np.float32) for values in zip(*measured, strict=True))
    return Ink(distances, widths, np.asarray(labels, dtype=np.int64))


def _framed(bitmap: Bitmap) -> Bitmap:
    """The bitmap scaled to the box, with its centre of mass in the middle of the picture."""
    rows, columns = np.flatnonzero(bitmap.any(axis=1)), np.flatnonzero(bitmap.any(axis=0))
    cut = bitmap[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    scale = BOX * FINE / max(cut.shape)
    size = [max(1, round(side * scale)) for side in cut.shape[::-1]]
    scaled = np.asarray(Image.fromarray(cut.astype(np.uint8) * 255).resize(size, Image.Resampling.BILINEAR)) > 127
    canvas = np.zeros((SIDE * FINE, SIDE * FINE), dtype=bool)
    if not scaled.any():
        scaled = np.ones_like(scaled)
    place = [round(len(canvas) / 2 - middle - 0.5) for middle in np.argwhere(scaled).mean(axis=0)]
    top, left = (min(max(0, at), len(canvas) - side) for at, side in zip(place, scaled.shape, strict=True))
    canvas[top : top + scaled.shape[0], left : left + scaled.shape[1]] = scaled
    return canvas


def _measured(bitmap: Bitmap) -> tuple[NDArray[np.float32], float]:
    """The signed distances at the scale of pictures, and half of the strokes' mean width."""
    inside = distance_transform_edt(bitmap)
    signed = (inside - distance_transform_edt(~bitmap)) / FINE
    width = 2 * (inside[bitmap].mean() - 0.5) / FINE
    return signed.reshape(SIDE, FINE, SIDE, FINE).mean(axis=(1, 3)), width
