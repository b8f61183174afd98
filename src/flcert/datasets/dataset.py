"""The record of a data set: everything flcert knows about it, in one place."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from flcert.core.settings import Strict
from flcert.datasets.catalogue import Source
from flcert.datasets.federation import Federation


class Options(Strict):
    """Options of a data set. The loader checks ranges, because many depend on the files; NaN is out of every range."""

    model_config = ConfigDict(allow_inf_nan=True)


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One data set.

    Args:
        title: what it is, in a few words.
        options: the options a user may set.
        load: makes the federation from an instance of ``options``.
        pilot: makes inputs and labels of the examples that ``load`` gives to nobody, if the option ``num_pilot`` leaves
            some out.
        input_shape: the shape of one input with default options; None if it depends on the files.
        num_labels: L with default options, likewise.
        users: the number of clients with default options, if each user is a client; None if examples are dealt out.
        train_examples: the size of the published training set, if the option ``num_train`` can limit it.
        files: the files, their licence and where to download them; None if there is nothing to download.
        licence: of the data; by default that of its files. Empty if the data are the user's own.
        no_files: for a set without files, what to tell a user who asks for them; by default that there are none.
        backdoor: the paper's backdoor for this data: makes the attack's ``trigger`` and ``target`` from an instance of
            ``options``; None if the attack's own defaults serve.
    """

    title: str
    options: type[Options]
    load: Callable[[Any], Federation]
    input_shape: tuple[int, ...] | None
    num_labels: int | None
    pilot: Callable[[Any], tuple[NDArray[np.generic], NDArray[np.int64]]] | None = None
    users: int | None = None
    train_examples: int | None = None
    files: Source | None = None
    licence: str = ""
    no_files: str = ""
    backdoor: Callable[[Any], dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        if self.files:
            object.__setattr__(self, "licence", self.files.licence)
