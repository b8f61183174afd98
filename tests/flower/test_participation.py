"""Partial participation: drawn by us, for each group and round, from the seed alone."""

import random

from flwr.serverapp.strategy import FedAvg

from flcert.training import Recipe
from tests.flower.models import model_bytes

HALF = Recipe(rounds=3, local_steps=2, participation=0.5)


def asked(grid):
    return [partition for partition, kind in grid.log if kind == "train"]


def test_half_of_a_group_takes_part_in_each_round(network, train):
    grid = network()
    sizes = train(grid, recipe=HALF, strategy=FedAvg).ensemble.grouping.sizes
    assert len(asked(grid)) == 3 * sum(max(1, int(size / 2 + 0.5)) for size in sizes if size)
    assert len(set(asked(grid))) > len(asked(grid)) / 3  # not the same ones every time


def test_the_draw_does_not_depend_on_the_process_or_on_other_groups(network, train, tmp_path):
    draws, models = [], []
    for seed in range(2):
        random.seed(seed)
        grid = network({3: "raises"} if seed else None, seed=seed)
        result = train(grid, recipe=HALF, strategy=FedAvg, directory=tmp_path / str(seed))
        draws.append(sorted(asked(grid)))
        victims = [3 in members for members in result.ensemble.grouping.members]
        models.append([None if hit else one for hit, one in zip(victims, model_bytes(result.ensemble), strict=True)])
    assert draws[0] == draws[1]
    assert models[0] == models[1]


def test_what_clients_are_told_depends_on_the_clients_of_the_group_only(network, train):
    from flcert.config import Sampled

    grid, told = network(), {}
    honest = grid.app

    def listening(message, context):
        if message.metadata.message_type == "train":
            config = message.content["config"]
            told.setdefault(context.node_config["partition-id"], set()).add(
                (config["flcert-group"], config["flcert-seed"])
            )
        return honest(message, context)

    grid.app = listening
    result = train(grid, groups=Sampled(kind="sampled", num_groups=40, group_size=2), train_config={"epochs": 1})
    sets = [frozenset(members.tolist()) for members in result.ensemble.grouping.members]
    for client, heard in told.items():
        assert len(heard) == len({one for one in sets if client in one})  # one name for each set, however often drawn
    assert len({name for heard in told.values() for name, _ in heard}) == len(set(sets))
