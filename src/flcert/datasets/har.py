"""Human Activity Recognition with smartphones (UCI): a user is a client."""

import io
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flcert.core.seeding import stream
from flcert.datasets.catalogue import Origin, Source
from flcert.datasets.dataset import DataSet, Options
from flcert.datasets.federation import Federation
from flcert.datasets.sources import read_files, titled
from flcert.errors import InputError, check_range

ARCHIVE = "UCI HAR Dataset.zip"
ACTIVITIES = ("walking", "walking upstairs", "walking downstairs", "sitting", "standing", "lying")

Rows = NDArray[np.int64]

FILES = Source(
    name="har",
    title="smartphone motion of 30 people in six activities, 561 features",
    licence="CC BY 4.0",
    files={
        ARCHIVE: {
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
)


class HarOptions(Options):
    """Options of HAR.

    Args:
        num_clients: n, the first users by number; all 30 by default. Only their rows are in the test set.
        num_root: training rows that the server keeps for FLTrust, the same number from each user; no client holds them.
        seed: the seed of the split.
        data_dir: where ``flcert data get`` put the archive; by default $FLCERT_DATA or the cache.
        check: False accepts another archive of the same layout; the federation is then called "har (unchecked)".
    """

    num_clients: int | None = None
    num_root: int = 100
    seed: int = 0
    data_dir: Path | None = None
    check: bool = True


def load(options: HarOptions) -> Federation:
    """The 561 features of HAR as published; a random 75 % of each user's rows train, the rest are the test set.

    If the archive is the one with recomputed features, the federation is called "har (recomputed)".
    """
    files, note = read_files(FILES, options.data_dir, options.check)
    features, labels, users = read_archive(files[ARCHIVE])
    everyone = np.unique(users)
    if options.num_clients is not None:
        check_range("num_clients", options.num_clients, 1, len(everyone), "number of users")
    chosen = everyone[: options.num_clients]
    shares, test = split_users(users, chosen, options.num_root, options.seed)
    held = np.concatenate(shares)
    root = np.setdiff1d(np.flatnonzero(np.isin(users, chosen)), np.concatenate([held, test]))
    return Federation(
        name=titled(FILES.name, note),
        ids=tuple(f"user-{user:02d}" for user in chosen),
        inputs=features[held],
        labels=labels[held],
        offsets=np.cumsum([0, *map(len, shares)]).astype(np.int64),
        test_inputs=features[test],
        test_labels=labels[test],
        test_owners=tuple(f"user-{user:02d}" for user in users[test]),
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
    """Features, labels from 0, and users of all rows, starting with the published training part."""
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


HAR = DataSet(
    title=FILES.title,
    written="HAR",
    options=HarOptions,
    load=load,
    input_shape=(561,),
    num_labels=len(ACTIVITIES),
    users=30,
    files=FILES,
    backdoor=lambda _: {"trigger": {"name": "features"}, "target": ACTIVITIES.index("walking upstairs")},
)
