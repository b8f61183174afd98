"""Write files so that a reader sees the old or the new one, never half of one."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any

from flcert.core.leftovers import remove_leftovers, temporary_beside
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
    temporary = temporary_beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise RunError(f"cannot write {path}: {error.strerror}") from None


@contextmanager
def alone_beside(path: Path) -> Iterator[None]:
    """Wait until no other process is in such a block for a path in the same directory, and keep others waiting.

    The lock is on the directory itself, so it leaves no file behind, and ends with the process.
    """
    try:
        directory = os.open(path.resolve().parent, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def write_json(path: Path, value: Any, *, durable: bool = False) -> None:
    """Write ``value`` as indented JSON, with ``write_atomic``."""
    write_atomic(path, json_bytes(value), durable=durable)


def json_bytes(value: Any) -> bytes:
    """What ``write_json`` writes."""
    return (json.dumps(value, indent=1) + "\n").encode()


def create_json(path: Path, value: Any) -> None:
    """Write ``value`` as ``write_json`` does, unless another process has made the file meanwhile."""
    temporary = temporary_beside(path)
    write_json(temporary, value)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        temporary.replace(path)
    with suppress(OSError):
        temporary.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """The JSON in ``path``."""
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from None


def size_of_file(path: Path, shown: str | None = None) -> int:
    """The size of a regular file; a pipe or a device, which could be read forever, is refused.

    Args:
        path: the file.
        shown: what to call it in messages; by default its path.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        raise InputError(f"missing file {shown or path}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {shown or path}: {getattr(error, 'strerror', error)}") from None
    if not S_ISREG(found.st_mode):
        raise InputError(f"{shown or path} must be a regular file, not a directory, a pipe or a device")
    return found.st_size


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
    """Create the directory if it is missing, and remove what killed commands left in it; refuse it if not writable."""
    if path.is_file():
        raise InputError(f"{path} must be a directory, got a file")
    remove_leftovers(path)
    probe = temporary_beside(path / "probe")
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise InputError(f"directory {path} cannot be written: {error.strerror}") from None
    return path
