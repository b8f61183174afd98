"""The content-addressed store: arrays under the digest of everything they depend on.

An entry is one safetensors file. Its header carries the key and a digest of the arrays, so that a truncated or
altered file is noticed and never used. A small JSON file beside it says what the entry was made from: clients' data, or
other entries. So everything derived from a client's data can be found and deleted, whoever made it. It also says which
kind of kernels computed the arrays (``core.determinism.kernels``).
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path
from safetensors import SafetensorError
from safetensors.numpy import load, save

from flcert.core.digest import digest_named
from flcert.core.files import read_json, writable_directory, write_atomic, write_json
from flcert.core.leftovers import is_temporary, remove_leftovers
from flcert.errors import InputError, IntegrityError, RunError

Arrays = dict[str, NDArray[np.generic]]

ORIGIN_FORMAT = 2  # format 1 did not record the kernels

_CLIENT = "client "  # how the origin of a client starts; no key of an entry does

UNKNOWN = "unknown"
"""In place of the kernels of an entry that does not tell."""


@dataclass(frozen=True)
class Entry:
    """A place in the store.

    Args:
        key: the digest of everything that its arrays depend on.
        made_from: what the arrays were made from: the ``client_origin`` of clients, or the keys of other entries.
    """

    key: str
    made_from: tuple[str, ...]


def derived(entry: Entry, origins: Iterable[str]) -> Entry:
    """An entry made from another one, with what that one was made from: the other one may be pruned before it."""
    return replace(entry, made_from=(*entry.made_from, *origins))


def client_origin(user: str, data_digest: str) -> str:
    """The name of a client's data in ``Entry.made_from``."""
    return f"{_CLIENT}{data_digest} {user}"


class Store:
    """A directory of entries, shared by all runs of this user.

    Args:
        directory: its path; by default ``$FLCERT_CACHE`` or the platform's cache directory.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or default_directory()

    def path(self, key: str) -> Path:
        """Where the arrays of this key are, or would be."""
        return self.directory / "store" / key[:2] / f"{key}.safetensors"

    def _origin(self, key: str) -> Path:
        """The file that says what they were made from."""
        return self.path(key).with_suffix(".json")

    def read(self, key: str) -> Arrays | None:
        """The arrays stored under ``key``; None if there are none.

        Raises:
            IntegrityError: the file is there but was altered or cut short, or cannot be read.
        """
        try:
            raw = self.path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise IntegrityError(f"{self.path(key)} cannot be read: {error.strerror}") from None
        with suppress(OSError):  # the store may be read-only for this user
            os.utime(self.path(key))
        return unpack(raw, key)

    def load(self, key: str) -> Arrays:
        """The arrays under ``key``, which must exist."""
        arrays = self.read(key)
        if arrays is None:
            raise RunError(f"{self.path(key)} was deleted while it was needed; run the same command again")
        return arrays

    def write(self, entry: Entry, arrays: Mapping[str, NDArray[np.generic]], kernels: str = UNKNOWN) -> None:
        """Store the arrays of an entry; the record of its origin is written first, so that it is never missing.

        Args:
            entry: the place.
            arrays: what to store.
            kernels: the kind of kernels that computed them, in the process where they did.
        """
        self.make_room([entry.key])
        self._write_origin(entry, kernels)
        write_atomic(self.path(entry.key), pack(arrays, entry.key))

    def check_usable(self) -> None:
        """Refuse a directory that has nothing to read and cannot be written; a full one may be read-only."""
        if not (self.directory / "store").is_dir():
            writable_directory(self.directory)

    def make_room(self, keys: Iterable[str]) -> None:
        """Check, before anything is computed for these keys, that it can be stored; delete empty directories there.

        Raises:
            InputError: a directory of the store cannot be written.
            RunError: something is in the place of an entry and cannot be deleted.
        """
        paths = [self.path(key) for key in keys]
        for directory in {path.parent for path in paths}:
            writable_directory(directory)
        for path in (place for one in paths for place in (one, one.with_suffix(".json"))):
            if path.is_dir() and not path.is_symlink():
                _remove(path)

    def kernels(self, key: str) -> str:
        """The kind of kernels that computed an entry; ``UNKNOWN`` if an older version of flcert wrote it."""
        try:
            record = read_json(self._origin(key))
        except InputError:
            return UNKNOWN
        found = record.get("kernels") if isinstance(record, dict) else None
        return found if isinstance(found, str) else UNKNOWN

    def complete_origin(self, entry: Entry) -> None:
        """Write the record of an entry's origin if it is missing: an older version of flcert did not write it."""
        if not self._origin(entry.key).exists():
            with suppress(RunError):  # the store may be read-only for this user
                self._write_origin(entry, UNKNOWN)

    def _write_origin(self, entry: Entry, kernels: str) -> None:
        record = {"format": ORIGIN_FORMAT, "made_from": list(entry.made_from), "kernels": kernels}
        write_json(self._origin(entry.key), record)

    def delete(self, key: str) -> bool:
        """Delete an entry, and return whether there was one."""
        there = _remove(self.path(key))
        _remove(self._origin(key))
        return there

    def forget(self, origins: Collection[str]) -> int:
        """Delete every entry made from these origins, directly or through other entries, and return their number."""
        return sum(self.delete(key) for key in self.descendants(origins))

    def descendants(self, origins: Collection[str]) -> set[str]:
        """The keys of all entries made from these origins, directly or through other entries."""
        return _reached(self._children(), origins)

    def of_clients(self, users: Collection[str]) -> int:
        """The number of entries made from any data of clients with these ids, of whichever federation."""
        children = self._children()
        origins = [origin for origin in children if _user(origin) in users]
        return sum(self.path(key).exists() for key in _reached(children, origins))

    def _children(self) -> dict[str, list[str]]:
        """The keys of the entries made from each origin directly."""
        children: dict[str, list[str]] = defaultdict(list)
        for record in (self.directory / "store").glob("*/*.json"):
            for origin in _made_from(record):
                children[origin].append(record.stem)
        return children

    def of_unknown_origin(self) -> int:
        """The number of entries without a record of their origin, which an older version of flcert wrote."""
        return sum(not self._origin(entry.stem).exists() for entry in self.entries())

    def entries(self) -> Iterator[Path]:
        """The files of all entries."""
        return (self.directory / "store").glob("*/*.safetensors")

    def prune(self, unused_days: float) -> tuple[int, int]:
        """Delete entries unused for this many days, and return the number of entries and of bytes freed."""
        deadline = time.time() - unused_days * 86400
        files = freed = 0
        for entry in list(self.entries()):
            with suppress(FileNotFoundError):  # another command deleted it
                status = entry.lstat()
                if status.st_mtime <= deadline and self.delete(entry.stem):
                    files, freed = files + 1, freed + status.st_size
        return files, freed

    def remove_leftovers(self) -> int:
        """Delete the temporary files of ended processes, which can hold models, and return their number."""
        return sum(remove_leftovers(directory) for directory in self._directories())

    def unfinished(self) -> int:
        """The number of temporary files: of processes that run, or of other machines, where they may run."""
        return sum(is_temporary(path) for directory in self._directories() for path in directory.glob(".*"))

    def _directories(self) -> list[Path]:
        return [self.directory, *(path for path in (self.directory / "store").glob("**/") if path.is_dir())]


