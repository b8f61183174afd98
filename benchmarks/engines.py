"""What an engine costs: the time of a group in each of them, side by side.

The same small groups of the digits are trained by every engine with one worker each, in turns, with nothing kept from
one turn to the next. "ms a group" is the time from the call to the last group's model, over the number of groups, the
median of three trainings in each turn; "overhead" and "ratio" compare it with the inline engine's. It is taken with
workers that have already trained the same groups for one round. "start, stop s" is what starting them, that round, and
stopping them took. "whole s" is the sum, what one waits for all groups, without votes, certificate and report.

The last two rows are Flower's simulation with Ray. "flower-simulation" trains all groups at once in one of them by the
ServerApp of examples/flower. "plain-flower" is what one does without flcert: Flower's FedAvg on the clients of one
group, one simulation after the other, so that each group pays for start and stop.

Run it with ``python benchmarks/engines.py``; ``--help`` lists the options. Rows whose packages are missing are left
out.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import time
from typing import Any

from rich.console import Console
from rich.table import Table

from flcert import Federation, Recipe, datasets, grouping
from flcert.core.store import Store
from flcert.engines import Dask, Engine, Inline, Processes, Workers
from flcert.grouping import Grouping
from flcert.training.context import Context
from flcert.training.train import train_groups

ROOT = Path(__file__).parents[1]
TRAININGS = 3  # in a turn, with the same workers
Train = Callable[[Recipe], float]  # trains all groups; returns the time at which the last was done
Opened = Callable[[Federation, Grouping, Recipe], AbstractContextManager[Train]]


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Args:
        opened: starts the workers for some groups and stops them.
        needs: packages that must be installed.
        apart: whether each group is started alone, after the one before has stopped.
    """

    opened: Opened
    needs: Sequence[str] = ()
    apart: bool = False


@dataclass(frozen=True)
class Seconds:
    """What all groups took."""

    start_stop: float
    training: float


def workers_of(engine: Callable[[], Engine]) -> Opened:
    """The workers of one of flcert's engines."""

    @contextmanager
    def opened(federation: Federation, groups: Grouping, _: Recipe) -> Iterator[Train]:
        with Workers(engine(), federation) as workers:
            yield partial(train_all, workers, groups)

    return opened


def train_all(workers: Workers, groups: Grouping, recipe: Recipe) -> float:
    """Train every group into a store of its own, deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="flcert-benchmark-") as directory:
        ensemble = train_groups(Context(workers, Store(Path(directory))), groups, recipe)
        done = time()
    assert not ensemble.failures, ensemble.failures
    return done


def over_flower(name: str) -> Opened:
    """A function of flower_engines, imported only when it is called: it needs an extra, the example and the tests."""

    def opened(*given: Any) -> AbstractContextManager[Train]:
        os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0")
        sys.path += [path for path in (str(ROOT), str(ROOT / "examples" / "flower")) if path not in sys.path]
        found: AbstractContextManager[Train] = getattr(import_module("flower_engines"), name)(*given)
        return found

    return opened


# The first is what the others are compared with. A new engine gets a line here.
ROWS: dict[str, Row] = {
    "inline": Row(workers_of(Inline)),
    "processes": Row(workers_of(lambda: Processes(workers=1))),
    "dask": Row(workers_of(lambda: Dask(workers=1)), needs=["distributed"]),
    "flower-in-process": Row(over_flower("in_process"), needs=["flwr"]),
    "flower-simulation": Row(over_flower("simulated"), needs=["flwr", "ray"]),
    "plain-flower": Row(over_flower("plain"), needs=["flwr", "ray"], apart=True),
}


def is_installed(name: str) -> bool:
    """Whether a row can be measured; if not, a message says what is missing."""
    missing = [package for package in ROWS[name].needs if find_spec(package) is None]
    if missing:
        print(f"{name}: left out, not installed: {', '.join(missing)}", file=sys.stderr)
    return not missing


def seconds_of(train: Train, recipe: Recipe) -> float:
    begun = time()
    return train(recipe) - begun


def take(row: Row, federation: Federation, groups: Grouping, recipe: Recipe) -> Seconds:
    """Start, train for one round, train several times, and stop."""
    begun = time()
    with row.opened(federation, groups, recipe) as train:
        started = train(recipe.model_copy(update={"rounds": 1})) - begun
        trained = [seconds_of(train, recipe) for _ in range(TRAININGS)]
        leaving = time()
    return Seconds(started + time() - leaving, median(trained))


def turn(row: Row, federation: Federation, groups: Grouping, recipe: Recipe) -> Seconds:
    """Train all groups once, together or apart."""
    alone = [Grouping(groups.kind, groups.num_clients, (members,)) for members in groups.members if len(members)]
    taken = [take(row, federation, part, recipe) for part in (alone if row.apart else [groups])]
    return Seconds(sum(one.start_stop for one in taken), sum(one.training for one in taken))


def measure(
    names: Sequence[str], repeats: int, federation: Federation, groups: Grouping, recipe: Recipe
) -> dict[str, Seconds]:
    """The median seconds of each engine."""
    taken: dict[str, list[Seconds]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            taken[name].append(turn(ROWS[name], federation, groups, recipe))
            print(f"{name}: {taken[name][-1].training:.2f} s for all groups", file=sys.stderr)
    return {
        name: Seconds(median(one.start_stop for one in turns), median(one.training for one in turns))
        for name, turns in taken.items()
    }


def print_table(measured: dict[str, Seconds], groups: Grouping, recipe: Recipe) -> None:
    """One row an engine, compared with the first."""
    base, num_trained = next(iter(measured.values())).training, int((groups.sizes > 0).sum())
    clients = f"{groups.num_clients} clients in {num_trained} groups"
    table = Table(title=f"Digits, {clients}, {recipe.rounds} rounds, one worker")
    table.add_column("engine")
    for heading in ("ms a group", "overhead ms", "ratio", "start, stop s", "whole s"):
        table.add_column(heading, justify="right")
    for name, taken in measured.items():
        group, overhead = (1000 * seconds / num_trained for seconds in (taken.training, taken.training - base))
        whole = taken.start_stop + taken.training
        cells = (f"{group:.1f}", f"{overhead:.1f}", f"{taken.training / base:.1f}", f"{taken.start_stop:.2f}")
        table.add_row(name, *cells, f"{whole:.2f}")
    Console(width=100).print(table)


def main() -> None:
    """Measure every engine and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each engine (default: 3)")
    parser.add_argument("--clients", type=int, default=24, help="of the digits (default: 24)")
    parser.add_argument("--groups", type=int, default=6, help="that the clients are put into (default: 6)")
    parser.add_argument("--rounds", type=int, default=5, help="of a group's training (default: 5)")
    parser.add_argument("--engine", nargs="+", choices=ROWS, default=list(ROWS), help="the base first (default: all)")
    options = parser.parse_args()
    federation, recipe = datasets.load("digits", num_clients=options.clients), Recipe(rounds=options.rounds)
    groups = grouping.hashed(federation.ids, options.groups)
    names = [name for name in options.engine if is_installed(name)]
    if names:
        print_table(measure(names, options.repeats, federation, groups, recipe), groups, recipe)


if __name__ == "__main__":
    main()
