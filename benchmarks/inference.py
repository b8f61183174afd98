"""Many models asked about a few inputs: flcert's stacks beside a plain loop over torch modules.

Models of the paper's MNIST network, with weights drawn at random, are written to disk, loaded by both, and asked about
random pictures. "plain loop" calls one module after the other with the whole batch, as one would write it, with all
threads of torch; flcert asks stacks of models with one thread each, as ``run``, ``predict`` and ``serve`` do. Each way
runs in a process of its own, so that its memory can be read. A ratio is the plain loop's time over flcert's.

Run it with ``python benchmarks/inference.py``; ``--help`` lists the options.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import psutil
import torch
from rich.console import Console
from rich.table import Table

from flcert import Recipe, models
from flcert.core.settings import Choice
from flcert.core.store import Entry, Store
from flcert.grouping import Grouping
from flcert.training.ensemble import Electorate, Ensemble

SHAPE, LABELS, MODEL = (28, 28), 10, Choice(name="cnn")
BATCHES = (1, 32, 1000)


def write_models(directory: Path, number: int) -> None:
    """Models as different as training would make them, each a file of the store."""
    store = Store(directory)
    for seed in range(number):
        state = models.build(MODEL, SHAPE, LABELS, seed).state_dict()
        store.write(Entry(f"{seed:048x}", ()), {name: tensor.contiguous().numpy() for name, tensor in state.items()})


def ensemble_of(directory: Path, number: int) -> Ensemble:
    """The models as an ensemble of groups of one client each."""
    store, recipe = Store(directory), Recipe(model=MODEL)
    return Ensemble(
        grouping=Grouping("hashed", number, tuple(np.array([group]) for group in range(number))),
        recipe=recipe,
        input_shape=SHAPE,
        input_dtype="float32",
        num_labels=LABELS,
        keys=tuple({recipe.rounds: f"{group:048x}"} for group in range(number)),
        load=store.load,
    )


def stacks(ensemble: Ensemble) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """How flcert votes."""
    return Electorate(ensemble, list(ensemble.panels())).votes


def plain_loop(ensemble: Ensemble) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """How one would write it."""
    modules = [ensemble.module(group) for group in range(len(ensemble.keys))]

    def votes(inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        with torch.inference_mode():
            batch = torch.from_numpy(inputs)
            return np.stack([module(batch).argmax(1).numpy() for module in modules])

    return votes


WAYS = {"plain loop": plain_loop, "flcert": stacks}


def measure(way: str, directory: Path, number: int, repeats: int) -> dict[str, Any]:
    """Seconds to load, resident memory, milliseconds of each batch, and the votes."""
    before = psutil.Process().memory_info().rss
    start = perf_counter()
    votes = WAYS[way](ensemble_of(directory, number))
    loaded = perf_counter() - start
    memory = psutil.Process().memory_info().rss - before
    pictures = np.random.default_rng(0).random((max(BATCHES), *SHAPE), dtype=np.float32)
    times, cast = {}, {}
    for batch in BATCHES:
        inputs = pictures[:batch]
        cast[batch] = votes(inputs)
        taken = []
        for _ in range(repeats if batch < 1000 else 2):
            start = perf_counter()
            votes(inputs)
            taken.append(1000 * (perf_counter() - start))
        times[batch] = median(taken)
    return {"load": loaded, "memory": memory, "times": times, "votes": cast[max(BATCHES)].tolist()}


def in_own_process(way: str, directory: Path, number: int, repeats: int) -> dict[str, Any]:
    """What ``measure`` finds in a fresh process."""
    command = [sys.executable, __file__, "--way", way, "--directory", str(directory)]
    command += ["--models", str(number), "--repeats", str(repeats)]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"{way}: done", file=sys.stderr)
    return found


def print_table(found: dict[str, dict[str, Any]], number: int) -> None:
    """One row a way of asking."""
    table = Table(title=f"{number} models of the MNIST network")
    table.add_column("way")
    headings = ["load s", "memory MiB", *(f"{batch:,} inputs, ms" for batch in BATCHES)]
    for heading in headings:
        table.add_column(heading, justify="right")
    for way, one in found.items():
        times = [f"{milliseconds:,.1f}" for milliseconds in one["times"].values()]
        table.add_row(way, f"{one['load']:.2f}", f"{one['memory'] / 2**20:,.0f}", *times)
    plain, ours = (found[way]["times"].values() for way in WAYS)
    table.add_row("ratio", "", "", *(f"{slow / fast:.2f}" for slow, fast in zip(plain, ours, strict=True)))
    console = Console(width=110)
    console.print(table)
    first, second = (np.array(found[way]["votes"]) for way in WAYS)
    console.print(f"votes that differ: {int((first != second).sum()):,} of {first.size:,}")


def main() -> None:
    """Measure both ways and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=500, help="N (default: 500)")
    parser.add_argument("--repeats", type=int, default=15, help="of small batches (default: 15)")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way, options.directory, options.models, options.repeats)))
        return
    with tempfile.TemporaryDirectory(prefix="flcert-benchmark-") as place:
        write_models(Path(place), options.models)
        found = {way: in_own_process(way, Path(place), options.models, options.repeats) for way in WAYS}
    print_table(found, options.models)


if __name__ == "__main__":
    main()
