"""A user's own data: a folder with one npz file for each client, and one for the test set."""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from flcert.datasets.dataset import DataSet, Options
from flcert.datasets.examples import Examples, check_client, input_dtype
from flcert.datasets.federation import Federation, labels_of_test_set
from flcert.datasets.npz import read_npz
from flcert.errors import InputError

SUFFIX = ".npz"
MOST_BYTES = 2**28
_LONGEST = 200  # characters of a reason, into which a client can put its own text


class FolderOptions(Options):
    """Options of a user's own folder.

    Args:
        path: the folder.
        num_labels: L; by default one more than the largest label of the test set.
        on_bad_client: what to do about a client whose file cannot be used: refuse the data set, or leave the client
            out. It stays registered, keeps its place in its groups, and counts as malicious.
        max_client_bytes: the most bytes that the file of a client may have, packed, unpacked, and as its examples are
            kept: int64 tokens or float32 features, and int64 labels.
    """

    path: Path
    num_labels: int | None = None
    on_bad_client: Literal["refuse", "exclude"] = "refuse"
    max_client_bytes: Annotated[int, Field(gt=0)] = MOST_BYTES


def load(options: FolderOptions) -> Federation:
    """Read ``<path>/clients/*.npz`` (the file's name is the user id) and ``<path>/test.npz``.

    Each npz holds ``inputs`` (examples x input shape) and ``labels`` (integers from 0).
    """
    files = _client_files(options.path / "clients")
    test = _examples(options.path / "test.npz", None)
    if options.on_bad_client == "refuse":
        clients = {user: _examples(file, options.max_client_bytes) for user, file in files.items()}
        return Federation.build(options.path.name, clients, test, options.num_labels)
    return _without_bad_clients(options, files, test)


def _without_bad_clients(options: FolderOptions, files: dict[str, Path], test: Examples) -> Federation:
    """The federation in which clients with unusable files hold nothing.

    Whether a file is usable follows from itself, the test set and the options: no client decides it for another.
    """
    usable: dict[str, Examples] = {}
    excluded: dict[str, str] = {}
    num_labels = labels_of_test_set(test, options.num_labels)
    for user, file in files.items():
        try:
            examples = _examples(file, options.max_client_bytes, "the file")
            check_client("the file", examples, np.asarray(test[0]), num_labels)
            usable[user] = examples
        except Exception as error:  # whatever a client's file brings about is that client's
            excluded[user] = _printable(str(error) or type(error).__name__)
    if not usable:
        user, reason = next(iter(excluded.items()))
        raise InputError(f"none of the {len(excluded)} client files can be used; client {user!r}: {reason}")
    federation = Federation.build(options.path.name, usable, test, options.num_labels)
    return federation.registering(tuple(files), excluded)


def _client_files(folder: Path) -> dict[str, Path]:
    """The file of each client by user id, refused if the id is no name for one client."""
    files: dict[str, Path] = {}
    for file in sorted(folder.glob(f"*{SUFFIX}")):
        user = file.name.removesuffix(SUFFIX)
        if not user or user.endswith(SUFFIX):
            raise InputError(
                f"{_printable(str(file))} must be named by a user id and one {SUFFIX}, got the user id {user!r}"
            )
        if not user.isprintable():
            raise InputError(f"{_printable(str(file))} must be named by printable characters, got {user!r}")
        files[user] = file
    if not files:
        raise InputError(f"no client files: {folder} must hold one npz file for each client")
    return files


def _examples(file: Path, most: int | None, shown: str | None = None) -> Examples:
    kept = {"inputs": input_dtype, "labels": lambda _: np.int64}
    inputs, labels = read_npz(file, kept, most, shown)
    return inputs, labels  # type: ignore[return-value]  # the federation checks that labels are integers


def _printable(text: str) -> str:
    """A text that a client may have written a part of, without what could mislead a terminal, and not too long."""
    shown = "".join(character if character.isprintable() else "?" for character in text)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


FOLDER = DataSet(
    title="your own folder, one npz file for each client",
    options=FolderOptions,
    load=load,
    input_shape=None,
    num_labels=None,
)
