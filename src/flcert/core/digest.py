"""Digests: the one place where bytes become a name. All of them are BLAKE2b."""

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 24  # length of a key in the store


def digest(content: bytes | str, size: int = KEY_BYTES) -> str:
    """The digest of bytes or text, as 2 * ``size`` hexadecimal digits."""
    raw = content.encode() if isinstance(content, str) else content
    return blake2b(raw, digest_size=size).hexdigest()


def digest_json(value: Any, size: int = KEY_BYTES) -> str:
    """The digest of a JSON value; the order of an object's keys does not matter.

    >>> digest_json({"a": 1, "b": 2}, 4) == digest_json({"b": 2, "a": 1}, 4)
    True
    """
    return digest(json.dumps(value, sort_keys=True), size)


def digest_arrays(*arrays: NDArray[np.generic], text: str = "") -> str:
    """The digest of a text followed by the dtype, shape and bytes of each array, in order."""
    state = blake2b(text.encode(), digest_size=16)
    for array in arrays:
        state.update(json.dumps([array.dtype.str, array.shape]).encode())
        state.update(np.ascontiguousarray(array).data if array.size else b"")
    return state.hexdigest()


def digest_named(arrays: Mapping[str, NDArray[np.generic]]) -> str:
    """The digest of arrays by name, whatever their order."""
    names = sorted(arrays)
    return digest_arrays(*(arrays[name] for name in names), text=json.dumps(names))


def digest_files(files: Iterable[Path]) -> str:
    """The digest of the names and contents of files, in order."""
    state = blake2b(digest_size=16)
    for file in files:
        content = file.read_bytes()
        state.update(f"{file.name} {len(content)}\n".encode() + content)
    return state.hexdigest()


def keyed_number(text: str, key: str, size: int = 16) -> int:
    """A number derived from a text with a secret key of up to 64 bytes."""
    raw = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(raw, key=key.encode(), digest_size=size).digest(), "big")


def named_number(name: str, purpose: bytes) -> int:
    """A 64-bit number derived from a name; each purpose gives the same name a different number."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8, person=purpose).digest(), "big")
