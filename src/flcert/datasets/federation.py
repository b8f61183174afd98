"""Clients with their data, and a test set: a few large arrays with an offset for each client."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flcert.core.digest import digest_arrays
from flcert.datasets.subject import Subject
from flcert.errors import InputError, unknown_name

Examples = tuple[NDArray[np.generic], NDArray[np.int64]]

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
            _check_examples(f"client {user!r}", inputs, labels, like=np.asarray(test[0]))
        _check_examples("the test set", *test, like=np.asarray(test[0]))
        if root is not None:
            _check_examples("the root set", *root, like=np.asarray(test[0]))
        server = root or (np.asarray(test[0])[:0], np.asarray(test[1])[:0])
        dtype = _input_dtype(np.asarray(test[0]))
        sizes = [len(owned) for _, owned in clients.values()]
        return cls(
            name=name,
            ids=tuple(clients),
            inputs=np.concatenate([np.asarray(inputs).astype(dtype) for inputs, _ in clients.values()]),
            labels=np.concatenate([np.asarray(owned).astype(np.int64) for _, owned in clients.values()]),
            offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            test_inputs=np.asarray(test[0]).astype(dtype),
            test_labels=np.asarray(test[1]).astype(np.int64),
            num_labels=max(2, int(np.max(test[1])) + 1) if num_labels is None else num_labels,
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
        )

    def without(self, forgotten: Collection[str]) -> "Federation":
        """The federation as if these clients had never been there."""
        for user in forgotten:
            if user not in self.ids:
                raise unknown_name("client", user, self.ids)
        if not forgotten:
            return self
        kept = [position for position, user in enumerate(self.ids) if user not in forgotten]
        if not kept:
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
        others, apart = self._of(np.setdiff1d(np.arange(self.num_clients), chosen).tolist()), self._of(chosen)
        if self.test_owners:
            return others._testing(others.ids), apart._testing(apart.ids)
        owners = np.repeat(np.array(apart.ids, dtype=object), np.diff(apart.offsets)).tolist()
        own = replace(apart, test_inputs=apart.inputs, test_labels=apart.labels, test_owners=tuple(owners))
        return others, own

    def _of(self, kept: Sequence[int]) -> "Federation":
        """Only the clients at these positions; the test set stays as it is."""
        sizes = np.diff(self.offsets)
        rows = np.repeat(np.isin(np.arange(self.num_clients), kept), sizes)
        return replace(
            self,
            ids=tuple(self.ids[position] for position in kept),
            inputs=self.inputs[rows],
            labels=self.labels[rows],
            offsets=np.concatenate([[0], np.cumsum(sizes[kept])]).astype(np.int64),
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


def _mapped(path: Path) -> NDArray[np.generic]:
    try:
        array: NDArray[np.generic] = np.load(path, mmap_mode="r")
    except ValueError:  # an array without elements cannot be mapped
        array = np.load(path)
    return array


def _input_dtype(inputs: NDArray[np.generic]) -> type[np.int64] | type[np.float32]:
    """Tokens are int64, features float32."""
    return np.int64 if _whole(inputs) else np.float32


def _whole(inputs: NDArray[np.generic]) -> bool:
    return np.issubdtype(inputs.dtype, np.integer) or inputs.dtype == np.bool_


def _check_examples(
    owner: str, inputs: Sequence[object] | NDArray[np.generic], labels: object, like: NDArray[np.generic]
) -> None:
    """Refuse examples that cannot be stacked with the test inputs ``like``, naming their owner."""
    x, y = np.asarray(inputs), np.asarray(labels)
    if x.ndim == 0 or y.ndim != 1 or len(x) != len(y):
        raise InputError(f"{owner} must have one label for each input, got shapes {x.shape} and {y.shape}")
    if len(x) == 0:
        raise InputError(f"{owner} has no examples")
    if x.shape[1:] != like.shape[1:]:
        raise InputError(f"{owner} has inputs of shape {x.shape[1:]}, but the test inputs have {like.shape[1:]}")
    if not (_whole(x) or np.issubdtype(x.dtype, np.floating)):
        raise InputError(f"{owner} must have real numbers as inputs, got dtype {x.dtype}")
    if _whole(x) != _whole(like):
        raise InputError(f"{owner} has inputs of dtype {x.dtype}, but the test inputs have {like.dtype}")
    if not np.issubdtype(y.dtype, np.integer):
        raise InputError(f"{owner} must have integer labels, got dtype {y.dtype}")
    if int(y.min()) < 0 or int(y.max()) > 2**31:
        raise InputError(f"{owner} must have labels in [0, 2**31], got {int(y.min())} to {int(y.max())}")


def _check(federation: Federation) -> None:
    for user in federation.ids:
        if not isinstance(user, str):
            raise InputError(f"user ids must be strings, got {user!r} of type {type(user).__name__}")
    if "" in federation.ids:
        raise InputError("user ids must not be empty, got ''")
    sizes = np.diff(federation.offsets)
    if len(federation.ids) == 0 or len(sizes) != len(federation.ids):
        raise InputError(f"{len(federation.ids)} ids need {len(federation.ids) + 1} offsets, got {len(sizes) + 1}")
    if (sizes <= 0).any():
        raise InputError(f"client {federation.ids[int(np.argmin(sizes))]!r} has no examples")
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
            whose = f" from {_owner(federation, row)}" if what == "labels" else ""
            raise InputError(f"{what} must be in [0, {federation.num_labels - 1}], got {labels[row]}{whose}")
    for what, owner in (("inputs", ""), ("test_inputs", "the test set"), ("root_inputs", "the root set")):
        inputs = getattr(federation, what)
        if np.issubdtype(inputs.dtype, np.floating) and not np.isfinite(inputs).all():
            row = int(np.argwhere(~np.isfinite(inputs))[0][0])
            whose = owner or _owner(federation, row)
            raise InputError(f"{what} must be finite, got NaN or infinity in row {row} ({whose})")


def _owner(federation: Federation, row: int) -> str:
    return f"client {federation.ids[int(np.searchsorted(federation.offsets, row, side='right')) - 1]!r}"
