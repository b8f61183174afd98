"""CIFAR-10: colour images of 3 x 32 x 32 pixels, in the binary version (nothing is unpickled)."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flcert.datasets.federation import Federation
from flcert.datasets.images import Deal, Images, dealt
from flcert.datasets.sources import read_files, titled
from flcert.errors import InputError

SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32  # a label, then the red, the green and the blue pixels

LABELS = ("airplane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

Labelled = tuple[NDArray[np.uint8], NDArray[np.uint8]]


def cifar10(
    num_clients: int = 100,
    degree: float = 0.5,
    num_root: int = 100,
    num_train: int | None = None,
    num_test: int | None = None,
    seed: int = 0,
    data_dir: Path | None = None,
    check: bool = True,
) -> Federation:
    """CIFAR-10 by degree of non-iid.

    Args:
        num_clients: n.
        degree: of non-iid, q; 0.1 is iid.
        num_root: training examples that the server keeps for FLTrust; no client holds them.
        num_train: training examples, a random choice that includes the server's; all by default.
        num_test: test examples, a random choice; all by default.
        seed: of the choice and the dealing.
        data_dir: where ``flcert data get`` put the files; by default $FLCERT_DATA or the cache.
        check: False takes other files of the same format; the federation is then called "cifar10 (unchecked)".
    """
    files, note = read_files("cifar10", data_dir, check)
    train = [read_batch(content, name) for name, content in files.items() if name.startswith("data")]
    pixels, labels = (np.concatenate(parts) for parts in zip(*train, strict=True))
    test = read_batch(files["test_batch.bin"], "test_batch.bin")
    images = Images(titled("cifar10", note), (pixels, labels), test, LABELS)
    return dealt(images, Deal(num_clients, degree, num_root, num_train, num_test, seed))


def read_batch(content: bytes, what: str) -> Labelled:
    """Pixels and labels of a binary batch."""
    if not content or len(content) % RECORD:
        raise InputError(f"cifar10: {what} must hold records of {RECORD} bytes, got {len(content)} bytes")
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, RECORD)
    return records[:, 1:].reshape(-1, *SHAPE), records[:, 0]
