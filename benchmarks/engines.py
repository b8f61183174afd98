"""What an engine costs: the time of a group in each of them, side by side.

The same small groups of the digits are trained by every engine with one worker each, in turns, with a new store each
time. Workers are started before the clock; "start-up" is what that took, the hand-over of the data included. A ratio
is an engine's time of a group over that of the inline engine; "overhead" is the difference.

Run it with ``python benchmarks/engines.py``; ``--help`` lists the options.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

from rich.console import Console
from rich.table import Table

from flcert import Federation, Recipe, datasets, grouping
from flcert.engines import Dask, Engine, Inline, Processes, Workers
from flcert.grouping import Grouping
from flcert.store import Store
from flcert.training.train import train_groups

# One row each; the first is what the others are compared with. A new engine gets a line here.
ENGINES: dict[str, Callable[[], Engine]] = {
    "inline": Inline,
    "processes": lambda: Processes(workers=1),
    "dask": lambda: Dask(workers=1),
}


def seconds_of(action: Callable[[], object]) -> float:
    start = perf_counter()
    action()
    return perf_counter() - start


def train_all(workers: Workers, groups: Grouping, recipe: Recipe) -> None:
    """Train every group into a store of its own, deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="flcert-benchmark-") as directory:
        ensemble = train_groups(workers, groups, recipe, Store(Path(directory)))
    assert not ensemble.failures, ensemble.failures


@contextmanager
def started(names: Sequence[str], federation: Federation) -> Iterator[dict[str, tuple[Workers, float]]]:
    """The workers of each engine, up and warm, and the seconds that this took."""
    one_group = grouping.hashed(federation.ids, num_groups=1)
    with ExitStack() as stack:
        opened = {}
        for name in names:
            workers = stack.enter_context(Workers(ENGINES[name](), federation))
            opened[name] = workers, seconds_of(lambda workers=workers: train_all(workers, one_group, Recipe(rounds=1)))
        yield opened


def measure(names: Sequence[str], repeats: int, num_groups: int, rounds: int) -> dict[str, tuple[float, float]]:
    """For each engine seconds of start-up, and the median milliseconds of a group."""
    federation = datasets.load("digits")
    groups, recipe = grouping.hashed(federation.ids, num_groups), Recipe(rounds=rounds, local_steps=1)
    num_trained = int((groups.sizes > 0).sum())
    taken: dict[str, list[float]] = {name: [] for name in names}
    with started(names, federation) as opened:
        for _ in range(repeats):
            for name, (workers, _) in opened.items():
                seconds = seconds_of(lambda workers=workers: train_all(workers, groups, recipe))
                taken[name].append(1000 * seconds / num_trained)
                print(f"{name}: {taken[name][-1]:.2f} ms a group", file=sys.stderr)
        return {name: (opened[name][1], median(taken[name])) for name in names}


def print_table(measured: dict[str, tuple[float, float]], num_groups: int) -> None:
    """One row an engine, compared with the first."""
    base = next(iter(measured.values()))[1]
    table = Table(title=f"Digits, {num_groups} groups, one worker")
    table.add_column("engine")
    for heading in ("start-up s", "ms a group", "overhead ms", "ratio"):
        table.add_column(heading, justify="right")
    for name, (start_up, group) in measured.items():
        table.add_row(name, f"{start_up:.2f}", f"{group:.2f}", f"{group - base:.2f}", f"{group / base:.2f}")
    Console(width=100).print(table)


def main() -> None:
    """Measure every engine and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each engine (default: 5)")
    parser.add_argument("--groups", type=int, default=100, help="groups of 200 clients (default: 100)")
    parser.add_argument("--rounds", type=int, default=1, help="of a group's training (default: 1)")
    parser.add_argument(
        "--engine", nargs="+", choices=ENGINES, default=list(ENGINES), help="which, the base first (default: all)"
    )
    options = parser.parse_args()
    print_table(measure(options.engine, options.repeats, options.groups, options.rounds), options.groups)


if __name__ == "__main__":
    main()
