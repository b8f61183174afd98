"""A plugin of Dask's workers: it keeps the federation, and a child process that trains on it."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from distributed import WorkerPlugin

from flcert.dask_worker.child import Child, UnfitWorkerError
from flcert.dask_worker.facts import differences
from flcert.datasets.federation import Federation

_children: dict[str, Child] = {}  # of this worker, by the name of the client's pool


class Holder(WorkerPlugin):
    """Keeps a federation in a worker, in files that its child process maps.

    Args:
        pool: the name of the pool that sends it.
        federation: what to keep.
        facts: the facts of the process that sends it.
    """

    def __init__(self, pool: str, federation: Federation, facts: dict[str, str]) -> None:
        self.pool, self.facts = pool, facts
        self.federation: Federation | None = federation
        self.directory: Path | None = None

    async def setup(self, worker: Any) -> None:
        """Called by Dask: write the arrays to the worker's scratch directory and start the child."""
        self.directory = Path(tempfile.mkdtemp(prefix="flcert-", dir=worker.local_directory))
        child = await asyncio.to_thread(self._start, self.directory)
        if different := differences(child.facts, self.facts):
            child.stop()
            raise UnfitWorkerError(f"{worker.address} differs: {different}")
        _children[self.pool] = child

    def _start(self, directory: Path) -> Child:
        federation, self.federation = self.federation, None
        assert federation is not None
        federation.save(directory)
        return Child(directory)

    def teardown(self, worker: Any) -> None:  # noqa: ARG002 (Dask's signature)
        """Called by Dask: forget the federation, and stop the child that works on it."""
        if child := _children.pop(self.pool, None):
            child.stop()
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)


def call(pool: str, work: bytes) -> bytes:
    """The pickled outcome of a pickled (function, task), on the federation of this pool."""
    if pool not in _children:
        raise UnfitWorkerError("a worker joined that could not take the data")
    return _children[pool].run(work)
