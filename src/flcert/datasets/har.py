"""Human Activity Recognition with smartphones (UCI): a user is a client."""

import io
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flcert.datasets.federation import Federation
from flcert.datasets.sources import read_files, titled
from flcert.errors import InputError, check_range
from flcert.seeding import stream

ARCHIVE = "UCI HAR Dataset.zip"
ACTIVITIES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "lying")

Rows = NDArray[np.int64]


def har(
    num_clients: int | None = None,
    num_root: int = 100,
    seed: int = 0,
    data_dir: Path | None = None,
    check: bool = True,
) -> Federation:
    """The 561 features of HAR as published; a random 75 % of each user's rows train, the rest are the test set.

    Where the archive is the one with recomputed features, the federation is called "har (recomputed)".

    Args:
        num_clients: n, the first users by number; all 30 by default. The test set has these users' rows.
        num_root: training rows that the server keeps for FLTrust, as many from each user; no client holds them.
        seed: of the split.
        data_dir: where ``flcert data get`` put the archive; by default $FLCERT_DATA or the cache.
        check: False takes another archive of the same layout; the federation is then called "har (unchecked)".
    """
    files, note = read_files("har", data_dir, check)
    features, labels, users = read_archive(files[ARCHIVE])
    everyone = np.unique(users)
    if num_clients is not None:
        check_range("num_clients", num_clients, 1, len(everyone), "number of users")
    chosen = everyone[:num_clients]
    shares, test = split_users(users, chosen, num_root, seed)
    held = np.concatenate(shares)
    root = np.setdiff1d(np.flatnonzero(np.isin(users, chosen)), np.concatenate([held, test]))
    return Federation(
        name=titled("har", note),
        ids=tuple(f"user-{user:02d}" for user in chosen),
        inputs=features[held],
        labels=labels[held],
        offsets=np.cumsum([0, *map(len, shares)]).astype(np.int64),
        test_inputs=features[test],
        test_labels=labels[test],
        num_labels=len(ACTIVITIES),
        label_names=ACTIVITIES,
        root_inputs=features[root],
        root_labels=labels[root],
    )


def split_users(users: Rows, chosen: Rows, num_root: int, seed: int) -> tuple[list[Rows], Rows]:
    """The training rows of each chosen user without the server's, and the test rows of all of them."""
    orders = [stream(seed, "data", "har", int(user)).permutation(np.flatnonzero(users == user)) for user in chosen]
    train = [order[: len(order) * 3 // 4] for order in orders]
    test = np.concatenate([order[len(order) * 3 // 4 :] for order in orders])
    check_range("num_root", num_root, 0, sum(map(len, train)) - len(chosen), "number of training rows - num_clients")
    shares = [num_root // len(chosen) + (position < num_root % len(chosen)) for position in range(len(chosen))]
    return [rows[share:] for rows, share in zip(train, shares, strict=True)], test


def read_archive(content: bytes) -> tuple[NDArray[np.float32], Rows, Rows]:
    """Features, labels from 0, and users of all rows, those of the published training part first."""
    parts = []
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for part in ("train", "test"):
                parts.append([_table(archive, part, what) for what in ("X", "y", "subject")])
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise InputError(f"{ARCHIVE} does not have the layout of UCI HAR: {error}") from None
    features, labels, users = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not len(features) == len(labels) == len(users):
        lengths = f"{len(features)}, {len(labels)} and {len(users)}"
        raise InputError(f"{ARCHIVE}: features, labels and users must have as many rows, got {lengths}")
    return features, labels.astype(np.int64)[:, 0] - 1, users.astype(np.int64)[:, 0]


def _table(archive: zipfile.ZipFile, part: str, what: str) -> NDArray[np.float32]:
    with archive.open(f"UCI HAR Dataset/{part}/{what}_{part}.txt") as file:
        return np.loadtxt(io.TextIOWrapper(file, "ascii"), dtype=np.float32, ndmin=2)
