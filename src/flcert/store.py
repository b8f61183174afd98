"""The content-addressed store: arrays under the digest of everything they depend on.

An entry is one safetensors file. Its header carries the key and a digest of the arrays, so that a truncated or
altered file is noticed and never used.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path
from safetensors import SafetensorError
from safetensors.numpy import load, save

from flcert.datasets.federation import digest_arrays
from flcert.errors import IntegrityError
from flcert.files import writable_directory, write_atomic

Arrays = dict[str, NDArray[np.generic]]


class Store:
    """A directory of entries, shared by all runs of this user.

    Args:
        directory: where; by default ``$FLCERT_CACHE`` or the platform's cache directory.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or default_directory()

    def path(self, key: str) -> Path:
        """Where the entry of this key is, or would be."""
        return self.directory / "store" / key[:2] / f"{key}.safetensors"

    def read(self, key: str) -> Arrays | None:
        """The arrays stored under ``key``; None if there are none.

        Raises:
            IntegrityError: the file is there but was altered or cut short.
        """
        try:
            raw = self.path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        with suppress(OSError):  # a store that only others may write to
            os.utime(self.path(key))
        return unpack(raw, key)

    def write(self, key: str, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Store the arrays under ``key``."""
        writable_directory(self.path(key).parent)
        write_atomic(self.path(key), pack(arrays, key))

    def delete(self, key: str) -> bool:
        """Delete the entry of this key; whether there was one."""
        there = self.path(key).exists()
        self.path(key).unlink(missing_ok=True)
        return there

    def entries(self) -> Iterator[Path]:
        """All files in the store."""
        return (self.directory / "store").glob("*/*.safetensors")

    def prune(self, unused_days: float) -> tuple[int, int]:
        """Delete what was not used for this many days; returns the number of files and of bytes freed."""
        deadline = time.time() - unused_days * 86400
        files = freed = 0
        for entry in list(self.entries()):
            status = entry.stat()
            if status.st_mtime <= deadline:
                entry.unlink(missing_ok=True)
                files, freed = files + 1, freed + status.st_size
        return files, freed


def default_directory() -> Path:
    """``$FLCERT_CACHE``, or the platform's cache directory."""
    override = os.environ.get("FLCERT_CACHE")
    return Path(override) if override else user_cache_path("flcert")


def pack(arrays: Mapping[str, NDArray[np.generic]], key: str) -> bytes:
    """A safetensors file with the key and the digest in its header; the same arrays give the same bytes."""
    header = json.dumps({"key": key, "digest": _digest(arrays)})  # one entry: safetensors does not order them
    packed: bytes = save(dict(arrays), metadata={"flcert": header})
    return packed


def unpack(raw: bytes, key: str) -> Arrays:
    """The arrays of a file that ``pack`` made for this key."""
    try:
        header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
        recorded = json.loads(header["__metadata__"]["flcert"])
        arrays: Arrays = load(raw)
        sound = recorded == {"key": key, "digest": _digest(arrays)}
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError):
        sound = False
    if not sound:
        raise IntegrityError(f"the stored arrays of key {key} were altered or cut short")
    return arrays


def _digest(arrays: Mapping[str, NDArray[np.generic]]) -> str:
    names = sorted(arrays)
    return digest_arrays(*(arrays[name] for name in names), text=json.dumps(names))
