"""Workers of a Dask cluster, on many machines or on this one; each is sent the federation once and maps its copy."""

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

from flcert.datasets import Federation
from flcert.engines.base import Pool
from flcert.errors import InputError

SCHEMES = ("tcp", "tls", "ws", "wss")


@dataclass(frozen=True)
class Dask:
    """Workers of a Dask cluster.

    Args:
        workers: how many processes to start here; by default one for each core. A scheduler has its own workers.
        scheduler: the address of a running cluster (``tcp://host:8786``); without one a local cluster is started.
        timeout: seconds to wait for the scheduler and for its first worker.
    """

    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    scheduler: str | None = None
    timeout: float = 30.0
    imports_main: ClassVar[bool] = False  # a worker trains in a process that knows nothing of the script

    def __post_init__(self) -> None:
        if importlib.util.find_spec("distributed") is None:
            raise InputError("engine 'dask' needs an extra: pip install 'flcert[dask]'")
        if self.scheduler is not None and not _is_address(self.scheduler):
            raise InputError(f"scheduler must be an address such as tcp://host:8786, got {self.scheduler!r}")
        if not 0 < self.timeout < float("inf"):
            raise InputError(f"timeout must be a positive number of seconds, got {self.timeout}")

    @contextmanager
    def pool(self, federation: Federation) -> Iterator[Pool]:
        """Connect to the cluster, or start one, and hand the federation to its workers."""
        from flcert.engines import dask_cluster  # imported here because it needs the extra

        with dask_cluster.opened(federation, self.scheduler, self.workers, self.timeout) as pool:
            yield pool


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in SCHEMES and bool(parts.hostname and parts.port)
    except ValueError:  # an invalid port
        return False
