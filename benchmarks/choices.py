"""What the paper leaves open, varied one at a time: the accuracy of a model of two clients.

The first groups of two clients of a preset are trained as the preset says, and again with another initialisation
(Xavier's, with the magnitude that MXNet's examples use), with all clients weighing the same, and with another seed.
Differences are between models of the same group.

Run it with ``python benchmarks/choices.py --preset mnist-0.1 --groups 16``; what was trained before is reused.
"""

import argparse
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from flcert.aggregators import Aggregator, Round
from flcert.core.store import Store
from flcert.engines import Processes, Workers
from flcert.models import MODELS
from flcert.pipeline.run import checked
from flcert.runs.config import load_config
from flcert.training.context import Context
from flcert.training.train import train_groups
from flcert.training.votes import votes_on_test_set

MAGNITUDE = 2.24
CHOICES = {
    "as the preset says": (),
    "Xavier initialisation": ("recipe.model.name=choices:xavier_cnn",),
    "clients weigh the same": ("recipe.aggregator=choices:plain_mean",),
    "seed 1": ("recipe.seed=1",),
}


def xavier_cnn(input_shape: tuple[int, ...], num_labels: int) -> nn.Module:
    """The CNN with weights from a uniform distribution as wide as the mean of inputs and outputs allows, no biases."""
    network: nn.Module = MODELS["cnn"](input_shape, num_labels)
    for name, parameter in network.named_parameters():
        if name.endswith("weight"):
            nn.init.xavier_uniform_(parameter, gain=(MAGNITUDE / 3) ** 0.5)
        else:
            nn.init.zeros_(parameter)
    return network


def plain_mean() -> Aggregator:
    """The mean of the updates, whatever the sizes of the clients."""
    return _mean


def _mean(given: Round) -> Tensor:
    return given.updates.mean(dim=0)


def accuracies(preset: str, number: int, overrides: tuple[str, ...]) -> NDArray[np.float64]:
    """The accuracy of the model of each of the first groups of two clients."""
    config = load_config(preset=preset, overrides=list(overrides))
    federation, grouping, _ = checked(config)
    chosen = set(np.flatnonzero(grouping.sizes == 2)[:number].tolist())
    nobody = np.array([], dtype=np.int64)
    members = tuple(clients if group in chosen else nobody for group, clients in enumerate(grouping.members))
    with Workers(Processes(), federation) as workers:
        context = Context(workers, Store())
        ensemble = train_groups(context, replace(grouping, members=members), config.recipe)
        votes = votes_on_test_set(context, ensemble)
    right: NDArray[np.float64] = (votes[sorted(chosen)] == federation.test_labels).mean(axis=1)
    return right


def main() -> None:
    """Print a row for each choice as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="mnist-0.1")
    parser.add_argument("--groups", type=int, default=16)
    options = parser.parse_args()
    console = Console(width=100)
    table = Table("choice", "mean accuracy of a model", "difference, with standard error")
    usual = None
    for name, overrides in CHOICES.items():
        console.print(f"{name} ...")
        found = accuracies(options.preset, options.groups, overrides)
        usual = found if usual is None else usual
        change = found - usual
        error = change.std(ddof=1) / len(change) ** 0.5
        table.add_row(name, f"{found.mean():.1%}", f"{change.mean():+.1%} +- {error:.1%}" if change.any() else "")
    console.print(table)


if __name__ == "__main__":
    main()
