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


SAME_USERS = {"num_clients", "num_test", "seed", "data_dir", "check"}  # options that leave the users as they are


@dataclass(frozen=True)
class Outline:
    """What is known about a data set before its files are read.

    Args:
        num_clients: n; None if it takes the files to tell.
        num_inputs: the most test inputs; None if it takes the files to tell.
        input_shape: the shape of one input, likewise.
        num_labels: L, likewise.
    """

    num_clients: int | None
    num_inputs: int | None
    input_shape: tuple[int, ...] | None
    num_labels: int | None


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One data set.

    Args:
        title: what it is, in a few words.
        written: how papers write its name; by default as it is called here.
        options: the options a user may set.
        load: makes the federation from an instance of ``options``.
        pilot: makes inputs and labels of the examples that ``load`` gives to nobody, if the option ``num_pilot`` leaves
            some out.
        input_shape: the shape of one input with default options; None if it depends on the files.
        num_labels: L with default options, likewise.
        shaped: the shape of one input and L from an instance of ``options``, if they depend on it.
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
    shaped: Callable[[Any], tuple[tuple[int, ...], int]] | None = None
    users: int | None = None
    train_examples: int | None = None
    files: Source | None = None
    licence: str = ""
    no_files: str = ""
    backdoor: Callable[[Any], dict[str, Any]] | None = None
    written: str = ""

    def __post_init__(self) -> None:
        if self.files:
            object.__setattr__(self, "licence", self.files.licence)

    def outline(self, options: Any) -> Outline:
        """What is known with these options before any file is read.

        Args:
            options: an instance of ``options``.
        """
        shape, labels = self.shaped(options) if self.shaped else (self.input_shape, self.num_labels)
        inputs = getattr(options, "num_test", None)
        return Outline(getattr(options, "num_clients", None) or self._users(options), inputs, shape, labels)

    def _users(self, options: Any) -> int | None:
        """The number of users, unless the files are the user's own or an option may leave some of them out."""
        changed = {name for name in options.model_fields_set if getattr(options, name) != self._default(name)}
        return self.users if self.files and changed <= SAME_USERS else None

    def _default(self, name: str) -> Any:
        return self.options.model_fields[name].default
