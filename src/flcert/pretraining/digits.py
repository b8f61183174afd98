"""Public sources of digits, drawn as ink."""

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter

from flcert.core.seeding import stream
from flcert.datasets import DATASETS
from flcert.datasets.catalogue import Source
from flcert.datasets.handwriting import FONTS, PEN
from flcert.pretraining.ink import Bitmap, Ink, ink


@dataclass(frozen=True)
class Drawn:
    """The digits of one source.

    Args:
        name: its short name.
        title: what it is.
        licence: under which terms it may be used.
        ink: the digits.
        together: how many neighbours belong together, such as the digits of one font; all or none are held out.
        files: the names of the files they were made from.
    """

    name: str
    title: str
    licence: str
    ink: Ink
    together: int = 1
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Addition:
    """Something that ``flcert pretrain --with`` adds.

    Args:
        source: its files.
        draw: makes the digits from the contents of the files.
        replaces: names of drawn sources that it contains.
    """

    source: Source
    draw: Callable[[Mapping[str, bytes]], tuple[Drawn, ...]]
    replaces: tuple[str, ...] = ()


@cache
def scikit_learn() -> Drawn:
    """The digits that come with scikit-learn; they take a few seconds to draw."""
    from sklearn.datasets import load_digits  # slow to import, so only where it is needed

    bunch, known = load_digits(), DATASETS["digits"]
    return Drawn("scikit-learn", known.title, known.licence, _scans(bunch.images, bunch.target))


def _pen(files: Mapping[str, bytes]) -> tuple[Drawn, ...]:
    points, labels = _table(files["penbased.dat"])
    strokes = ink(map(_stroke, points.reshape(-1, 8, 2), _proportions(labels)), labels)
    scans, scanned = _table(files["optdigits.dat"])
    return (
        Drawn("pen strokes", "digits as pen strokes (UCI pendigits)", PEN.licence, strokes, files=("penbased.dat",)),
        Drawn(
            "scans",
            "scanned digits, 8 x 8 pixels (UCI optdigits)",
            PEN.licence,
            _scans(scans.reshape(-1, 8, 8), scanned),
            files=("optdigits.dat",),
        ),
    )


def _fonts(files: Mapping[str, bytes]) -> tuple[Drawn, ...]:
    bitmaps = (bitmap for content in files.values() for bitmap in _written(content))
    digits = ink(bitmaps, np.tile(np.arange(10), len(files)))
    return (Drawn("fonts", FONTS.title, FONTS.licence, digits, together=10, files=tuple(files)),)


ADDITIONS: dict[str, Addition] = {
    "pen": Addition(PEN, _pen, replaces=("scikit-learn",)),
    "fonts": Addition(FONTS, _fonts),
}
"""What can be added to scikit-learn's digits, in the order in which names of the catalogue have it."""


def _table(content: bytes) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The rows of a file of whole numbers without their last column, and that column."""
    rows = np.loadtxt(io.BytesIO(content), delimiter=",", dtype=np.int64)
    return rows[:, :-1].astype(np.float64), rows[:, -1]


def _scans(images: NDArray[np.float64], labels: NDArray[np.int64]) -> Ink:
    """Ink of pictures of 8 x 8 pixels from 0 to 16, sharpened so that small loops stay open."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    sharp = 2 * padded - gaussian_filter(padded, sigma=(0, 1, 1))
    return ink(map(_enlarged, sharp.astype(np.float32)), labels)


def _enlarged(image: NDArray[np.float32]) -> Bitmap:
    """The strokes of a picture at ten times its size."""
    fine = np.asarray(Image.fromarray(image).resize((100, 100), Image.Resampling.BICUBIC))
    found: Bitmap = fine > min(8, fine.max() / 2)
    return found


def _proportions(labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """A width for each digit, as a share of its height: the file has all digits stretched to squares."""
    drawn = stream(0, "pen strokes", "proportions").random(len(labels))
    return np.where(labels == 1, 0.1 + 0.4 * drawn, 0.5 + 0.45 * drawn)


def _stroke(points: NDArray[np.float64], proportion: float) -> Bitmap:
    """A smooth stroke through points from 0 to 100, the first coordinate from left to right, the second upwards."""
    places = _smooth((points * [1, -1] + [0, 100]) * [0.8 * proportion, 0.8] + 20)
    image = Image.new("L", (120, 120))
    pen = ImageDraw.Draw(image)
    pen.line([(x, y) for x, y in places], fill=255, width=9, joint="curve")
    for x, y in places[[0, -1]]:
        pen.ellipse((x - 4, y - 4, x + 4, y + 4), fill=255)
    return np.asarray(image) > 0


def _smooth(points: NDArray[np.float64], steps: int = 8) -> NDArray[np.float64]:
    """A Catmull-Rom spline through the points."""
    ends = np.vstack([2 * points[0] - points[1], points, 2 * points[-1] - points[-2]])
    a, b, c, d = (ends[shift : len(ends) - 3 + shift, None] for shift in range(4))
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    curve = b + t / 2 * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))
    return np.vstack([curve.reshape(-1, 2), points[-1]])


def _written(content: bytes) -> Iterator[Bitmap]:
    """The ten digits in a font."""
    font = ImageFont.truetype(io.BytesIO(content), 100)
    for digit in "0123456789":
        left, top, right, bottom = font.getbbox(digit)
        image = Image.new("L", (int(right - left) + 10, int(bottom - top) + 10))
        ImageDraw.Draw(image).text((5 - left, 5 - top), digit, fill=255, font=font)
        yield np.asarray(image) > 127
