"""Write files so that a reader sees the old or the new one, never half of one."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from flcert.errors import InputError, RunError


def write_atomic(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write to a temporary file beside ``path``, then rename it.

    Args:
        path: the file.
        content: the bytes to write.
        durable: return only once the file would survive a power cut.

    Raises:
        RunError: the system refuses (no space, no permission); nothing is left behind.
    """
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable:
        directory = os.open(path.parent, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` to write to; it is renamed to ``path`` at the end of the block."""
    if not path.name or path.is_dir():
        raise InputError(f"{path} is a directory, not a file to write")
    temporary = path.with_name(f".{path.name}.{_unique_name()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise RunError(f"cannot write {path}: {error.strerror}") from None


def write_json(path: Path, value: Any, *, durable: bool = False) -> None:
    """Write ``value`` as indented JSON, with ``write_atomic``."""
    write_atomic(path, (json.dumps(value, indent=1) + "\n").encode(), durable=durable)


def read_json(path: Path) -> Any:
    """The JSON in ``path``."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from None


def first_difference(there: Any, here: Any, name: str = "") -> str:
    """The first difference between two JSON values, in words.

    >>> first_difference({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
    'a.c is 2 there and 3 here'
    """
    if isinstance(there, dict) and isinstance(here, dict):
        for key in sorted({*there, *here}):
            if there.get(key) != here.get(key):
                return first_difference(there.get(key), here.get(key), f"{name}.{key}" if name else key)
    return f"{name} is {json.dumps(there)} there and {json.dumps(here)} here"


def writable_directory(path: Path) -> Path:
    """Create the directory if it is missing; refuse it if it is not writable."""
    if path.is_file():
        raise InputError(f"{path} must be a directory, got a file")
    probe = path / f".probe-{_unique_name()}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise InputError(f"directory {path} cannot be written: {error.strerror}") from None
    return path


def _unique_name() -> str:
    """A name that no other process uses, not even one on another machine that shares the disk."""
    return uuid4().hex
