"""Where groups are trained: each engine runs ``function(federation, task)`` for many tasks."""

from collections.abc import Callable

from flcert.engines.base import Engine, Failure, Workers
from flcert.engines.dask import Dask
from flcert.engines.inline import Inline
from flcert.engines.processes import Processes
from flcert.errors import InputError, unknown_name

ENGINES: dict[str, Callable[..., Engine]] = {
    "dask": Dask,
    "inline": Inline,
    "processes": Processes,
}
"""The engines by name."""

__all__ = ["ENGINES", "Dask", "Engine", "Failure", "Inline", "Processes", "Workers", "build"]


def build(
    name: str, workers: int | None = None, *, scheduler: str | None = None, timeout: float | None = None
) -> Engine:
    """The engine called ``name``, with its own defaults for missing arguments.

    Args:
        name: from ``ENGINES``.
        workers: how many processes to start.
        scheduler: address of a Dask cluster, which has its own workers.
        timeout: seconds to wait for that cluster.
    """
    if name not in ENGINES:
        raise unknown_name("engine", name, ENGINES)
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    given = {"workers": workers, "scheduler": scheduler, "timeout": timeout}
    options = {option: value for option, value in given.items() if value is not None}
    for option in ("scheduler", "timeout"):
        if option in options and name != "dask":
            raise InputError(f"{option} goes with engine 'dask', got {options[option]!r} with engine {name!r}")
    if "scheduler" in options and "workers" in options:
        raise InputError(f"the workers of {scheduler} are there already; leave out workers={workers}")
    return ENGINES[name](**options)
