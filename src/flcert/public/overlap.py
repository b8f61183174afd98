"""Whether inputs are among those that a public model was trained on.

A public model that has seen the test set makes every accuracy too good, and one that has seen clients' examples is not
public. Its file keeps a thumbnail of each training input, and the thumbnails of other inputs are compared with them.

Pictures are first moved and scaled so that their brightness has its centre and its spread in the same places; so a copy
that was shifted, rescaled or compressed still has nearly the same thumbnail. Different people write digits that look
much alike, so an absolute measure would not do: an input matches if one thumbnail is far nearer than the others.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from flcert.core.determinism import one_thread
from flcert.core.digest import digest
from flcert.public.model import PublicModel

ALLOWED = 0.01
"""The share of inputs with a match above which a model should not be used with them."""

OVERLAP_VERSION = 1  # raise it whenever the same inputs could be counted differently
RIVAL = 5  # the nearest thumbnail is compared with the one of this rank: a source may hold an example a few times
NEARER = 0.2  # a match is at most this much as far away as that rival, ...
ALIKE = 0.9  # ... and has at least this cosine;
SAME = 0.998  # with this cosine it is a match whatever the others are

SIDE = 14  # pixels of a picture's thumbnail, in each direction
REACH = 1.9  # how far a thumbnail reaches from the middle, in standard deviations of the brightness
FEWEST = 32  # inputs of fewer numbers, and words, match only if they are equal
MOST = 20_000  # thumbnails of a model; of more inputs, evenly spaced ones are kept

_BLOCK = 2_000  # inputs that are compared at a time
_DIGEST = 8  # bytes that stand for an input which must be equal to match

Inputs = NDArray[np.generic]
Thumbnails = NDArray[np.uint8]


@dataclass(frozen=True)
class Overlap:
    """How many inputs were found among those that a public model was trained on.

    Args:
        examined: how many inputs were looked up.
        matches: how many of them have a near-duplicate; None if it could not be checked, since the model's file has no
            fingerprints, or only of another kind of inputs.
        allowed: the share of matches up to which the model may be used with them: honest data match by chance.
    """

    examined: int
    matches: int | None
    allowed: float = ALLOWED

    @property
    def share(self) -> float | None:
        """The share of matches; None if it could not be checked."""
        return None if self.matches is None else self.matches / max(1, self.examined)

    @property
    def too_much(self) -> bool:
        """Whether there are more matches than chance explains."""
        return self.share is not None and self.share > self.allowed


def overlap(model: PublicModel, inputs: Inputs) -> Overlap:
    """Count the inputs that have a near-duplicate among those that the model was trained on.

    Args:
        model: the public model, with its fingerprints.
        inputs: the test inputs of a federation, or its clients' inputs.
    """
    known = model.fingerprints
    if known is None or len(known) == 0:
        return Overlap(len(inputs), None)
    with one_thread():
        blocks = [_thumbnails(inputs[start : start + _BLOCK]) for start in range(0, len(inputs), _BLOCK)]
        if any(block.shape[1:] != known.shape[1:] for block in blocks):
            return Overlap(len(inputs), None)
        if known.shape[1:] == (_DIGEST,):
            there = {bytes(row) for row in known}
            return Overlap(len(inputs), sum(bytes(row) in there for block in blocks for row in block))
        mean = known.reshape(len(known), -1).mean(axis=0, dtype=np.float64)
        towards = _directions(known, mean).T
        matches = (_matching(_directions(block, mean) @ towards) for block in blocks)
        return Overlap(len(inputs), sum(int(found.sum()) for found in matches))


def fingerprints(inputs: Inputs) -> Thumbnails:
    """The thumbnails that a public model's file keeps of the inputs that it was trained on."""
    kept = inputs[:: max(1, -(-len(inputs) // MOST))]
    with one_thread():
        return np.concatenate([_thumbnails(kept[start : start + _BLOCK]) for start in range(0, len(kept), _BLOCK)])


def _matching(cosines: Tensor) -> Tensor:
    """Which rows have a match, from their cosines with all fingerprints."""
    nearest = cosines.topk(min(RIVAL, cosines.shape[1]), dim=1).values.double()
    best, rival = nearest[:, 0], nearest[:, -1]
    alone = (best >= ALIKE) & (1 - best <= NEARER * (1 - rival))
    return alone & (cosines.shape[1] >= RIVAL) | (best >= SAME)


def _directions(thumbnails: Thumbnails, mean: NDArray[np.float64]) -> Tensor:
    """Unit vectors from the mean thumbnail to each of them."""
    rows = torch.from_numpy((thumbnails.reshape(len(thumbnails), -1) - mean).astype(np.float32))
    return functional.normalize(rows, dim=1)


def _thumbnails(inputs: Inputs) -> Thumbnails:
    """Pictures as (inputs x 14 x 14), other numbers as (inputs x numbers), words and few numbers as digests."""
    flat = inputs.reshape(len(inputs), -1)
    if not np.issubdtype(inputs.dtype, np.floating) or flat.shape[1] < FEWEST:
        digests = "".join(digest(row.tobytes(), _DIGEST) for row in flat)
        return np.frombuffer(bytes.fromhex(digests), dtype=np.uint8).reshape(-1, _DIGEST)
    values = torch.from_numpy(inputs.astype(np.float32))
    small = _framed(values) if inputs.ndim in (3, 4) else _shortened(values.flatten(1))
    low, high = (part.reshape(-1, *[1] * (small.ndim - 1)) for part in small.flatten(1).aminmax(dim=1))
    scaled: Thumbnails = (255 * (small - low) / (high - low).clamp_min(1e-12)).round().to(torch.uint8).numpy()
    return scaled


def _shortened(rows: Tensor) -> Tensor:
    """Rows of at most as many numbers as a thumbnail has pixels: means of neighbours."""
    return functional.adaptive_avg_pool1d(rows[:, None], min(rows.shape[1], SIDE**2))[:, 0]


def _framed(pictures: Tensor) -> Tensor:
    """Thumbnails with the centre of brightness in the middle, and always the same spread around it."""
    grey = pictures.abs() if pictures.ndim == 3 else pictures.abs().mean(dim=1)
    weights = grey / grey.sum(dim=(1, 2), keepdim=True).clamp_min(1e-12)
    middles, spread = [], torch.zeros(len(grey))
    for axis, size in ((1, grey.shape[2]), (2, grey.shape[1])):  # across, then down; from -1 to 1
        places = (2 * torch.arange(size) + 1) / size - 1
        along = weights.sum(dim=axis)
        middle = (along * places).sum(dim=1)
        spread += (along * (places - middle[:, None]) ** 2).sum(dim=1) * (size / 2) ** 2
        middles.append(middle)
    reach = REACH * spread.sqrt().clamp_min(0.5)
    maps = torch.zeros(len(grey), 2, 3)
    maps[:, 0, 0], maps[:, 1, 1] = reach * 2 / grey.shape[2], reach * 2 / grey.shape[1]
    maps[:, 0, 2], maps[:, 1, 2] = middles
    grid = functional.affine_grid(maps, [len(grey), 1, 2 * SIDE, 2 * SIDE], align_corners=False)
    return functional.avg_pool2d(functional.grid_sample(grey[:, None], grid, align_corners=False), 2)[:, 0]
