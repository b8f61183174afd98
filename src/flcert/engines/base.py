"""The interface of an engine, and the loop that drives it, with retries that blame only the task at fault."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from flcert.datasets import Federation
from flcert.errors import RunError

Task = TypeVar("Task")
Result = TypeVar("Result")

ATTEMPTS_ALONE = 2
CANNOT_START = (
    "worker processes die as soon as they start; a script that trains with processes must do so under "
    "`if __name__ == '__main__':` (or use the inline engine)"
)


class WorkerDiedError(Exception):
    """The process that ran this task died; the other workers go on."""


class Pool(Protocol):
    """Workers that hold one federation."""

    @property
    def capacity(self) -> int:
        """How many tasks to have in flight now; a cluster's workers come and go."""

    def submit(self, function: Callable[[Federation, Task], Result], task: Task) -> "Future[Result]":
        """Run ``function(federation, task)`` in a worker."""


class Engine(Protocol):
    """A way to run tasks."""

    @property
    def workers(self) -> int:
        """How many tasks run at once; for a cluster that others started, its pool knows."""

    @property
    def imports_main(self) -> bool:
        """Whether tasks can use what the running script or notebook defines itself."""

    def pool(self, federation: Federation) -> AbstractContextManager[Pool]:
        """Start workers and hand them the federation, once."""


@dataclass(frozen=True)
class Failure:
    """Why a task has no result."""

    reason: str


class Workers:
    """An engine's workers for one federation: started when first needed, replaced when one dies.

    Use it as a context manager; leaving it stops the workers, at once if an exception was raised.
    """

    def __init__(self, engine: Engine, federation: Federation) -> None:
        self.engine = engine
        self.federation = federation
        self._open = ExitStack()
        self._pool: Pool | None = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *exception: Any) -> None:
        self._open.__exit__(*exception)

    def completed(
        self, function: Callable[[Federation, Task], Result], tasks: Sequence[Callable[[], Task]]
    ) -> Iterator[tuple[int, Result | Failure]]:
        """Run ``function(federation, task)`` for every task and yield (position, result or failure), in any order.

        A task that raises, and all tasks in flight when a worker dies, are run again one at a time, with nothing else
        running. This finds a task that kills its worker without blaming any other, and gives another chance to one
        that ran out of memory beside a large neighbour. A task that also fails alone is a failure.

        Args:
            function: a module-level function, so that other processes can import it.
            tasks: functions that make each task when it is sent, so that large tasks need not wait in memory.
        """
        waiting = deque(range(len(tasks)))
        while waiting:
            suspects = yield from self._until_broken(function, tasks, waiting)
            for position in suspects:
                yield position, self._alone(function, tasks[position])

    def _until_broken(
        self,
        function: Callable[[Federation, Task], Result],
        tasks: Sequence[Callable[[], Task]],
        waiting: deque[int],
    ) -> Generator[tuple[int, Result | Failure], None, list[int]]:
        """Work through ``waiting`` until it is empty or a worker dies; returns the tasks without a result."""
        in_flight: dict[Future[Result], int] = {}
        suspects: list[int] = []
        broken = False
        while in_flight or (waiting and not broken):
            while waiting and not broken and len(in_flight) < self._started().capacity:
                position = waiting.popleft()
                try:
                    in_flight[self._started().submit(function, tasks[position]())] = position
                except BrokenExecutor:
                    suspects.append(position)
                    broken = True
            for future in wait(in_flight, return_when=FIRST_COMPLETED).done:
                position = in_flight.pop(future)
                if future.exception() is None:
                    yield position, future.result()
                else:
                    suspects.append(position)
                    broken = broken or isinstance(future.exception(), BrokenExecutor)
        if broken:
            self._stop()
        return sorted(suspects)

    def _alone(self, function: Callable[[Federation, Task], Result], task: Callable[[], Task]) -> Result | Failure:
        """Run one task while the workers are otherwise idle."""
        for _ in range(ATTEMPTS_ALONE):
            if self._attempt(_nothing, None) is None:
                raise RunError(CANNOT_START)
            future = self._attempt(function, task())
            if future is not None:
                return _outcome(future)
        return Failure(f"its worker process died {ATTEMPTS_ALONE + 1} times")

    def _attempt(self, function: Callable[[Federation, Task], Result], task: Task) -> "Future[Result] | None":
        """The future of a finished task, or None if its worker died."""
        try:
            future = self._started().submit(function, task)
            error = future.exception()
        except BrokenExecutor as broken:
            error = broken
        if isinstance(error, BrokenExecutor):
            self._stop()
        return None if isinstance(error, BrokenExecutor | WorkerDiedError) else future

    def _started(self) -> Pool:
        if self._pool is None:
            self._pool = self._open.enter_context(self.engine.pool(self.federation))
        return self._pool

    def _stop(self) -> None:
        self._open.close()
        self._pool = None


def _nothing(federation: Federation, task: None) -> None:
    """A task that any worker can do."""


def _outcome(future: "Future[Result]") -> Result | Failure:
    error = future.exception()
    if error is not None:
        return Failure(f"{type(error).__name__}: {error}")
    return future.result()
