"""The rows of engines.py that need Flower: the app of examples/flower in this process and in simulations, and FedAvg.

Each function starts workers for some groups, and what it yields trains them and returns when the last was done.
"""

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Queue
from threading import Event
from time import time
from typing import Any
from unittest.mock import patch

from digits_app import client_app, server_app
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from tests.flower.local_grid import LocalGrid

from flcert import Federation, Recipe, models
from flcert.grouping import Grouping

Train = Callable[[Recipe], float]

ONE_WORKER = {"init_args": {"num_cpus": 1}, "client_resources": {"num_cpus": 1, "num_gpus": 0}}
PATIENCE = 600.0  # seconds

logging.getLogger("flwr").setLevel(logging.ERROR)


@contextmanager
def in_process(federation: Federation, groups: Grouping, recipe: Recipe) -> Iterator[Train]:
    """The example's ServerApp on the grid of the tests: no network and no other process."""
    settings = run_config(groups, recipe)
    nodes = [{"partition-id": position} for position in range(len(federation.ids))]
    yield partial(certified, LocalGrid(client_app.app, settings, nodes), groups)


@contextmanager
def simulated(federation: Federation, groups: Grouping, recipe: Recipe) -> Iterator[Train]:
    """The example's ServerApp in one simulation of all clients."""
    with simulation(range(len(federation.ids)), run_config(groups, recipe)) as grid:
        yield partial(certified, grid, groups)


@contextmanager
def plain(federation: Federation, groups: Grouping, recipe: Recipe) -> Iterator[Train]:
    """Flower's FedAvg in a simulation of one group's clients."""
    (members,) = groups.members
    with simulation(members.tolist(), run_config(groups, recipe)) as grid:
        yield partial(averaged, grid, federation, len(members))


def certified(grid: Grid, groups: Grouping, recipe: Recipe) -> float:
    """Run the example's ServerApp; the time at which it wrote the last group's model, before any vote."""
    with tempfile.TemporaryDirectory(prefix="flcert-benchmark-") as directory, redirect_stdout(sys.stderr):
        settings = {**run_config(groups, recipe), "directory": f"{directory}/run"}
        server_app.main(grid, Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=settings))
        written = list(Path(directory, "run", "models").iterdir())
        assert len(written) == (groups.sizes > 0).sum(), written
        return max(path.stat().st_mtime for path in written)


def averaged(grid: Grid, federation: Federation, num_clients: int, recipe: Recipe) -> float:
    """Train one model with all nodes of a simulation, as without flcert."""
    module = models.build(recipe.model, federation.input_shape, federation.num_labels, recipe.seed)
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=num_clients, min_available_nodes=num_clients)
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(module.state_dict()),
        num_rounds=recipe.rounds,
        train_config=ConfigRecord({"flcert-seed": recipe.seed}),
    )
    done = time()
    assert len(result.train_metrics_clientapp) == recipe.rounds, result
    return done


def run_config(groups: Grouping, recipe: Recipe) -> dict[str, Any]:
    """The settings of the example's app for these groups."""
    return {
        "num-clients": groups.num_clients,
        "num-groups": len(groups),
        "grouping": groups.kind,
        "users": "query",
        "strategy": "flcert",
        "num-rounds": recipe.rounds,
        "local-steps": recipe.local_steps,
        "learning-rate": recipe.learning_rate,
        "batch-size": recipe.batch_size,
        "participation": recipe.participation,
        "seed": recipe.seed,
        "timeout": PATIENCE,
    }


@dataclass(frozen=True)
class Clients:
    """The example's ClientApp, told its settings and which clients it serves; ``run_simulation`` tells it neither."""

    positions: Sequence[int]
    settings: dict[str, Any]

    def __call__(self, message: Message, context: Context) -> Message:
        """The reply of one client."""
        node = {"partition-id": self.positions[int(context.node_config["partition-id"])]}
        return client_app.app(message, Context(context.run_id, context.node_id, node, context.state, self.settings))


@contextmanager
def simulation(positions: Sequence[int], settings: dict[str, Any]) -> Iterator[Grid]:
    """The grid of a simulation with these clients and one worker, which lives as long as its ServerApp waits."""
    grids: Queue[Grid] = Queue()
    done = Event()
    app = ServerApp()

    @app.main()
    def lend(grid: Grid, _: Context) -> None:
        grids.put(grid)
        done.wait()

    start = partial(run_simulation, app, Clients(positions, settings), len(positions), backend_config=ONE_WORKER)
    with patch.dict(os.environ), ThreadPoolExecutor(1) as thread:  # each simulation makes PYTHONPATH longer
        running = thread.submit(start)
        try:
            yield grids.get(timeout=PATIENCE)
        finally:
            done.set()
        running.result()
