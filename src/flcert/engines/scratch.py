"""The directory for the copy of the clients' data that worker processes map."""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from flcert.core.leftovers import remove_leftovers, temporary_beside
from flcert.errors import RunError

NAME = "flcert"  # the directory's name begins so
FRESH = 3600.0  # seconds between signs of life, which tell other machines that the directory is in use


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """A directory in the system's temporary directory that only its owner can read, deleted at the end of the block.

    Its name tells which process made it, so that the next command can delete it if this one is killed.
    """
    remove_scratch()
    directory = temporary_beside(Path(tempfile.gettempdir()) / NAME)
    try:
        directory.mkdir(mode=0o700)
    except OSError as error:
        raise RunError(f"cannot make a directory for the workers' data, {directory}: {error.strerror}") from None
    done = threading.Event()
    threading.Thread(target=_keep_fresh, args=(directory, done), daemon=True).start()
    try:
        yield directory
    finally:
        done.set()
        shutil.rmtree(directory, ignore_errors=True)


def remove_scratch() -> int:
    """Delete the directories that killed commands left, and return their number."""
    return remove_leftovers(Path(tempfile.gettempdir()), NAME)


def _keep_fresh(directory: Path, done: threading.Event) -> None:
    while not done.wait(FRESH):
        with suppress(OSError):
            os.utime(directory)
