"""A process that only trains, for workers that share their own process with other code.

A Dask worker has threads that draw from the process-wide generators at any time, and may run other people's tasks
beside ours. So it keeps a child process, where a task has everything to itself, as in the processes engine.
"""

import os
import pickle
import subprocess
import sys
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import cast

from flcert.dask_worker.facts import differences, facts
from flcert.datasets.federation import Federation


class ChildDiedError(Exception):
    """The child process died."""


class UnfitWorkerError(Exception):
    """A worker cannot take part."""


class Child:
    """The parent's side: sends work to the process, one task at a time, and restarts it when it has died.

    Args:
        directory: where a federation was saved.

    Raises:
        ChildDiedError: it could not be started.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._turn = threading.Lock()
        self._stopped = False
        self.facts = self._start()

    def run(self, work: bytes) -> bytes:
        """The pickled outcome of a pickled (function, task).

        Raises:
            ChildDiedError: the process died during the task.
            UnfitWorkerError: the process had died before, and its replacement differs from it.
        """
        with self._turn:
            if self._stopped:
                raise ChildDiedError("it was stopped")
            if self._process.poll() is not None and (changed := differences(self._start(), self.facts)):
                self._end()
                raise UnfitWorkerError(f"a worker changed since it was given the data: {changed}")
            try:
                self._connection.send_bytes(work)
                return self._connection.recv_bytes()
            except (EOFError, OSError):
                self._end()
                raise ChildDiedError("the process died of it") from None

    def stop(self) -> None:
        """End the process at once, whatever it is doing."""
        self._stopped = True
        self._process.kill()
        with self._turn:
            self._end()

    def _start(self) -> dict[str, str]:
        """Start the process and receive its facts."""
        self._connection, theirs = Pipe()
        command = [sys.executable, "-c", "from flcert.dask_worker.child import main; main()"]
        self._process = subprocess.Popen(
            [*command, str(theirs.fileno()), str(self.directory)],
            pass_fds=[theirs.fileno()],
            process_group=0,  # Ctrl-C is for the parent
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        theirs.close()
        try:
            return cast(dict[str, str], self._connection.recv())
        except (EOFError, OSError):
            self._end()
            raise ChildDiedError(f"the child process ended with code {self._process.returncode} at its start") from None

    def _end(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()


def main() -> None:
    """The child's side: work until the parent closes the connection or is gone."""
    connection, work = Connection(int(sys.argv[1])), SimpleQueue[bytes]()
    threading.Thread(target=_receive, args=(connection, work), daemon=True).start()
    import torch

    torch.set_num_threads(1)
    federation = Federation.map(Path(sys.argv[2]))
    connection.send(facts())
    while True:
        connection.send_bytes(outcome(federation, work.get()))


def _receive(connection: Connection, work: SimpleQueue[bytes]) -> None:
    try:
        while True:
            work.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)  # at once, whatever it is busy with


def outcome(federation: Federation, work: bytes) -> bytes:
    """The outcome of a pickled (function, task): pickled (result, None) or (None, error)."""
    try:
        function, task = pickle.loads(work)
        return pickle.dumps((function(federation, task), None))
    except Exception as error:
        return pickle.dumps((None, _portable(error)))


def _portable(error: Exception) -> Exception:
    """The error, or its message if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
