"""The client of a Dask cluster: it hands out the federation and tasks, and notices when the cluster is gone.

The scheduler hands the federation to every worker, including those that join or restart later, and each writes it to
its own scratch directory. Results come back to this process. Models must not depend on where they are trained, so a
worker whose versions or processor differ from this process's is refused.
"""

import logging
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, InvalidStateError
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from time import monotonic
from typing import Any
from uuid import uuid4

from distributed import Client, KilledWorker, LocalCluster

from flcert.dask_worker.child import ChildDiedError, UnfitWorkerError
from flcert.dask_worker.facts import facts
from flcert.dask_worker.holder import Holder, call
from flcert.datasets import Federation
from flcert.engines.base import CANNOT_START, Result, Task, WorkerDiedError
from flcert.engines.processes import start_resource_tracker, without_interrupts
from flcert.engines.scratch import scratch_directory
from flcert.errors import RunError

KEPT = "what was finished is kept, and the same command goes on from there"
ALLOWED_DEATHS = 1  # of a local cluster's workers during a task, before it is given up and tried again alone
TASKS_AHEAD = 2  # in flight for each worker, so that none waits for the next task while its result travels
POLL = 0.5  # seconds between looks at the cluster
CLOSING = 5.0  # seconds for a clean shutdown


class LostClusterError(BrokenExecutor):
    """The cluster is gone or has changed; it must be opened again."""


@contextmanager
def opened(federation: Federation, scheduler: str | None, workers: int, timeout: float) -> Iterator["DaskPool"]:
    """The workers of a scheduler, or of a local cluster if there is none, each holding the federation."""
    with _silence(), ExitStack() as stack:
        address = scheduler or stack.enter_context(_local_cluster(workers))
        client = stack.enter_context(_connected(address, timeout))
        pool = DaskPool(client, address, timeout)
        stack.enter_context(pool.watched())
        stack.enter_context(pool.holding(federation))
        yield pool