def _reached(children: Mapping[str, list[str]], origins: Iterable[str]) -> set[str]:
    """The keys of all entries made from these origins, directly or through other entries."""
    found: set[str] = set()
    pending = list(origins)
    while pending:
        made = [key for key in children.get(pending.pop(), []) if key not in found]
        found.update(made)
        pending += made
    return found


def _user(origin: str) -> str | None:
    """The id of the client whose ``client_origin`` this is; None for the key of an entry."""
    return origin.removeprefix(_CLIENT).partition(" ")[2] if origin.startswith(_CLIENT) else None


def _remove(path: Path) -> bool:
    """Delete a file or an empty directory, and return whether it was there."""
    try:
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise RunError(f"cannot delete {path}: {error.strerror}") from None
    return True


def _made_from(record: Path) -> list[str]:
    """What an entry was made from, by its record; a damaged record is an error, because it could hide a client."""
    values = read_json(record)
    if not isinstance(values, dict) or not isinstance(values.get("made_from"), list):
        raise IntegrityError(f"{record} is damaged: it does not say what its entry was made from; delete both files")
    return [str(origin) for origin in values["made_from"]]


def default_directory() -> Path:
    """``$FLCERT_CACHE``, or the platform's cache directory."""
    override = os.environ.get("FLCERT_CACHE")
    return Path(override) if override else user_cache_path("flcert")


def pack(arrays: Mapping[str, NDArray[np.generic]], key: str) -> bytes:
    """A safetensors file with the key and the digest in its header; the same arrays give the same bytes."""
    header = json.dumps({"key": key, "digest": digest_named(arrays)})  # one entry: safetensors does not keep an order
    packed: bytes = save(dict(arrays), metadata={"flcert": header})
    return packed


def unpack(raw: bytes, key: str) -> Arrays:
    """The arrays of a file that ``pack`` made for this key."""
    try:
        header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
        recorded = json.loads(header["__metadata__"]["flcert"])
        arrays: Arrays = load(raw)
        sound = recorded == {"key": key, "digest": digest_named(arrays)}
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError):
        sound = False
    if not sound:
        raise IntegrityError(f"the stored arrays of key {key} were altered or cut short")
    return arrays
