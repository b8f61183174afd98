"""How training scales with worker processes, and how much memory a worker takes.

Speed: all groups of the default digits federation (200 clients hashed into 40 groups) are trained by 1 and by 2
workers, with a new store each time. "whole call" is ``flcert.training.train`` as a user calls it. "start-up" is the
time until every worker is up, seen by tasks that wait for each other; "training" is what the groups then take.

Memory: the resident and the private memory (RSS and USS) of the workers are sampled while they train; the largest
values are printed. If workers copied the federation instead of mapping it, the CNN's two rows would differ by its size.

Run it with ``python benchmarks/workers.py``; ``--help`` lists the options.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Event, Thread
from time import perf_counter, sleep

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from flcert import Config, Federation, Recipe, datasets, grouping
from flcert.core.settings import Choice
from flcert.core.store import Store
from flcert.engines import Processes, Workers
from flcert.grouping import Grouping
from flcert.training import train
from flcert.training.context import Context
from flcert.training.train import train_groups

WORKERS = (1, 2)
TARGET = 1.7
MEGABYTE = 2**20


@dataclass(frozen=True)
class Seconds:
    """How long one number of workers took."""

    whole: float
    start_up: float
    training: float


@dataclass
class Peak:
    """The largest memory of a child process seen so far, in bytes."""

    resident: int = 0
    private: int = 0


@dataclass(frozen=True)
class MemoryCase:
    """A training whose memory is measured."""

    name: str
    federation: Federation
    groups: Grouping
    recipe: Recipe = field(default_factory=Recipe)

    @property
    def size(self) -> int:
        """Bytes of the federation's large arrays."""
        return int(self.federation.inputs.nbytes + self.federation.labels.nbytes + self.federation.test_inputs.nbytes)


@contextmanager
def empty_store() -> Iterator[Store]:
    """A store of its own, deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="flcert-benchmark-") as directory:
        yield Store(Path(directory))


def seconds_of(action: Callable[[], object]) -> float:
    start = perf_counter()
    action()
    return perf_counter() - start


def time_training(federation: Federation, groups: Grouping, num_workers: int) -> Seconds:
    """One measurement: the whole call, then start-up and training apart."""
    engine, recipe = Processes(workers=num_workers), Recipe()
    with empty_store() as store:
        whole = seconds_of(lambda: train(federation, groups, recipe, engine=engine, store=store))
    with empty_store() as store, Workers(engine, federation) as workers:
        start_up = seconds_of(lambda: start(workers))
        training = seconds_of(lambda: train_groups(Context(workers, store), groups, recipe))
    return Seconds(whole, start_up, training)


def start(workers: Workers) -> None:
    """Return when all workers are up."""
    count = workers.engine.workers
    with tempfile.TemporaryDirectory(prefix="flcert-benchmark-") as directory:
        list(workers.completed(meet, [lambda: (directory, count)] * count))


def meet(_federation: Federation, place: tuple[str, int]) -> None:
    """Runs in a worker: wait for the others."""
    directory, count = Path(place[0]), place[1]
    (directory / str(os.getpid())).touch()
    while len(list(directory.iterdir())) < count:
        sleep(0.001)


def median_seconds(repeats: int) -> dict[int, Seconds]:
    """The medians of each number of workers, which take turns."""
    federation = datasets.load("digits")
    groups = Config().grouping.build(federation.ids)
    taken: dict[int, list[Seconds]] = {count: [] for count in WORKERS}
    for _ in range(repeats):
        for count in WORKERS:
            taken[count].append(time_training(federation, groups, count))
            print(f"{count} workers: {taken[count][-1]}", file=sys.stderr)
    return {
        count: Seconds(
            median(one.whole for one in runs),
            median(one.start_up for one in runs),
            median(one.training for one in runs),
        )
        for count, runs in taken.items()
    }


def print_speed(repeats: int) -> None:
    """Measure the time of each number of workers and print it."""
    one, two = median_seconds(repeats).values()
    table = Table(title="Default digits federation, 40 groups, new store: seconds")
    table.add_column("workers")
    for heading in ("whole call", "start-up", "training"):
        table.add_column(heading, justify="right")
    for count, seconds in zip(WORKERS, (one, two), strict=True):
        table.add_row(str(count), f"{seconds.whole:.2f}", f"{seconds.start_up:.2f}", f"{seconds.training:.2f}")
    table.add_section()
    table.add_row("speed-up", f"{one.whole / two.whole:.2f}", "", f"{one.training / two.training:.2f}")
    table.add_row("target", "", "", f"{TARGET:.2f}")
    Console(width=100).print(table)


def random_images(num_clients: int, seed: int) -> Federation:
    """Clients with 60 random images of MNIST's size each."""
    generator = np.random.default_rng(seed)
    clients = {
        f"client-{i:04d}": (generator.random((60, 28, 28), dtype=np.float32), generator.integers(10, size=60))
        for i in range(num_clients)
    }
    return Federation.build("random images", clients, clients["client-0000"], num_labels=10)


def memory_cases(num_clients: int, seed: int) -> Iterator[MemoryCase]:
    """The digits, and the CNN on few and on many clients."""
    digits = datasets.load("digits")
    yield MemoryCase("digits, mlp", digits, Config().grouping.build(digits.ids))
    recipe = Recipe(model=Choice(name="cnn"), rounds=2, learning_rate=0.001, batch_size=32, reduction="sum")
    for count in (20, num_clients):
        images = random_images(count, seed)
        yield MemoryCase(f"random images, {count:,} clients, cnn", images, grouping.sampled(images.ids, 12, 2), recipe)


def peak_memory(case: MemoryCase) -> Peak:
    """The largest memory of a worker, of two, while the case is trained."""
    with empty_store() as store, watched_children() as peak:
        train(case.federation, case.groups, case.recipe, engine=Processes(workers=2), store=store)
    return peak


@contextmanager
def watched_children() -> Iterator[Peak]:
    """Sample the memory of this process's children while the body runs."""
    peak, done = Peak(), Event()
    watcher = Thread(target=_watch, args=(peak, done))
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def _watch(peak: Peak, done: Event) -> None:
    while not done.wait(0.02):
        for child in psutil.Process().children():
            try:
                memory = child.memory_full_info()
            except psutil.Error:  # it has just ended
                continue
            peak.resident, peak.private = max(peak.resident, memory.rss), max(peak.private, memory.uss)


def print_memory(num_clients: int, seed: int) -> None:
    """Measure the memory of each case and print it."""
    table = Table(title="Largest memory of a worker, two workers: MiB")
    table.add_column("federation")
    for heading in ("its size", "resident", "private"):
        table.add_column(heading, justify="right")
    for case in memory_cases(num_clients, seed):
        peak = peak_memory(case)
        table.add_row(case.name, *(f"{value / MEGABYTE:,.1f}" for value in (case.size, peak.resident, peak.private)))
    Console(width=100).print(table)


def main() -> None:
    """Measure speed, then memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each number of workers (default: 3)")
    parser.add_argument(
        "--clients", type=int, default=1_000, help="of the large federation of random images (default: 1000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random images (default: 0)")
    options = parser.parse_args()
    print_speed(options.repeats)
    print_memory(options.clients, options.seed)


if __name__ == "__main__":
    main()
