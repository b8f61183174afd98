"""Tasks in this process: for notebooks, debugging and tests. Models have the same bytes as from any other engine."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from flcert.core.determinism import one_thread, restored_generators
from flcert.datasets import Federation
from flcert.engines.base import Pool, Result, Task


@dataclass(frozen=True)
class Inline:
    """Runs each task when it is submitted."""

    workers: int = 1
    imports_main: ClassVar[bool] = True

    @contextmanager
    def pool(self, federation: Federation) -> Iterator[Pool]:
        """This process."""
        yield _InlinePool(federation, self.workers)


@dataclass(frozen=True)
class _InlinePool:
    federation: Federation
    capacity: int

    def submit(self, function: Callable[[Federation, Task], Result], task: Task) -> "Future[Result]":
        future: Future[Result] = Future()
        try:
            with one_thread(), restored_generators():
                future.set_result(function(self.federation, task))
        except Exception as error:  # becomes the task's failure, as it would in a worker
            future.set_exception(error)
        return future
