"""What the image sets have in common: a root set for the server, then clients by degree of non-iid."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flcert.datasets.federation import Federation
from flcert.datasets.partition import by_degree
from flcert.errors import check_range
from flcert.seeding import stream

Pixels = NDArray[np.uint8]


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
    train: tuple[Pixels, NDArray[np.uint8]]
    test: tuple[Pixels, NDArray[np.uint8]]
    label_names: tuple[str, ...]

    @property
    def num_labels(self) -> int:
        """L."""
        return len(self.label_names)


@dataclass(frozen=True)
class Deal:
    """How images are dealt out.

    Args:
        num_clients: n.
        degree: of non-iid, q.
        num_root: training examples that the server keeps, drawn before the others are dealt.
        num_train: training examples, those of the server included; None for all.
        num_test: test examples; None for all.
        seed: of the choice and the dealing.
    """

    num_clients: int
    degree: float
    num_root: int
    num_train: int | None
    num_test: int | None
    seed: int


def dealt(images: Images, deal: Deal) -> Federation:
    """The federation: each training image at the server or at one client, pixels divided by 255."""
    pixels, labels = images.train
    chosen = _chosen("num_train", len(labels), deal.num_train, deal.seed)
    check_range("num_root", deal.num_root, 0, len(chosen) - 1, "num_train - 1")
    root, rest = chosen[: deal.num_root], chosen[deal.num_root :]
    generator = stream(deal.seed, "data", "deal")
    shares = by_degree(labels[rest], deal.num_clients, deal.degree, images.num_labels, generator)
    owned = rest[np.concatenate(shares)]
    test = np.sort(_chosen("num_test", len(images.test[1]), deal.num_test, deal.seed))
    return Federation(
        name=images.name,
        ids=tuple(f"client-{position:04d}" for position in range(deal.num_clients)),
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


def _chosen(option: str, available: int, number: int | None, seed: int) -> NDArray[np.int64]:
    """This many different positions in random order."""
    size = available if number is None else check_range(option, number, 1, available, "number of examples")
    return stream(seed, "data", option).permutation(available)[:size]


def _scaled(pixels: Pixels) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = np.divide(pixels, np.float32(255), dtype=np.float32)
    return scaled
