"""MNIST and Fashion-MNIST: images of 28 x 28 pixels in IDX files."""

from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flcert.datasets.federation import Federation
from flcert.datasets.images import Deal, Images, dealt
from flcert.datasets.sources import read_files, titled
from flcert.errors import InputError

CLOTHES = "T-shirt,trousers,pullover,dress,coat,sandal,shirt,trainer,bag,ankle boot"
LABELS = {"mnist": tuple("0123456789"), "fashion-mnist": tuple(CLOTHES.split(","))}


def mnist(
    num_clients: int = 1000,
    degree: float = 0.1,
    num_root: int = 100,
    num_train: int | None = None,
    num_test: int | None = None,
    seed: int = 0,
    data_dir: Path | None = None,
    check: bool = True,
) -> Federation:
    """MNIST by degree of non-iid; 0.1 and 0.5 are the paper's MNIST-0.1 and MNIST-0.5.

    Args:
        num_clients: n.
        degree: of non-iid, q; 0.1 is iid.
        num_root: training examples that the server keeps for FLTrust; no client holds them.
        num_train: training examples, a random choice that includes the server's; all by default.
        num_test: test examples, a random choice; all by default.
        seed: of the choice and the dealing.
        data_dir: where ``flcert data get`` put the files; by default $FLCERT_DATA or the cache.
        check: False takes other files of the same format; the federation is then called "mnist (unchecked)".
    """
    deal = Deal(num_clients, degree, num_root, num_train, num_test, seed)
    return dealt(_images("mnist", data_dir, check), deal)


def fashion_mnist(
    num_clients: int = 1000,
    degree: float = 0.1,
    num_root: int = 100,
    num_train: int | None = None,
    num_test: int | None = None,
    seed: int = 0,
    data_dir: Path | None = None,
    check: bool = True,
) -> Federation:
    """Fashion-MNIST by degree of non-iid; the options are those of ``mnist``."""
    deal = Deal(num_clients, degree, num_root, num_train, num_test, seed)
    return dealt(_images("fashion-mnist", data_dir, check), deal)


def _images(name: str, data_dir: Path | None, check: bool) -> Images:
    files, note = read_files(name, data_dir, check)
    train, test = (
        (
            read_idx(files[f"{part}-images-idx3-ubyte"], f"{name}: {part} images", 3),
            read_idx(files[f"{part}-labels-idx1-ubyte"], f"{name}: {part} labels", 1),
        )
        for part in ("train", "t10k")
    )
    for pixels, labels in (train, test):
        if len(pixels) != len(labels):
            raise InputError(f"{name}: {len(pixels)} images need as many labels, got {len(labels)}")
    return Images(titled(name, note), train, test, LABELS[name])


def read_idx(content: bytes, what: str, dimensions: int) -> NDArray[np.uint8]:
    """The array of bytes in an IDX file.

    Args:
        content: of the file: 0, 0, 8 (bytes), the number of dimensions, each size in 4 bytes, then the values.
        what: what to call it in messages.
        dimensions: how many it must have.
    """
    start = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < start:
        raise InputError(f"{what}: an IDX file of bytes with {dimensions} dimensions was expected")
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], dtype=">u4"))
    if len(content) != start + prod(shape):
        raise InputError(f"{what}: shape {shape} needs {prod(shape)} values, got {len(content) - start}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
