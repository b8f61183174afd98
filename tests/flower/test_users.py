"""Who the nodes are: stable ids, and no training where they are not."""

import hashlib

import pytest
from digits_app.task import federation

from flcert import flower
from flcert.errors import InputError, RunError
from flcert.flower.connect import connected
from flcert.runs.directory import RunDirectory
from tests.flower.conftest import NUM_CLIENTS
from tests.flower.local_grid import LocalGrid, MisdeliveringGrid
from tests.flower.models import model_bytes

IDS = [f"client-{number:04d}" for number in range(NUM_CLIENTS)]


def fingerprint(partition):
    return hashlib.sha256(f"key of {partition}".encode()).hexdigest()


def test_ids_from_keys_names_and_queries(network):
    grid = network()
    partition = {node: context.node_config["partition-id"] for node, context in grid.contexts.items()}
    grid.names = {node: f"name {part}" for node, part in partition.items()}
    registered = {fingerprint(part): f"registered {part}" for part in range(NUM_CLIENTS)}
    assert flower.by_public_key(grid) == {node: fingerprint(part) for node, part in partition.items()}
    assert flower.by_name()(grid) == {node: f"name {part}" for node, part in partition.items()}
    assert flower.by_name(registered)(grid) == {node: f"registered {part}" for node, part in partition.items()}
    assert flower.by_query()(grid) == {node: IDS[part] for node, part in partition.items()}


@pytest.mark.parametrize("users", [flower.by_public_key, flower.by_name()], ids=["key", "name"])
def test_a_node_without_an_id_ends_the_run(users, network):
    grid = network()
    node = next(iter(grid.contexts))
    grid.names = dict.fromkeys(grid.contexts, "same")
    grid.keys[node], grid.names[node] = b"", ""
    with pytest.raises(RunError, match=rf"node {node} has no user id \(1 of 9 nodes\)"):
        connected(grid, flower.Clients(NUM_CLIENTS, users))


def test_a_client_that_does_not_tell_who_it_is_ends_the_run(network):
    with pytest.raises(RunError, match="has no user id"):
        connected(network(), flower.Clients(NUM_CLIENTS, flower.by_query("another-key")))


class Impostor(LocalGrid):
    """The client of partition 3 signs its answers as the node of partition 5, with an id of its own choice."""

    def push_messages(self, messages):
        names = super().push_messages(messages)
        node = {context.node_config["partition-id"]: node for node, context in self.contexts.items()}
        for name in names:
            answer = self.waiting[name]
            if answer.metadata.src_node_id == node[3]:
                answer.metadata.__dict__["_src_node_id"] = node[5]
                next(iter(answer.content.config_records.values()))["user-id"] = IDS[3]
        return names


@pytest.mark.parametrize("seed", range(4))  # answers come in any order
def test_a_node_cannot_say_who_another_is(seed, network):
    grid = network(kind=Impostor, seed=seed)
    found = connected(grid, flower.Clients(IDS, flower.by_query(timeout=0.05, poll=0.01), absent=1), wait=0)
    partition = {node: context.node_config["partition-id"] for node, context in grid.contexts.items()}
    assert {user: partition.get(node) for user, node in found.items()} == {
        **dict(zip(IDS, range(9), strict=True)),
        IDS[3]: None,
    }


@pytest.mark.parametrize("foreign", ["before", "after", "earlier"])
def test_a_grid_that_hands_over_the_wrong_answers_changes_no_id(foreign, network):
    grid = network(kind=MisdeliveringGrid, foreign=foreign)
    partition = {node: context.node_config["partition-id"] for node, context in grid.contexts.items()}
    assert flower.by_query(poll=0.01)(grid) == {node: IDS[part] for node, part in partition.items()}


@pytest.mark.parametrize("clients", [NUM_CLIENTS, IDS], ids=["number", "list"])
def test_an_id_that_two_nodes_have_ends_the_run(clients, network):
    with pytest.raises(RunError, match="user id 'client-0000' belongs to more than one node"):
        connected(
            network(), flower.Clients(clients, lambda grid: dict.fromkeys(grid.get_node_ids(), "client-0000")), wait=0
        )