class DaskPool:
    """Tasks in flight, and the state of the cluster."""

    def __init__(self, client: Any, address: str, timeout: float) -> None:
        self.client, self.address, self.timeout = client, address, timeout
        self.name = f"flcert-{client.id}"
        self.capacity = TASKS_AHEAD
        self._lost: LostClusterError | None = None
        self._in_flight: set[Future[Any]] = set()
        self._lock = threading.Lock()

    def submit(self, function: Callable[[Federation, Task], Result], task: Task) -> "Future[Result]":
        """Send the task as bytes, so that Dask does not look into it."""
        future: Future[Result] = Future()
        with self._lock:
            if self._lost:
                raise self._lost
            self._in_flight.add(future)
        key = f"{self.name}-{uuid4().hex}"
        remote = self.client.submit(call, self.name, pickle.dumps((function, task)), key=key, pure=False)
        remote.add_done_callback(partial(self._settle, future))
        return future

    def _settle(self, future: "Future[Any]", remote: Any) -> None:
        """Pass on the outcome of a task; called by one of Dask's threads."""
        try:
            error = remote.exception() if remote.status == "error" else None
            result, error = pickle.loads(remote.result()) if error is None else (None, error)
        except BaseException as problem:  # not the task's error: it was cancelled, or its result could not be fetched
            self._give_up(f"{type(problem).__name__}: {problem}")
            return
        if isinstance(error, UnfitWorkerError):
            self._give_up(str(error))
            return
        self._in_flight.discard(future)
        with suppress(InvalidStateError):  # given up in the meantime
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(_as_ours(error))

    def _give_up(self, reason: str) -> None:
        with self._lock:
            self._lost = self._lost or LostClusterError(f"the cluster of {self.address} is lost: {reason}")
            abandoned, self._in_flight = self._in_flight, set()
        for future in abandoned:
            with suppress(InvalidStateError):
                future.set_exception(self._lost)

    @contextmanager
    def holding(self, federation: Federation) -> Iterator[None]:
        """Hand the federation to every worker, including those that join later, until the end of the block."""
        _forget_the_dead(self.client)
        try:
            self.client.register_plugin(Holder(self.name, federation, facts()), name=self.name)
        except Exception as error:  # whatever a worker raised
            raise RunError(f"a worker of {self.address} cannot take the data: {_reason(error)}") from None
        try:
            yield
        finally:
            if not self._lost:
                with suppress(Exception):  # the workers may be gone
                    self.client.unregister_worker_plugin(self.name)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Check regularly until the end of the block how many workers the cluster has, and if it is still there."""
        done = threading.Event()
        self._count_workers()
        watcher = threading.Thread(target=self._watch, args=(done,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join(CLOSING)

    def _watch(self, done: threading.Event) -> None:
        seen = monotonic()
        while not self._lost and not done.wait(POLL):
            if self.client.status != "running":
                self._give_up("the connection to the scheduler broke")
            elif self._count_workers():
                seen = monotonic()
            elif monotonic() - seen > self.timeout:
                self._give_up(f"no worker for {self.timeout:g} s")

    def _count_workers(self) -> int:
        try:
            count = len(self.client.nthreads())
        except Exception:  # the scheduler is gone or stopping; the connection shows it
            return 0
        self.capacity = TASKS_AHEAD * max(1, count)
        return count


class QuietClient(Client):
    """A client that reports a failed connection only in its error, not again with a traceback when it is deleted."""

    def __del__(self) -> None:
        """Close it, without errors if it never opened."""
        with suppress(Exception):
            super().__del__()  # type: ignore[no-untyped-call]


@contextmanager
def _connected(address: str, timeout: float) -> Iterator[Any]:
    """A client of the scheduler, which has at least one worker."""
    try:
        client = QuietClient(address, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError, ImportError) as error:
        raise RunError(f"cannot reach the scheduler {address} in {timeout:g} s: {_reason(error)}; {KEPT}") from None
    try:
        client.wait_for_workers(1, timeout=timeout)
        yield client
    except TimeoutError:
        raise RunError(f"the scheduler {address} has had no worker for {timeout:g} s; {KEPT}") from None
    finally:
        with suppress(Exception):  # the scheduler may be gone
            client.close(CLOSING)


@contextmanager
def _local_cluster(workers: int) -> Iterator[str]:
    """The address of a cluster of processes on this machine, reachable from this machine only."""
    with scratch_directory() as directory:
        start_resource_tracker()  # later, it would undo the next line
        with without_interrupts():  # threads and processes that it starts inherit this
            try:
                cluster = LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address=None,
                    memory_limit=None,
                    local_directory=str(directory),
                    silence_logs=logging.CRITICAL,
                    scheduler_kwargs={"allowed_failures": ALLOWED_DEATHS, "dashboard_address": "127.0.0.1:0"},
                )
            except RuntimeError:
                raise RunError(CANNOT_START) from None
        try:
            yield cluster.scheduler_address
        finally:
            with suppress(Exception):
                cluster.close(CLOSING)


def _forget_the_dead(client: Any) -> None:
    """Make the cluster delete what killed clients left there."""

    def left_behind(dask_scheduler: Any) -> list[str]:  # nested, so it is sent whole: flcert need not be there
        names = [name for name in dask_scheduler.worker_plugins if name.startswith("flcert-")]
        return [name for name in names if name.removeprefix("flcert-") not in dask_scheduler.clients]

    for name in client.run_on_scheduler(left_behind):
        with suppress(Exception):  # a worker that never had it complains
            client.unregister_worker_plugin(name)


def _as_ours(error: BaseException) -> BaseException:
    if isinstance(error, KilledWorker | ChildDiedError):
        return WorkerDiedError(str(error))
    return error


def _reason(error: BaseException) -> str:
    """The first line of the error's message, or its type if it has none."""
    return str(error).partition("\n")[0] or type(error).__name__


@contextmanager
def _silence() -> Iterator[None]:
    """Keep Dask's own log lines and warnings off standard error; our errors say what matters."""
    names = ("distributed", "distributed.client", "distributed.gc", "tornado", "tornado.application")
    handlers = {handler: handler.level for name in names for handler in logging.getLogger(name).handlers}
    for handler in handlers:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="distributed")
            yield
    finally:
        for handler, level in handlers.items():
            handler.setLevel(level)
