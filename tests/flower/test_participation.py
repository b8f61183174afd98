"""Partial participation: drawn by us, for each group and round, from the seed alone."""

import random

import pytest
from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp.strategy import FedAvg

from flcert.flower import Exchange, GroupGrid
from flcert.flower.grid import PATIENCE
from flcert.grouping import Sampled
from flcert.training import Recipe
from flcert.training.rounds import participants
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


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_round_in_which_all_who_were_drawn_are_absent_passes_without_them(evaluates, network):
    grid = network()
    node = next(iter(grid.get_node_ids()))
    view = GroupGrid(grid, {"ann": None, "bob": node}, Exchange({}, participation=0.5, seed=3))
    drawn = []
    for _ in range(8):
        nodes = list(view.get_node_ids())
        drawn.append(["bob"] if nodes else ["ann"])
        view.send_and_receive([Message(RecordDict(), one, MessageType.TRAIN) for one in nodes], timeout=1)
        questions = [Message(RecordDict(), node, MessageType.EVALUATE)] if evaluates else []
        view.send_and_receive(questions, timeout=1)
    assert drawn == [[["ann", "bob"][one] for one in participants(2, 0.5, 3, number)] for number in range(1, 9)]
    missed = [one.round for one in view.dropped if one.reason == "not connected"]
    assert missed == [number for number, users in enumerate(drawn, 1) if users == ["ann"]]
    assert 0 < len(missed) < 8


def test_a_group_whose_members_are_all_absent_passes_any_number_of_rounds(network):
    view = GroupGrid(network(), {"ann": None}, Exchange({}))
    for _ in range(PATIENCE):
        for _ in "train", "evaluate":
            assert [view.get_node_ids(), view.get_node_ids()] == [[], []]
            assert view.send_and_receive([], timeout=1) == []
    assert [one.round for one in view.dropped] == list(range(1, PATIENCE + 1))


def names_of_groups(network, train, tmp_path, **options):
    """What each set of clients was called, by the clients of a run with sampled groups."""
    grid, heard = network(), {}
    honest = grid.app

    def listening(message, context):
        if message.metadata.message_type == "train":
            name = message.content["config"]["flcert-group"]
            heard.setdefault(name, set()).add(context.node_config["partition-id"])
        return honest(message, context)

    grid.app = listening
    groups = Sampled(num_groups=20, group_size=2, **options)
    train(grid, groups=groups, recipe=Recipe(rounds=1), directory=tmp_path / str(options))
    return {frozenset(clients): name for name, clients in heard.items()}


def test_what_clients_are_told_depends_on_the_clients_of_the_group_only(network, train, tmp_path):
    """Or Theorem 1 would not speak of one model for each set of clients."""
    first, second = (names_of_groups(network, train, tmp_path, seed=seed) for seed in (0, 1))
    assert all(len(clients) == 2 for clients in first)
    common = set(first) & set(second)
    assert common
    assert {clients: first[clients] for clients in common} == {clients: second[clients] for clients in common}
