"""Compute what the store lacks: the one loop behind training and voting."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, Literal, TypeVar

import numpy as np

from flcert.core.determinism import kernels
from flcert.core.store import Arrays, Entry, Store
from flcert.datasets import Federation
from flcert.engines import Failure
from flcert.errors import IntegrityError, RunError
from flcert.training.context import Context

Task = TypeVar("Task")
State = Literal["present", "absent", "damaged"]


@dataclass(frozen=True)
class Job(Generic[Task]):
    """A task, and where each of its results is stored.

    Args:
        entries: the store's entry of each result, by the round it belongs to.
        task: makes the task when it is sent to a worker.
    """

    entries: Mapping[int, Entry]
    task: Callable[[], Task]


@dataclass(frozen=True)
class Filled:
    """What it took to get all results into the store.

    Args:
        computed: jobs that were run.
        reused: jobs whose results were already there.
        damaged: jobs that were run because a stored result was altered or cut short, or could not be read.
        failures: why a job has no result, by its name.
        diverged: keys of results with values that are not finite.
    """

    computed: int
    reused: int
    damaged: int
    failures: dict[str, str]
    diverged: frozenset[str]


def fill(
    context: Context,
    function: Callable[[Federation, Task], dict[int, Arrays]],
    jobs: Mapping[str, Job[Task]],
    report: Callable[[int, int], None],
) -> Filled:
    """Run every job whose results are not all in the store, and store each result as soon as it is ready.

    Args:
        context: where jobs run and results are kept.
        function: computes a task's results, by round.
        jobs: by name; equal names are one job.
        report: called with the number done and the total.
    """
    store, diverged = context.store, set[str]()
    states = {name: state(store, job.entries.values(), diverged) for name, job in jobs.items()}
    missing = [name for name, state in states.items() if state != "present"]
    failures: dict[str, str] = {}
    reused = len(jobs) - len(missing)
    report(reused, len(jobs))
    store.make_room(entry.key for name in missing for entry in jobs[name].entries.values())
    results = context.workers.completed(partial(_with_kernels, function), [jobs[name].task for name in missing])
    for done, (position, result) in enumerate(results, reused + 1):
        name = missing[position]
        if isinstance(result, Failure):
            failures[name] = result.reason
        else:
            kind, arrays = result
            for number, entry in jobs[name].entries.items():
                store.write(entry, arrays[number], kind)
                diverged |= set() if is_finite(arrays[number]) else {entry.key}
        report(done, len(jobs))
    damaged = sum(state == "damaged" for state in states.values())
    return Filled(len(missing) - len(failures), reused, damaged, failures, frozenset(diverged))


def _with_kernels(
    function: Callable[[Federation, Task], dict[int, Arrays]], federation: Federation, task: Task
) -> tuple[str, dict[int, Arrays]]:
    """The results of a task, and the kernels of the process that computes them."""
    try:
        return kernels(), function(federation, task)
    except SystemExit as error:  # a user's code may say that it is done, but not for everybody
        raise RunError(f"it ended with SystemExit: {error}") from error


def state(store: Store, entries: Iterable[Entry], diverged: set[str] | None = None) -> State:
    """Whether these results are all "present" and intact, or some are "absent" or "damaged".

    Args:
        store: where to look.
        entries: the entries of the results.
        diverged: collects the keys of results with values that are not finite.
    """
    try:
        for entry in entries:
            arrays = store.read(entry.key)
            if arrays is None:
                return "absent"
            store.complete_origin(entry)
            if diverged is not None and not is_finite(arrays):
                diverged.add(entry.key)
    except IntegrityError:
        return "damaged"
    return "present"


def is_finite(arrays: Arrays) -> bool:
    """Whether all numbers are finite."""
    return all(bool(np.isfinite(array).all()) for array in arrays.values())
