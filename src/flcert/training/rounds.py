"""One group's rounds of federated learning."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from flcert.aggregators import Aggregator, Memory, Round, build, remembered, substitute
from flcert.attacks import Attack, Scene
from flcert.core.seeding import derive, stream
from flcert.grouping import num_participants
from flcert.training.device import tensor
from flcert.training.local import Client, Replica, train_locally
from flcert.training.recipe import Recipe


@dataclass(frozen=True)
class Attacker:
    """An attack on one group.

    Args:
        attack: what the attacker does.
        controlled: ids of the clients that the attacker controls.
        seed: the seed of the attacker's draws.
    """

    attack: Attack
    controlled: frozenset[str]
    seed: int

    def interfere(
        self, brought: Round, chosen: Sequence[Client], state: Tensor, aggregator: Aggregator, round_number: int
    ) -> Round:
        """The round as the server sees it; what the rule remembers is the server's own, and stays as it is."""
        malicious = tensor([client.id in self.controlled for client in chosen])
        if not malicious.any():
            return brought
        seed = derive(self.seed, "attack", min(self.controlled), round_number)
        return replace(self.attack.forge(Scene(brought, malicious, state, aggregator, seed)), memory=brought.memory)


def run_rounds(
    replica: Replica,
    clients: Sequence[Client],
    aggregator: Aggregator,
    recipe: Recipe,
    *,
    server: Client | None = None,
    attacker: Attacker | None = None,
) -> Iterator[int]:
    """Train the replica round by round, yielding the number of each round that is complete.

    A round depends on the state before it, on what the rule remembers, and on streams named after the seed, the client
    and the round, so the first r rounds of a long training are the same as a training with r rounds, unless the recipe
    has a schedule.

    Args:
        replica: the group's model.
        clients: the group's clients, in order of id.
        aggregator: the rule.
        recipe: how to train.
        server: the server's root set, for a rule that uses it.
        attacker: the attacker who controls some of the clients, in a simulation.
    """
    state, seed = replica.read(), recipe.seed
    memory: Memory = ()
    for number in range(1, recipe.rounds + 1):
        if recipe.smoothing and number > 1:
            state = recipe.smoothing.perturbed(state, replica.num_parameters, seed, "round", number)
        chosen = [clients[i] for i in participants(len(clients), recipe.participation, seed, number)]
        updates = torch.stack([_update(replica, state, client, recipe, seed, number) for client in chosen])
        brought = Round(
            updates=updates,
            sizes=tensor([client.reported for client in chosen]),
            num_parameters=replica.num_parameters,
            server=_update(replica, state, server, recipe, seed, number) if server else None,
            memory=memory,
        )
        if attacker:
            brought = attacker.interfere(brought, chosen, state, aggregator, number)
        state, memory = state + aggregator(brought), remembered(aggregator, brought)
        if recipe.smoothing:
            state = recipe.smoothing.clipped(state, replica.num_parameters)
        replica.write(state)
        yield number


def participants(num_clients: int, participation: float, seed: int, round_number: int) -> list[int]:
    """Positions of the clients that take part in a round."""
    if participation == 1:
        return list(range(num_clients))
    chosen = num_participants(num_clients, participation)
    generator = stream(seed, "participation", round_number)
    return sorted(generator.choice(num_clients, size=chosen, replace=False).tolist())


def substitutes(recipe: Recipe, sizes: Sequence[int]) -> dict[int, str]:
    """Non-empty groups with too few clients for their aggregator, and the name of the rule that replaces it."""
    found: dict[int, str] = {}
    for group, size in enumerate(sizes):
        own = recipe.of_group(group)
        rule = substitute(build(own.aggregator), num_participants(size, own.participation))
        if size and rule:
            found[group] = rule
    return found


def _update(replica: Replica, state: Tensor, client: Client, recipe: Recipe, seed: int, round_number: int) -> Tensor:
    """The change of the client's model in this round."""
    replica.write(state)
    train_locally(replica, client, recipe, seed, round_number)
    return replica.read() - state
