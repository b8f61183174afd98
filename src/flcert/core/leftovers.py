"""Temporary files and directories, whose names tell which process made them: what a killed one left can be removed."""

import os
import platform
import re
import shutil
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

from flcert.core.digest import digest

OLD = 86_400.0  # seconds; older ones are left over even if it cannot be known whether their process still runs

_NAME = re.compile(r"\..+\.(?:(?P<machine>[0-9a-f]{12})-(?P<process>\d+)-)?[0-9a-f]{32}\.tmp")


def temporary_beside(path: Path) -> Path:
    """A path in the same directory that no other process uses, not even one on another machine."""
    return path.with_name(f".{path.name}.{_machine()}-{os.getpid()}-{uuid4().hex}.tmp")


def is_temporary(path: Path) -> bool:
    """Whether a path has a name that ``temporary_beside`` gives, or gave in earlier versions."""
    return _NAME.fullmatch(path.name) is not None


def remove_leftovers(directory: Path, beside: str = "") -> int:
    """Delete temporary files and directories in ``directory`` whose process has ended, and return their number.

    Those of running processes and of other machines stay, unless they are older than a day.

    Args:
        directory: where to look.
        beside: only those made beside a path of this name; needed where other programs keep files too.
    """
    ours = f".{beside}." if beside else "."
    with suppress(OSError):
        return sum(
            _removed(path)
            for path in directory.iterdir()
            if path.name.startswith(ours) and is_temporary(path) and _is_left_over(path)
        )
    return 0


def _is_left_over(path: Path) -> bool:
    maker = _NAME.fullmatch(path.name)
    if maker and maker["machine"] == _machine() and not _runs(int(maker["process"])):
        return True
    return time.time() - path.lstat().st_mtime > OLD


def _removed(path: Path) -> bool:
    with suppress(OSError):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        return True
    return False


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it belongs to somebody else, or is no number of a process
        return True
    return True


@cache
def _machine() -> str:
    """A digest of this machine's name and of the set of processes that can see each other, as in a container."""
    space = Path("/proc/self/ns/pid")
    return digest(f"{platform.node()} {space.readlink() if space.is_symlink() else ''}", size=6)
