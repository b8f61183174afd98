"""What the image sets have in common: a root set for the server, then clients by degree of non-iid."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flcert.core.seeding import stream
from flcert.datasets.dataset import Options
from flcert.datasets.federation import Federation
from flcert.datasets.partition import by_degree
from flcert.errors import check_range

Pixels = NDArray[np.uint8]
Labelled = tuple[Pixels, NDArray[np.uint8]]  # images and their labels


@dataclass(frozen=True)
class Images:
    """A published set of images, as bytes.

    Args:
        name: what to call it.
        train: pixels and labels of the training examples.
        test: pixels and labels of the test examples.
        label_names: what people call the labels.
    """

    name: str
    train: Labelled
    test: Labelled
    label_names: tuple[str, ...]

    @property
    def num_labels(self) -> int:
        """L."""
        return len(self.label_names)


class ImageOptions(Options):
    """Options of the image sets.

    Args:
        num_clients: n.
        degree: the degree of non-iid, q; 0.1 is iid.
        num_root: training examples that the server keeps for FLTrust, drawn before the others are dealt out.
        num_pilot: training examples that belong to nobody, neither a client nor the server: settings may be chosen on
            them. They depend on their number and the seed alone; ``pilot`` gives them.
        num_train: training examples besides those, a random choice that includes the server's; all by default.
        num_test: test examples, a random choice; all by default.
        seed: the seed of the choices and the dealing.
        data_dir: where ``flcert data get`` put the files; by default $FLCERT_DATA or the cache.
        check: False accepts other files of the same format; the federation's name then says "unchecked".
    """

    num_clients: int = 1000
    degree: float = 0.1
    num_root: int = 100
    num_pilot: int = 0
    num_train: int | None = None
    num_test: int | None = None
    seed: int = 0
    data_dir: Path | None = None
    check: bool = True


def dealt(images: Images, options: ImageOptions) -> Federation:
    """The federation: each training image goes to the server or to one client, with pixels divided by 255."""
    pixels, labels = images.train
    pilots = _pilots(len(labels), options)
    chosen = _chosen("num_train", len(labels), options.num_train, options.seed, without=pilots)
    check_range("num_root", options.num_root, 0, len(chosen) - 1, "num_train - 1")
    root, rest = chosen[: options.num_root], chosen[options.num_root :]
    generator = stream(options.seed, "data", "deal")
    shares = by_degree(labels[rest], options.num_clients, options.degree, images.num_labels, generator)
    owned = rest[np.concatenate(shares)]
    test = np.sort(_chosen("num_test", len(images.test[1]), options.num_test, options.seed))
    return Federation(
        name=images.name,
        ids=tuple(f"client-{position:04d}" for position in range(options.num_clients)),
        inputs=_scaled(pixels[owned]),
        labels=labels[owned].astype(np.int64),
        offsets=np.cumsum([0, *map(len, shares)]).astype(np.int64),
        test_inputs=_scaled(images.test[0][test]),
        test_labels=images.test[1][test].astype(np.int64),
        num_labels=images.num_labels,
        root_inputs=_scaled(pixels[root]),
        root_labels=labels[root].astype(np.int64),
        label_names=images.label_names,
        image_shape=pixels.shape[1:],
    )


def pilot(images: Images, options: ImageOptions) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Inputs and labels of the training examples that ``dealt`` gives to nobody, in random order."""
    pixels, labels = images.train
    pilots = _pilots(len(labels), options)
    return _scaled(pixels[pilots]), labels[pilots].astype(np.int64)


def _pilots(available: int, options: ImageOptions) -> NDArray[np.int64]:
    """The positions of the pilot examples, in random order."""
    check_range("num_pilot", options.num_pilot, 0, available - 1, "number of examples - 1")
    return stream(options.seed, "data", "pilot").permutation(available)[: options.num_pilot]


def _chosen(
    option: str, available: int, number: int | None, seed: int, without: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """This many different positions in random order, and none of some others."""
    order = stream(seed, "data", option).permutation(available)
    left = order if without is None else order[np.isin(order, without, invert=True)]
    return left if number is None else left[: check_range(option, number, 1, len(left), "number of examples")]


def _scaled(pixels: Pixels) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = np.divide(pixels, np.float32(255), dtype=np.float32)
    return scaled
