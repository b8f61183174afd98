"""One group's rounds of federated learning."""

from collections.abc import Iterator, Sequence
from math import floor

import torch
from torch import Tensor

from flcert.aggregators import Aggregator
from flcert.seeding import stream
from flcert.training.local import Client, Replica, train_locally
from flcert.training.recipe import Recipe


def run_rounds(
    replica: Replica, clients: Sequence[Client], aggregator: Aggregator, recipe: Recipe, seed: int
) -> Iterator[int]:
    """Train the replica round by round, yielding the number of each round that is complete.

    A round depends on the state before it and on streams named after the seed, the client and the round, so that the
    first r rounds of a long training are the whole of a training with r rounds.
    """
    state = replica.read()
    for number in range(1, recipe.rounds + 1):
        chosen = [clients[i] for i in participants(len(clients), recipe.participation, seed, number)]
        updates = torch.stack([_update(replica, state, client, recipe, seed, number) for client in chosen])
        sizes = torch.tensor([len(client) for client in chosen])
        state = state + aggregator(updates, sizes)
        replica.write(state)
        yield number


def participants(num_clients: int, participation: float, seed: int, round_number: int) -> list[int]:
    """Positions of the clients that take part in a round: beta_e of them, rounded, at least one."""
    if participation == 1:
        return list(range(num_clients))
    chosen = max(1, floor(participation * num_clients + 0.5))
    generator = stream(seed, "participation", round_number)
    return sorted(generator.choice(num_clients, size=chosen, replace=False).tolist())


def _update(replica: Replica, state: Tensor, client: Client, recipe: Recipe, seed: int, round_number: int) -> Tensor:
    """What the client's model moved by in this round."""
    replica.write(state)
    train_locally(replica, client, recipe, seed, round_number)
    return replica.read() - state
