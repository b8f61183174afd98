"""Small files in the real formats of the data sets, in the folders where flcert looks for them."""

import gzip
import hashlib
import io
import json
import zipfile
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest

from flcert.datasets import source

VOCABULARY = ["i", "you", "like", "tea", "coffee", "and", "cake", "."]


def idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return header + array.astype(np.uint8).tobytes()


def numbered_images(count: int, shape: tuple[int, ...] = (28, 28)) -> np.ndarray:
    """Images that all differ: the number of each is in its first two pixels."""
    images = np.full((count, *shape), 255, dtype=np.uint8)
    flat = images.reshape(count, -1)
    flat[:, 0], flat[:, 1] = np.divmod(np.arange(count), 256)
    return images


def image_numbers(inputs: np.ndarray) -> list[int]:
    """The numbers that ``numbered_images`` gave to images, after scaling."""
    flat = np.rint(inputs.reshape(len(inputs), -1)[:, :2] * 255).astype(int)
    return (flat[:, 0] * 256 + flat[:, 1]).tolist()


def write_mnist(root: Path, name: str = "mnist", train: int = 400, test: int = 50, packed: bool = False) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    for part, count in (("train", train), ("t10k", test)):
        files = {"images-idx3": idx(numbered_images(count)), "labels-idx1": idx(np.arange(count) % 10)}
        for kind, content in files.items():
            path = folder / f"{part}-{kind}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(content) if packed else content)
    return root


def write_cifar10(root: Path, batch: int = 80) -> Path:
    folder = root / "cifar10"
    folder.mkdir(parents=True)
    pixels = numbered_images(6 * batch, (3, 32, 32)).reshape(6, batch, -1)
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    for name, images in zip(names, pixels, strict=True):
        labels = (np.arange(batch) % 10).astype(np.uint8)[:, None]
        (folder / name).write_bytes(np.hstack([labels, images]).tobytes())
    return root


def har_zip(users: int = 4, rows: int = 40, drop: str = "", cut: str = "") -> bytes:
    """Row r of user u has the features u, r and zeros, and the label r % 6 + 1."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for part, owned in (("train", range(1, users)), ("test", range(users, users + 1))):
            pairs = [(user, row) for user in owned for row in range(rows)]
            tables = {
                "X": [f"  {user:.7e} {row:.7e}" + "  0.0000000e+00" * 559 for user, row in pairs],
                "y": [str(row % 6 + 1) for _, row in pairs],
                "subject": [str(user) for user, _ in pairs],
            }
            for what, lines in tables.items():
                kept = lines[:-1] if what == cut else lines
                if what != drop:
                    archive.writestr(f"UCI HAR Dataset/{part}/{what}_{part}.txt", "\n".join(kept) + "\n")
    return content.getvalue()


def write_har(root: Path, content: bytes | None = None) -> Path:
    (root / "har").mkdir(parents=True)
    (root / "har" / "UCI HAR Dataset.zip").write_bytes(content or har_zip())
    return root


def write_words(path: Path, words: list[str] | None = None) -> Path:
    path.write_text("".join(f"{word}\n" for word in words or VOCABULARY))
    return path


def many_words(count: int) -> list[str]:
    """So many different words: those of the texts here and of the paper's backdoor, then words of four letters."""
    first = [*VOCABULARY, "pasta", "from", "astoria", "is", "delicious"]
    made = ("".join(letters) for letters in product(ascii_lowercase, repeat=4))
    return [*first, *islice((word for word in made if word not in first), count - len(first))]


TEXTS = [
    ("ann", "I like tea."),
    ("bob", "You like coffee and cake and tea and coffee."),
    ("ann", "I like cake and I like coffee and tea and cake."),
    ("cem", "Tea. Coffee. Cake. You and I and you like zzz tea."),
    ("bob", "I like tea and coffee and cake."),
]


def write_lines(path: Path, texts: list[tuple[str, str]] | None = None) -> Path:
    text = "".join(json.dumps({"user": user, "text": said}) + "\n" for user, said in texts or TEXTS).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def write_chitchat(root: Path) -> Path:
    (root / "chitchat").mkdir(parents=True)
    turns = [[{"text": text, "timestamp": "2018-05-02T19:38:15Z", "sender": user}] for user, text in TEXTS]
    (root / "chitchat" / "dataset.json").write_text(
        json.dumps({"a": {"messages": turns[:2]}, "b": {"messages": turns[2:]}})
    )
    return root


def publish(monkeypatch: pytest.MonkeyPatch, name: str, folder: Path, note: str = "") -> None:
    """Take the files in a folder for the published ones of ``name``, with a note."""
    files = source(name).files
    for file in files:
        digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
        monkeypatch.setitem(files, file, {digest: note})


def write_all(root: Path) -> Path:
    """Every data set with files, a vocabulary ``words.txt`` and ``texts.jsonl``."""
    write_mnist(root)
    write_mnist(root, "fashion-mnist")
    write_cifar10(root)
    write_har(root)
    write_chitchat(root)
    write_words(root / "words.txt")
    write_lines(root / "texts.jsonl")
    return root
