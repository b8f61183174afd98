"""How fast a group trains: flcert beside the plain PyTorch loop that one would write by hand.

Both train the same architecture on the same clients for the same number of steps with batches of the same size, in one
torch thread. They take turns, so that whatever else the machine does slows both alike. A time covers all that a
group needs: making the model, the rounds, and the averaging. The plain loop is in two variants: batches from a
DataLoader, as in most tutorials, and batches cut from the tensors by index, which a careful user would write.

Run it with ``python benchmarks/training.py``; ``--help`` lists the options.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import prod
from statistics import median
from time import perf_counter

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from flcert import Federation, Recipe, datasets
from flcert.core.settings import Choice
from flcert.training.group import GroupTask, train_group

Batch = tuple[Tensor, Tensor]
Batches = Callable[[Tensor, Tensor, int], Iterator[Batch]]
State = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    """What is trained.

    Args:
        name: in words.
        federation: the data; all examples fit in memory.
        members: the group's clients.
        recipe: flcert's recipe, whose settings the plain loop follows.
        plain_model: makes the model of the plain loop.
        target: how many times faster than the plain loop with DataLoaders flcert should be.
    """

    name: str
    federation: Federation
    members: tuple[int, ...]
    recipe: Recipe
    plain_model: Callable[[], nn.Module]
    target: float

    @property
    def steps(self) -> int:
        """SGD steps of one training."""
        return self.recipe.rounds * self.recipe.local_steps * len(self.members)


def digits_case() -> Case:
    """The default recipe on scikit-learn's digits, a group of five clients."""
    return Case("default recipe (digits, MLP)", datasets.load("digits"), (0, 1, 2, 3, 4), Recipe(), plain_mlp, 1.5)


def mnist_case(seed: int) -> Case:
    """The CNN of the paper on random images, two clients with 60 each."""
    recipe = Recipe(
        model=Choice(name="cnn"), rounds=8, local_steps=5, learning_rate=0.001, batch_size=32, reduction="sum"
    )
    return Case("MNIST CNN (random images)", random_images(2, seed), (0, 1), recipe, plain_cnn, 1.8)


def random_images(num_clients: int, seed: int) -> Federation:
    """Clients with 60 random images of MNIST's size each."""
    generator = np.random.default_rng(seed)
    clients = {
        f"client-{i}": (generator.random((60, 28, 28), dtype=np.float32), generator.integers(10, size=60))
        for i in range(num_clients)
    }
    return Federation.build("random images", clients, clients["client-0"], num_labels=10)


def plain_mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def plain_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 28)),  # a channel
        nn.Conv2d(1, 30, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(30, 50, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(50 * 5 * 5, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )


def loader_batches(inputs: Tensor, labels: Tensor, batch_size: int) -> Iterator[Batch]:
    """Full batches for ever, epoch after epoch, from a DataLoader."""
    size = min(batch_size, len(labels))
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=size, shuffle=True, drop_last=True)
    while True:
        yield from loader


def indexed_batches(inputs: Tensor, labels: Tensor, batch_size: int) -> Iterator[Batch]:
    """Full batches for ever, each drawn without repetition, cut from the tensors by index."""
    while True:
        rows = torch.randperm(len(labels))[:batch_size]
        yield inputs[rows], labels[rows]


def train_plain(case: Case, batches: Batches) -> State:
    """Federated averaging by hand: every client takes its steps from the global model, then states are averaged."""
    recipe, model = case.recipe, case.plain_model().train()
    clients = [tuple(torch.from_numpy(array) for array in case.federation.client(i)) for i in case.members]
    sizes = [len(labels) for _, labels in clients]
    sources = [batches(inputs, labels, recipe.batch_size) for inputs, labels in clients]
    state = copied(model)
    for _ in range(recipe.rounds):
        locals_ = [train_client(model, state, source, recipe) for source in sources]
        state = average(locals_, sizes)
    return state


def train_client(model: nn.Module, state: State, source: Iterator[Batch], recipe: Recipe) -> State:
    """One client's steps from ``state``."""
    model.load_state_dict(state)
    optimiser = torch.optim.SGD(model.parameters(), lr=recipe.learning_rate)
    for inputs, labels in islice(source, recipe.local_steps):
        optimiser.zero_grad()
        loss = functional.cross_entropy(model(inputs), labels, reduction=recipe.reduction)
        loss.backward()
        optimiser.step()
    return copied(model)


def average(states: list[State], sizes: list[int]) -> State:
    """The mean of the states, weighted by data size."""
    shares = [size / sum(sizes) for size in sizes]
    return {name: sum(share * state[name] for share, state in zip(shares, states, strict=True)) for name in states[0]}


def copied(model: nn.Module) -> State:
    """The model's state, detached from the model."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def variants(case: Case) -> dict[str, Callable[[], object]]:
    """The trainings to compare, by name; flcert is the last."""
    return {
        "plain, DataLoader": lambda: train_plain(case, loader_batches),
        "plain, indexed": lambda: train_plain(case, indexed_batches),
        "flcert": lambda: train_group(case.federation, GroupTask(case.members, case.recipe)),
    }


def step_times(case: Case, repeats: int) -> dict[str, float]:
    """The median milliseconds a step of each variant; they take turns, after one training each that is not counted."""
    trainings = variants(case)
    seconds: dict[str, list[float]] = {name: [] for name in trainings}
    for _ in range(repeats + 1):
        for name, training in trainings.items():
            start = perf_counter()
            training()
            seconds[name].append(perf_counter() - start)
    return {name: 1000 * median(taken[1:]) / case.steps for name, taken in seconds.items()}


def print_case(case: Case, repeats: int) -> None:
    """Measure a case and print its table."""
    times = step_times(case, repeats)
    parameters = sum(prod(parameter.shape) for parameter in case.plain_model().parameters())
    table = Table(title=f"{case.name}: {case.steps} steps, {parameters:,} parameters")
    table.add_column("variant")
    for heading in ("ms a step", "against flcert", "target"):
        table.add_column(heading, justify="right")
    for name, time in times.items():
        target = f"{case.target:.1f}" if name == "plain, DataLoader" else ""
        table.add_row(name, f"{time:.3f}", f"{time / times['flcert']:.2f}", target)
    Console(width=100).print(table)


def main() -> None:
    """Measure both cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15, help="timed trainings of each variant (default: 15)")
    parser.add_argument("--seed", type=int, default=0, help="of the random images and of the plain loop (default: 0)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    for case in (digits_case(), mnist_case(options.seed)):
        print_case(case, options.repeats)


if __name__ == "__main__":
    main()
