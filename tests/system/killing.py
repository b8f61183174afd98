"""Run a command again and again, each time killed before another one of its file operations; see test_kills.py.

    python -m tests.system.killing BEFORE COMMAND [--draw]

BEFORE is a directory with the state before the command; each attempt works on a copy of it. Prints a JSON list: what
happened for each operation. Without --draw, pictures are stand-ins.
"""

import contextlib
import io
import json
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import torch

from flcert.cli.main import main
from flcert.core.leftovers import is_temporary
from tests.pictures import not_drawn

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
KILLED = 77


class Killer:
    """Counts the operations that change files below a directory, and ends the process before one of them."""

    def __init__(self, place, at=None):
        self.place, self.at, self.done = str(place), at, 0

    def __call__(self, event, arguments):
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not (writes or event in CHANGES) or not self._concerns(arguments[0]):
            return
        if self.done == self.at:
            os._exit(KILLED)
        self.done += 1

    def _concerns(self, path):
        return isinstance(path, str | bytes | os.PathLike) and str(Path.cwd() / os.fsdecode(path)).startswith(
            self.place
        )


def call(place, command):
    """Run the command in this process; returns its exit code and what it said."""
    os.chdir(place)
    os.environ["FLCERT_CACHE"] = str(place / "cache")
    sys.argv = ["flcert", *shlex.split(command)]
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, said.getvalue()


def attempt(place, command, at=None):
    """Run the command in a forked process; returns its exit code, what it said, and its number of file operations."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        killer = Killer(place, at)
        sys.addaudithook(killer)
        code, said = call(place, command)
        with os.fdopen(writer, "w") as pipe:
            json.dump([said, killer.done], pipe)
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said, operations = json.loads(told) if told else ("", 0)
    return code, said, operations


def contents(place):
    """All files of the runs and the names of temporary files left anywhere, the store included."""
    files = [path for path in sorted(place.rglob("*")) if path.is_file()]
    runs = {str(path.relative_to(place)): path.read_bytes() for path in files if "cache" not in path.parts}
    return runs, [str(path.relative_to(place)) for path in files if is_temporary(path)]


def outcome(before, command, at, expected):
    """What happens when the command is killed before one operation, and run again."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(shutil.copytree(before, Path(temporary) / "place"))
        killed, _, _ = attempt(place, command, at)
        code, said, _ = attempt(place, command)
        runs, left = contents(place)
        different = sorted(name for name in {*runs, *expected} if runs.get(name) != expected.get(name))
        return {"killed": killed == KILLED, "code": code, "said": said, "different": different, "left": left}


def report(before, command):
    """All outcomes."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        call(Path(shutil.copytree(before, Path(temporary) / "first")), command)  # imports all that the command needs
        place = Path(shutil.copytree(before, Path(temporary) / "place"))
        code, said, operations = attempt(place, command)
        assert code == 0, said
        expected, _ = contents(place)
    os.chdir(before)
    return [outcome(before, command, at, expected) for at in range(operations)]


if __name__ == "__main__":
    with contextlib.nullcontext() if "--draw" in sys.argv[3:] else not_drawn():
        print(json.dumps(report(Path(sys.argv[1]), sys.argv[2])))
