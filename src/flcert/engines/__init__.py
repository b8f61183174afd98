"""Where groups are trained: each engine runs ``function(federation, task)`` for many tasks."""

from collections.abc import Callable

from flcert.engines.base import Engine, Failure, Workers
from flcert.engines.inline import Inline
from flcert.engines.processes import Processes
from flcert.errors import InputError, unknown_name

ENGINES: dict[str, Callable[..., Engine]] = {
    "inline": Inline,
    "processes": Processes,
}

__all__ = ["ENGINES", "Engine", "Failure", "Inline", "Processes", "Workers", "build"]


def build(name: str, workers: int | None = None) -> Engine:
    """The engine called ``name``, with its own default number of workers unless told otherwise."""
    if name not in ENGINES:
        raise unknown_name("engine", name, ENGINES)
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    return ENGINES[name]() if workers is None else ENGINES[name](workers)
