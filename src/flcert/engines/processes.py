"""Processes on this machine, one torch thread each; the federation is mapped from disk by every worker."""

import multiprocessing
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from types import FrameType

import torch

from flcert.core.code import file_of
from flcert.datasets import Federation
from flcert.engines.base import Pool, Result, Task
from flcert.engines.scratch import scratch_directory
from flcert.errors import RunError

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that ask a command to stop."""


@dataclass(frozen=True)
class Processes:
    """Worker processes.

    Args:
        workers: how many; by default one for each core.
    """

    workers: int = field(default_factory=lambda: os.cpu_count() or 1)

    @property
    def imports_main(self) -> bool:
        """Whether the workers can run the script again: a notebook, ``python -c`` or a pipe has no file."""
        main = sys.modules["__main__"]
        return main.__spec__ is not None or file_of(main) is not None

    @contextmanager
    def pool(self, federation: Federation) -> Iterator[Pool]:
        """Start processes that map the federation; an exception in the body stops them at once."""
        context = multiprocessing.get_context("spawn")
        with scratch_directory() as directory:
            _save(federation, directory)
            start_resource_tracker()
            watched, lifeline = context.Pipe(duplex=False)
            executor = ProcessPoolExecutor(self.workers, context, _start_worker, (str(directory), watched))
            try:
                yield _ProcessPool(executor, self.workers)
                executor.shutdown()
            finally:
                lifeline.close()  # workers that are still busy stop at once
                executor.shutdown(cancel_futures=True)
                watched.close()


def _save(federation: Federation, directory: Path) -> None:
    try:
        federation.save(directory)
    except OSError as error:
        raise RunError(f"cannot write the data for the workers to {directory}: {error.strerror or error}") from None


@dataclass(frozen=True)
class _ProcessPool:
    executor: Executor
    capacity: int

    def submit(self, function: Callable[[Federation, Task], Result], task: Task) -> "Future[Result]":
        with without_interrupts():  # submitting starts workers, which inherit this
            return self.executor.submit(_call, function, task)


def start_resource_tracker() -> None:
    """Start Python's process that deletes semaphores, so that it outlives a terminal that hangs up."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    ensure_running()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C and other signals to stop back until the end of the block.

    Processes that start in the block inherit that Ctrl-C is blocked: it is for the parent to handle. They do not
    inherit the others, by which they can be stopped. Blocking is not enough for this process: any other thread may get
    the signal, and Python would raise in the main thread, between starting a worker and telling it what to do.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    main = threading.current_thread() is threading.main_thread()
    handlers = {number: handler for number in STOPPING if main and callable(handler := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if came:
            signal.raise_signal(came[0])


_federation: Federation  # of this worker process


def _start_worker(directory: str, watched: Connection) -> None:
    global _federation
    torch.set_num_threads(1)
    _federation = Federation.map(Path(directory))
    threading.Thread(target=_stop_with_parent, args=(directory, watched), daemon=True).start()


def _stop_with_parent(directory: str, watched: Connection) -> None:
    """End this process when the parent closes its end of the pipe or ends for any reason, and leave no data behind."""
    try:
        watched.recv()
    except EOFError:
        shutil.rmtree(directory, ignore_errors=True)
        os._exit(1)


def _call(function: Callable[[Federation, Task], Result], task: Task) -> Result:
    return function(_federation, task)
