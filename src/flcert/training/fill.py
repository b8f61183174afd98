"""Computing what the store lacks: the one loop behind training and voting."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from flcert.datasets import Federation
from flcert.engines import Failure, Workers
from flcert.errors import IntegrityError
from flcert.store import Arrays, Store

Task = TypeVar("Task")
Progress = Callable[[str, int, int], None]  # stage, done, total


def silent(stage: str, done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Job(Generic[Task]):
    """A task, and the key of each array set that it results in.

    Args:
        keys: the store's key of each result, by the round it belongs to.
        task: makes the task when it is sent to a worker.
    """

    keys: Mapping[int, str]
    task: Callable[[], Task]


@dataclass(frozen=True)
class Tally:
    """What it took to have all results in the store.

    Args:
        computed: jobs that were run.
        reused: jobs whose results were there already.
        damaged: jobs that were run because a stored result was altered or cut short.
        failures: why a job has no result, by its name.
    """

    computed: int
    reused: int
    damaged: int
    failures: dict[str, str]


def fill(
    store: Store,
    workers: Workers,
    function: Callable[[Federation, Task], dict[int, Arrays]],
    jobs: Mapping[str, Job[Task]],
    report: Callable[[int, int], None],
) -> Tally:
    """Run every job whose results are not all in the store, and store each as soon as it is there.

    Args:
        store: where results are kept.
        workers: where jobs run.
        function: computes a task's results, by round.
        jobs: by name; equal names are one job.
        report: called with the number done and the total.
    """
    states = {name: state(store, job.keys.values()) for name, job in jobs.items()}
    missing = [name for name, state in states.items() if state != "present"]
    failures: dict[str, str] = {}
    reused = len(jobs) - len(missing)
    report(reused, len(jobs))
    results = workers.completed(function, [jobs[name].task for name in missing])
    for done, (position, result) in enumerate(results, reused + 1):
        name = missing[position]
        if isinstance(result, Failure):
            failures[name] = result.reason
        else:
            for number, key in jobs[name].keys.items():
                store.write(key, result[number])
        report(done, len(jobs))
    damaged = sum(state == "damaged" for state in states.values())
    return Tally(len(missing) - len(failures), reused, damaged, failures)


def state(store: Store, keys: Iterable[str]) -> str:
    """Whether all these results are "present"; else they are "absent" or "damaged"."""
    try:
        return "present" if all(store.read(key) is not None for key in keys) else "absent"
    except IntegrityError:
        return "damaged"