@pytest.mark.parametrize("expected", [NUM_CLIENTS - 1, NUM_CLIENTS + 1])
def test_too_few_or_too_many_nodes_end_the_run(expected, network):
    with pytest.raises(RunError, match=f"{expected} clients are expected, but {NUM_CLIENTS} nodes are connected"):
        connected(network(), flower.Clients(expected, flower.by_query()), wait=0)


def test_nodes_that_come_late_are_waited_for(network):
    grid = network()
    late = dict(grid.contexts)
    grid.contexts = dict(list(late.items())[:-1])
    asked = []

    def get_node_ids():
        asked.append(None)
        grid.contexts = late if len(asked) > 2 else grid.contexts
        return list(grid.contexts)

    grid.get_node_ids = get_node_ids
    assert list(connected(grid, flower.Clients(NUM_CLIENTS, flower.by_query()), wait=30, poll=0.01)) == IDS


def test_strangers_are_not_taken_for_those_on_a_list_who_come_late(network):
    grid, asked = network(), []
    everybody = dict(grid.contexts)
    late = next(node for node, context in everybody.items() if context.node_config["partition-id"] == 3)
    del grid.contexts[late]

    def get_node_ids():
        asked.append(None)
        grid.contexts = everybody if len(asked) > 5 else grid.contexts
        return list(grid.contexts)

    grid.get_node_ids = get_node_ids
    assert connected(grid, flower.Clients(IDS[:5], flower.by_query()), wait=30, poll=0.01)["client-0003"] == late


def test_a_list_leaves_strangers_out_and_names_who_is_missing(network):
    found = connected(network(), flower.Clients(IDS[:5], flower.by_query()))
    assert list(found) == IDS[:5]
    with pytest.raises(RunError, match="1 of 10 clients are not connected, such as 'zoe'"):
        connected(network(), flower.Clients([*IDS, "zoe"], flower.by_query()), wait=0)


@pytest.mark.parametrize(
    ("clients", "options", "message"),
    [
        (0, {}, "clients must be at least 1, got 0"),
        ([], {}, "clients must be at least 1, got 0"),
        (["ann", "ann"], {}, "user ids must be unique, got 'ann' more than once"),
        (["ann", ""], {}, "user ids must be strings that are not empty, got ''"),
        (["ann"], {"absent": 1}, r"absent must be in \[0, clients - 1=0\], got 1"),
        (9, {"absent": 1}, "absent=1 needs the list of all clients' ids"),
    ],
)
def test_wrong_expectations_are_refused(clients, options, message, network):
    with pytest.raises(InputError, match=message):
        connected(network(), flower.Clients(clients, flower.by_query(), **options))


def test_an_absent_client_stays_in_its_group_and_moves_nobody_else(network, train, tmp_path):
    everybody = train(network(), registered=IDS, directory=tmp_path / "all").ensemble
    grid = network()
    gone = next(node for node, context in grid.contexts.items() if context.node_config["partition-id"] == 3)
    del grid.contexts[gone]
    result = train(grid, registered=IDS, absent=1)
    manifest = RunDirectory.open(result.directory).manifest()
    assert list(manifest.network.absent) == ["client-0003"]
    assert result.guarantee.num_clients == NUM_CLIENTS
    for group, entry in enumerate(manifest.groups):
        changed = model_bytes(everybody)[group] != model_bytes(result.ensemble)[group]
        assert changed == (3 in everybody.grouping.members[group])
        told = [(one.round, one.user, one.reason) for one in entry.dropped]
        assert told == ([(n, "client-0003", "not connected") for n in (1, 2, 3)] if changed else [])


def test_groups_follow_the_ids_and_nothing_else(network, train, tmp_path):
    data = federation(NUM_CLIENTS)
    result = train(network(seed=5))
    by_hash = [[int(one) for one in members] for members in result.ensemble.grouping.members]
    assert by_hash == [list(map(int, group)) for group in flower_groups(data.ids)]


def flower_groups(ids):
    from flcert.grouping import hashed

    return hashed(ids, 4).members
