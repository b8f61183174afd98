"""Clients with their data, and a test set: a few large arrays with an offset for each client."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flcert.core.digest import digest_arrays
from flcert.datasets.examples import Examples, check_examples, first_row, input_dtype
from flcert.datasets.subject import Subject
from flcert.errors import InputError, unknown_name

_ARRAYS = ("inputs", "labels", "offsets", "test_inputs", "test_labels", "root_inputs", "root_labels")


@dataclass(frozen=True)
class Federation:
    """All clients' examples, client by client, and the test set.

    Args:
        name: what to call it in reports.
        ids: the user ids, one for each client.
        inputs: float32 features or int64 tokens of all clients, (examples x input shape).
        labels: int64 labels of all clients.
        offsets: client i owns the rows offsets[i] to offsets[i + 1].
        test_inputs: inputs to predict and certify.
        test_labels: their true labels.
        num_labels: L.
        root_inputs: clean examples that the server itself holds (for FLTrust); may be empty.
        root_labels: their labels.
        label_names: what people call the labels, and the tokens of text; may be empty.
        image_shape: rows and columns (after channels, if any) of inputs that are pictures with values in [0, 1].
        forgotten: ids of clients that were left out; groups may keep their places.
        excluded: ids of registered clients whose data cannot be used, each with the reason; they hold no examples, keep
            their places in the groups and count as clients.
        test_owners: for each test input the id of the client that it belongs to; empty if they are nobody's, or if it
            is not known whose they are.
    """

    name: str
    ids: tuple[str, ...]
    inputs: NDArray[np.generic]
    labels: NDArray[np.int64]
    offsets: NDArray[np.int64]
    test_inputs: NDArray[np.generic]
    test_labels: NDArray[np.int64]
    num_labels: int
    root_inputs: NDArray[np.generic]
    root_labels: NDArray[np.int64]
    label_names: tuple[str, ...] = ()
    image_shape: tuple[int, ...] | None = None
    forgotten: tuple[str, ...] = ()
    test_owners: tuple[str, ...] = ()
    excluded: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for array in _ARRAYS:  # one memory layout for all: it affects rounding in some kernels
            object.__setattr__(self, array, np.ascontiguousarray(getattr(self, array)))
        _check(self)

    @classmethod
    def build(
        cls,
        name: str,
        clients: Mapping[str, Examples],
        test: Examples,
        num_labels: int | None = None,
        root: Examples | None = None,
        *,
        label_names: tuple[str, ...] = (),
        image_shape: tuple[int, ...] | None = None,
    ) -> "Federation":
        """A federation from ``{user id: (inputs, labels)}`` and a test set ``(inputs, labels)``.

        Args:
            name: what to call it in reports.
            clients: inputs and labels of each client.
            test: inputs and labels of the test set.
            num_labels: L; by default one more than the largest label of the test set. It never comes from clients'
                data, because it is the width of every group's model.
            root: clean inputs and labels that the server itself holds, for FLTrust; never a client's.
            label_names: what people call the labels.
            image_shape: the shape of an input as a picture, if inputs are pictures with values in [0, 1].
        """
        if not clients:
            raise InputError(f"data set {name!r} has no clients")
        for user, (inputs, labels) in clients.items():
            check_examples(f"client {user!r}", inputs, labels, like=np.asarray(test[0]))
        check_examples("the test set", *test, like=np.asarray(test[0]))
        if root is not None:
            check_examples("the root set", *root, like=np.asarray(test[0]))
        server = root or (np.asarray(test[0])[:0], np.asarray(test[1])[:0])
        dtype = input_dtype(np.asarray(test[0]).dtype)
        sizes = [len(owned) for _, owned in clients.values()]
        return cls(
            name=name,
            ids=tuple(clients),
            inputs=np.concatenate([np.asarray(inputs).astype(dtype) for inputs, _ in clients.values()]),
            labels=np.concatenate([np.asarray(owned).astype(np.int64) for _, owned in clients.values()]),
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            test_inputs=np.asarray(test[0]).astype(dtype),
            test_labels=np.asarray(test[1]).astype(np.int64),
            num_labels=labels_of_test_set(test, num_labels),
            root_inputs=np.asarray(server[0]).astype(dtype),
            root_labels=np.asarray(server[1]).astype(np.int64),
            label_names=label_names,
            image_shape=image_shape,
        )

    @property
    def num_clients(self) -> int:
        """The number of clients n."""
        return len(self.ids)

    @property
    def subject(self) -> Subject:
        """What a run on this federation is about."""
        return Subject(
            name=self.name,
            digest=self.digest(),
            ids=self.ids,
            test_inputs=self.test_inputs,
            test_labels=self.test_labels,
            num_labels=self.num_labels,
            num_examples=len(self.labels),
            label_names=self.label_names,
            image_shape=self.image_shape,
            excluded=self.excluded,
        )

    def registering(self, ids: Sequence[str], excluded: Mapping[str, str]) -> "Federation":
        """The same with clients that are registered too, but whose data cannot be used.

        Args:
            ids: ids of all registered clients; those of this federation are in the same order.
            excluded: why clients are left out, by id.
        """
        held = dict(zip(self.ids, np.diff(self.offsets).tolist(), strict=True))
        offsets = np.cumsum([0, *(held.get(user, 0) for user in ids)]).astype(np.int64)
        return replace(self, ids=tuple(ids), offsets=offsets, excluded=tuple(excluded.items()))

    def holders(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some clients, by position, that hold examples: all but the excluded ones."""
        return members[np.diff(self.offsets)[members] > 0]

    def without(self, forgotten: Collection[str]) -> "Federation":
        """The federation as if these clients had never been there."""
        for user in forgotten:
            if user not in self.ids:
                raise unknown_name("client", user, self.ids)
        if not forgotten:
            return self
        kept = [position for position, user in enumerate(self.ids) if user not in forgotten]
        if not len(self.holders(np.array(kept, dtype=np.int64))):
            raise InputError(f"at least one of the {self.num_clients} clients must be left")
        return replace(self._of(kept), forgotten=(*self.forgotten, *forgotten))

    def set_apart(self, users: Collection[str]) -> tuple["Federation", "Federation"]:
        """The federation without some clients, which were never registered in it, and one of those clients alone.

        Test inputs that belong to clients go with them. If it is not known whose they are, they stay, and the test
        inputs of those set apart are their own examples: no group may be asked about those of its own clients.
        """
        chosen = [position for position, user in enumerate(self.ids) if user in users]
        if len(chosen) in (0, self.num_clients):
            raise InputError(
                f"some of the {self.num_clients} clients must be set apart, and some left, got {len(chosen)}"
            )
        usable = self.holders(np.array(chosen)).tolist()  # those set apart need no places in groups
        if not usable:
            raise InputError(f"none of the {len(chosen)} clients that are set apart holds examples that can be used")
        others, apart = self._of(np.setdiff1d(np.arange(self.num_clients), chosen).tolist()), self._of(usable)
        if self.test_owners:
            return others._testing(others.ids), apart._testing(apart.ids)
        owners = np.repeat(np.array(apart.ids, dtype=object), np.diff(apart.offsets)).tolist()
        own = replace(apart, test_inputs=apart.inputs, test_labels=apart.labels, test_owners=tuple(owners))
        return others, own

    def _of(self, kept: Sequence[int]) -> "Federation":
        """Only the clients at these positions; the test set stays as it is."""
        sizes = np.diff(self.offsets)
        rows = np.repeat(np.isin(np.arange(self.num_clients), kept), sizes)
        ids = tuple(self.ids[position] for position in kept)
        kept_ids = set(ids)
        return replace(
            self,
            ids=ids,
            inputs=self.inputs[rows],
            labels=self.labels[rows],
            offsets=np.concatenate([[0], np.cumsum(sizes[kept])]).astype(np.int64),
            excluded=tuple(one for one in self.excluded if one[0] in kept_ids),
        )

    def _testing(self, users: Collection[str]) -> "Federation":
        """Only the test inputs of these clients."""
        known = set(users)
        kept = np.array([owner in known for owner in self.test_owners], dtype=np.bool_)
        if not kept.any():
            raise InputError(f"none of the {len(self.test_owners)} test inputs belongs to the {len(known)} clients")
        owners = tuple(owner for owner in self.test_owners if owner in known)
        test_inputs, test_labels = self.test_inputs[kept], self.test_labels[kept]
        return replace(self, test_inputs=test_inputs, test_labels=test_labels, test_owners=owners)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.test_inputs.shape[1:]

    @property
    def input_dtype(self) -> str:
        """float32 for features, int64 for tokens."""
        return self.test_inputs.dtype.name

    def client(self, position: int) -> Examples:
        """Inputs and labels of one client."""
        rows = slice(int(self.offsets[position]), int(self.offsets[position + 1]))
        return self.inputs[rows], self.labels[rows]

    def client_digest(self, position: int) -> str:
        """A digest of one client's data."""
        return digest_arrays(*self.client(position))

    def root_digest(self) -> str:
        """A digest of the server's root set."""
        return digest_arrays(self.root_inputs, self.root_labels)

    def test_digest(self) -> str:
        """A digest of the test inputs."""
        return digest_arrays(self.test_inputs)

    def digest(self) -> str:
        """A digest of everything: ids, data, test set."""
        return digest_arrays(*(getattr(self, array) for array in _ARRAYS), text=json.dumps([self.ids, self.num_labels]))

    def save(self, directory: Path) -> None:
        """Write the arrays so that other processes can map them."""
        for array in _ARRAYS:
            np.save(directory / f"{array}.npy", getattr(self, array))
        text = {"name": self.name, "ids": self.ids, "num_labels": self.num_labels}
        (directory / "federation.json").write_text(json.dumps(text))

    @classmethod
    def map(cls, directory: Path) -> "Federation":
        """The federation that ``save`` wrote, mapped from disk instead of read into memory; it has no label names."""
        text = json.loads((directory / "federation.json").read_text())
        arrays = {array: _mapped(directory / f"{array}.npy") for array in _ARRAYS}
        federation = object.__new__(cls)  # checked when it was saved
        federation.__dict__.update(arrays, name=text["name"], ids=tuple(text["ids"]), num_labels=text["num_labels"])
        return federation


