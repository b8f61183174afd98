"""What most of the work needs: workers, the store, and a callback for progress."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from flcert.core.store import Store
from flcert.datasets import Federation
from flcert.engines import Workers

Progress = Callable[[str, int, int], None]
"""Called with a stage, the number done and the total."""


def silent(stage: str, done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Context:
    """Where work is done and kept.

    Args:
        workers: where groups train and models vote; they hold the federation.
        store: where models and votes are kept.
        progress: called with a stage, the number done and the total.
        under: a prefix for the name of every stage.
    """

    workers: Workers
    store: Store
    progress: Progress = silent
    under: str = ""

    @property
    def federation(self) -> Federation:
        """The clients' data and the test set."""
        return self.workers.federation

    def stage(self, name: str) -> Callable[[int, int], None]:
        """A function to call with the number done and the total in a stage."""
        return partial(self.progress, f"{self.under}{name}")

    def attacked(self) -> "Context":
        """The same context, for work on groups under attack."""
        return replace(self, under="attacked ")
