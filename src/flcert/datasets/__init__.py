"""Data sets whose examples are divided among clients, by name."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flcert.core import plugins
from flcert.core.settings import Choice
from flcert.datasets.catalogue import Source
from flcert.datasets.cifar10 import CIFAR10
from flcert.datasets.dataset import DataSet, Outline
from flcert.datasets.dialogue import CHITCHAT, REDDIT
from flcert.datasets.digits import DIGITS
from flcert.datasets.federation import Federation
from flcert.datasets.folder import FOLDER
from flcert.datasets.handwriting import FONTS, PEN
from flcert.datasets.har import HAR
from flcert.datasets.mnist import FASHION_MNIST, MNIST
from flcert.datasets.word_pairs import WORD_PAIRS
from flcert.datasets.word_vectors import WORD_VECTORS
from flcert.datasets.words import WORDS
from flcert.errors import InputError, unknown_name

DATASETS: dict[str, DataSet] = {
    "digits": DIGITS,
    "folder": FOLDER,
    "mnist": MNIST,
    "fashion-mnist": FASHION_MNIST,
    "cifar10": CIFAR10,
    "har": HAR,
    "chitchat": CHITCHAT,
    "reddit": REDDIT,
}
"""The data sets by name."""

__all__ = [
    "DATASETS",
    "DataSet",
    "Federation",
    "Outline",
    "Source",
    "backdoor",
    "downloads",
    "load",
    "outline",
    "pilot",
    "source",
]


def written(name: str) -> str:
    """The name of a data set, or of a setting that begins with it, as papers write it.

    >>> written("mnist-0.5"), written("har"), written("digits"), written("my-own")
    ('MNIST-0.5', 'HAR', 'digits', 'my-own')
    """
    known = (one for one in DATASETS if re.match(rf"{re.escape(one)}(?![\w])", name))
    longest = max(known, key=len, default="")
    return f"{DATASETS[longest].written or longest}{name.removeprefix(longest)}" if longest else name


def load(name: str, **options: Any) -> Federation:
    """The federation called ``name``, or the one that a user's function ``package.module:function`` returns.

    >>> load("digits", num_clients=10).num_clients
    10
    """
    loaders = {known: partial(_load, known) for known in DATASETS}
    federation = plugins.build("data set", loaders, Choice(name=name, options=options))
    if not isinstance(federation, Federation):
        raise InputError(f"data set {name!r} must return a flcert.Federation, got {type(federation).__name__}")
    return federation


def outline(name: str, options: Mapping[str, Any]) -> Outline:
    """What is known about a data set before its files are read; nothing about what a user's function returns.

    >>> outline("digits", {}).num_clients, outline("har", {}).num_clients
    (200, 30)
    """
    record = DATASETS.get(name)
    if record is None:
        return Outline(None, None, None, None)
    lacking = [key for key, one in record.options.model_fields.items() if one.is_required() and key not in options]
    if lacking and record.users:  # the file was not named yet: that of the paper
        return Outline(options.get("num_clients") or record.users, None, record.input_shape, record.num_labels)
    return record.outline(_checked(name, options))


def pilot(name: str, **options: Any) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """Inputs and labels of the examples that ``load`` with the same options gives to nobody.

    Settings may be chosen on them: what is chosen there tells nothing about a client's data or the test set.
    """
    record = DATASETS.get(name)
    if record is None or record.pilot is None:
        raise unknown_name("data set with pilot examples", name, [one for one in DATASETS if DATASETS[one].pilot])
    return record.pilot(_checked(name, options))


def backdoor(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The paper's backdoor for a data set, as options of the attack; empty if there is none.

    >>> backdoor("mnist", {})
    {'trigger': {'name': 'corner'}, 'target': 0}
    """
    record = DATASETS.get(name)  # a user's own function has no record
    return record.backdoor(_checked(name, options)) if record and record.backdoor else {}


def downloads() -> dict[str, Source]:
    """Everything that ``flcert data get`` can fetch, by name: files of data sets, text sets' words, public digits."""
    own = (record.files for record in DATASETS.values() if record.files)
    entries = [*own, WORDS, WORD_PAIRS, WORD_VECTORS, PEN, FONTS]
    return {entry.name: entry for entry in entries}


def source(name: str) -> Source:
    """The files called ``name``."""
    if name in DATASETS and not DATASETS[name].files:
        raise InputError(DATASETS[name].no_files or f"data set {name!r} has no files to get")
    known = downloads()
    if name not in known:
        raise unknown_name("data set with files", name, known)
    return known[name]


def _load(name: str, /, **options: Any) -> Federation:
    return DATASETS[name].load(_checked(name, options))


def _checked(name: str, options: Mapping[str, Any]) -> Any:
    """The options of a data set as an instance of its class."""
    return plugins.checked_options(DATASETS[name].options, f"data set {name!r}", options)