def labels_of_test_set(test: Examples, num_labels: int | None = None) -> int:
    """L: the given number, or one more than the largest label of the test set."""
    return max(2, int(np.max(test[1], initial=0)) + 1) if num_labels is None else num_labels


def _mapped(path: Path) -> NDArray[np.generic]:
    try:
        array: NDArray[np.generic] = np.load(path, mmap_mode="r")
    except ValueError:  # an array without elements cannot be mapped
        array = np.load(path)
    return array


def _check(federation: Federation) -> None:
    for user in federation.ids:
        if not isinstance(user, str):
            raise InputError(f"user ids must be strings, got {user!r} of type {type(user).__name__}")
    if "" in federation.ids:
        raise InputError("user ids must not be empty, got ''")
    sizes = np.diff(federation.offsets)
    if len(federation.ids) == 0 or len(sizes) != len(federation.ids):
        raise InputError(f"{len(federation.ids)} ids need {len(federation.ids) + 1} offsets, got {len(sizes) + 1}")
    excluded = dict(federation.excluded)
    for user, size in zip(federation.ids, sizes.tolist(), strict=True):
        if size <= 0 and user not in excluded:
            raise InputError(f"client {user!r} has no examples")
        if size and user in excluded:
            raise InputError(f"client {user!r} is excluded, but has {size} examples")
    if not len(federation.labels):
        raise InputError(f"data set {federation.name!r} has no client with examples")
    if federation.offsets[0] != 0 or not federation.offsets[-1] == len(federation.inputs) == len(federation.labels):
        raise InputError(
            f"offsets must go from 0 to the number of examples, got {federation.offsets[0]} to "
            f"{federation.offsets[-1]} for {len(federation.inputs)} inputs and {len(federation.labels)} labels"
        )
    if len(federation.test_labels) == 0:
        raise InputError("the test set has no examples")
    if len(federation.test_inputs) != len(federation.test_labels):
        inputs, labels = len(federation.test_inputs), len(federation.test_labels)
        raise InputError(f"{inputs} test inputs need as many labels, got {labels}")
    if federation.test_owners and len(federation.test_owners) != len(federation.test_labels):
        inputs, owners = len(federation.test_labels), len(federation.test_owners)
        raise InputError(f"{inputs} test inputs need as many owners, got {owners}")
    if federation.label_names and len(federation.label_names) != federation.num_labels:
        raise InputError(f"{federation.num_labels} labels need as many names, got {len(federation.label_names)}")
    if federation.image_shape and prod(federation.image_shape) != prod(federation.input_shape):
        raise InputError(f"inputs of shape {federation.input_shape} are no pictures of shape {federation.image_shape}")
    if federation.num_labels < 2:
        raise InputError(f"num_labels must be at least 2, got {federation.num_labels}")
    for what in ("labels", "test_labels", "root_labels"):
        labels = getattr(federation, what)
        outside = (labels < 0) | (labels >= federation.num_labels)
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            whose = f" from {_owner(federation, row)[0]}" if what == "labels" else ""
            raise InputError(f"{what} must be in [0, {federation.num_labels - 1}], got {labels[row]}{whose}")
    for what, owner in (("inputs", ""), ("test_inputs", "the test set"), ("root_inputs", "the root set")):
        inputs = getattr(federation, what)
        if np.issubdtype(inputs.dtype, np.floating) and not np.isfinite(inputs).all():
            row = first_row(~np.isfinite(inputs))
            whose, row = (owner, row) if owner else _owner(federation, row)
            raise InputError(f"{what} must be finite, got NaN or infinity in row {row} ({whose})")


def _owner(federation: Federation, row: int) -> tuple[str, int]:
    """Whose row this is of all clients' rows, and which one of the client's own."""
    position = int(np.searchsorted(federation.offsets, row, side="right")) - 1
    return f"client {federation.ids[position]!r}", row - int(federation.offsets[position])
