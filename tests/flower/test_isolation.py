"""Malicious clients over Flower: whatever one of them sends, all other groups' models keep their bytes."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Error, Message, MessageType, RecordDict
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedMedian,
    Krum,
)
from flwr.serverapp.strategy.strategy_utils import sample_nodes

from flcert import Recipe, flower
from flcert.certify import CertificateSettings
from flcert.errors import InputError, RunError
from flcert.flower import Exchange, GroupGrid
from flcert.runs.directory import RunDirectory
from flcert.runs.records import DroppedReply
from tests.flower.faulty_client import FAULTS
from tests.flower.local_grid import MisdeliveringGrid
from tests.flower.models import group_of, model_bytes

VICTIM = 3  # the partition whose client is malicious
REASONS = {
    "nan": "array 'layers.1.weight' is not finite",
    "infinite": "array 'layers.1.weight' is not finite",
    "wrong shape": "array 'layers.1.weight' must be float32 of shape (64, 64), got float32 of shape (1, 64)",
    "wrong type": "array 'layers.1.weight' must be float32 of shape (64, 64), got float64 of shape (64, 64)",
    "wrong names": "the names of its arrays are not those of the model, in order",
    "wrong order": "the names of its arrays are not those of the model, in order",
    "no arrays": "must hold one ArrayRecord, got 0",
    "two records": "must hold one ArrayRecord, got 2",
    "no metrics": "must hold one MetricRecord, got 0",
    "no weight": "metric 'num-examples' must be a positive number, got None",
    "negative weight": "metric 'num-examples' must be a positive number, got -5",
    "weight not finite": "metric 'num-examples' is not finite",
    "other type": "it answers 'query', not 'train'",
    "raises": "error 2: sabotage",
}
USED = ("scaled", "reversed", "huge weight")  # nothing is wrong with them but what they say


@pytest.fixture
def untouched(network, train, tmp_path):
    return train(network(), directory=tmp_path / "untouched").ensemble


def check_others(attacked, untouched, victim=VICTIM):
    group, before, after = group_of(untouched, victim), model_bytes(untouched), model_bytes(attacked)
    assert len([model for model in before if model]) > 2  # there are other groups
    assert [model for other, model in enumerate(after) if other != group] == [
        model for other, model in enumerate(before) if other != group
    ]
    return group, before[group] != after[group]


@pytest.mark.parametrize("fault", [*REASONS, *USED])
def test_whatever_a_client_sends_other_groups_keep_their_bytes(fault, network, train, untouched):
    result = train(network({VICTIM: fault}))
    group, changed = check_others(result.ensemble, untouched)
    assert changed
    dropped = RunDirectory.open(result.directory).manifest().groups[group].dropped
    if fault in USED:
        assert not any(one.round == 1 for one in dropped)
    else:
        assert list(dropped) == [DroppedReply(round=n, user="client-0003", reason=REASONS[fault]) for n in (1, 2, 3)]


def test_every_fault_that_a_process_survives_is_tried():
    assert {*REASONS, *USED, "other metrics", "hangs", "exits"} == {*FAULTS, "raises"}


@pytest.mark.parametrize("strategy", [FedAvg, FedMedian, Krum], ids=lambda strategy: strategy.__name__)
@pytest.mark.parametrize("fault", ["nan", "scaled", "other metrics"])
def test_groups_are_apart_with_flower_s_strategies_too(fault, strategy, network, train, tmp_path):
    untouched = train(network(), strategy=strategy, directory=tmp_path / "untouched").ensemble
    check_others(train(network({VICTIM: fault}), strategy=strategy).ensemble, untouched)


def test_a_client_that_never_answers_is_dropped_after_the_timeout(network, train, untouched):
    result = train(network(silent=[VICTIM]), timeout=0.1)
    group, changed = check_others(result.ensemble, untouched)
    assert changed
    dropped = RunDirectory.open(result.directory).manifest().groups[group].dropped
    assert [(one.round, one.reason) for one in dropped] == [(n, "no reply within 0.1 seconds") for n in (1, 2, 3)]


class OnItsOwn(FedAvg):
    """Sends and fetches messages itself, and does not wait for all replies."""

    def start(self, grid, initial_arrays, num_rounds, timeout, train_config):  # noqa: ARG002 (Flower's signature)
        for number in range(1, num_rounds + 1):
            sent = grid.push_messages(self.configure_train(number, initial_arrays, train_config, grid))
            initial_arrays = self.aggregate_train(number, grid.pull_messages(sent))[0] or initial_arrays
        return SimpleNamespace(arrays=initial_arrays)


def test_a_client_that_never_answers_is_recorded_by_a_strategy_that_does_not_wait_too(network, train):
    result = train(network(silent=[VICTIM]), strategy=OnItsOwn)
    group = group_of(result.ensemble, VICTIM)
    dropped = [one.dropped for one in RunDirectory.open(result.directory).manifest().groups]
    told = tuple(DroppedReply(round=n, user="client-0003", reason="no reply until the end") for n in (1, 2, 3))
    assert dropped == [told if number == group else () for number in range(len(dropped))]


def test_a_group_of_which_nobody_answers_fails_alone_and_is_charged(network, train, untouched):
    group = group_of(untouched, VICTIM)
    members = untouched.grouping.members[group].tolist()
    result = train(network(dict.fromkeys(members, "nan")))
    check_others(result.ensemble, untouched)
    assert "no reply could be used" in result.ensemble.failures[group]
    assert len(result.ensemble.failures) == 1
    assert result.guarantee.num_failed == 1
    assert (RunDirectory.open(result.directory).array("votes")[group] == -1).all()
    assert len(result.ensemble.grouping) == len(untouched.grouping)


class Explosive(FedAvg):
    """Raises in the second round of the group that has the most clients."""

    def aggregate_train(self, server_round, replies):
        if server_round == 2 and len(replies := list(replies)) == 4:
            raise RuntimeError("boom")
        return super().aggregate_train(server_round, replies)


def test_a_strategy_that_raises_fails_its_own_group(network, train, tmp_path):
    plain = train(network(), strategy=FedAvg, directory=tmp_path / "plain").ensemble
    (largest,) = [group for group, size in enumerate(plain.grouping.sizes) if size == 4]
    result = train(network(), strategy=Explosive)
    assert result.ensemble.failures == {largest: "RuntimeError: boom"}
    check_others(result.ensemble, plain, victim=plain.grouping.members[largest][0])


def test_a_run_of_which_no_group_has_a_model_fails(network, train):
    dropped = r"the reply of client-000\d in round 1 was dropped: array 'layers.1.weight' is not finite"
    with pytest.raises(RunError, match=rf"no group could be trained; group 0: .*; {dropped}"):
        train(network(dict.fromkeys(range(9), "nan")))


def test_a_group_cannot_reach_another_group_s_nodes(network):
    grid = network()
    mine, other = list(grid.get_node_ids())[:2]
    view = GroupGrid(grid, {"ann": mine}, Exchange({}))
    assert view.get_node_ids() == [mine]
    assert [node.node_id for node in view.get_nodes()] == [mine]
    with pytest.raises(RunError, match="is not of this group; nothing was sent"):
        view.push_messages([Message(RecordDict(), node, MessageType.QUERY) for node in (mine, other)])
    assert grid.log == []
    (foreign,) = grid.push_messages([Message(RecordDict(), other, MessageType.QUERY)])
    assert view.pull_messages([foreign]) == []
    with pytest.raises(RunError, match="set_run belongs to"):
        view.set_run(None)


@pytest.mark.parametrize("foreign", ["before", "after", "earlier"])
@pytest.mark.parametrize("strategy", [None, FedAvg], ids=["flcert", "FedAvg"])
def test_replies_that_the_grid_hands_to_the_wrong_group_change_nothing(foreign, strategy, network, train, tmp_path):
    honest = train(network(), strategy=strategy, directory=tmp_path / "honest").ensemble
    result = train(network(kind=MisdeliveringGrid, foreign=foreign), strategy=strategy)
    assert model_bytes(result.ensemble) == model_bytes(honest)
    for entry, members in zip(
        RunDirectory.open(result.directory).manifest().groups, honest.grouping.members, strict=True
    ):
        users = [f"client-{client:04d}" for client in members]
        expected = {(number, user, "it came from another node") for number in (1, 2, 3) for user in users}
        told = [(one.round, one.user, one.reason) for one in entry.dropped]
        assert set(told) == expected
        assert len(told) == len(expected)


def asking(network, **options):
    """A grid, a view of it with one node, another node, and the id of a message to the first."""
    grid = network(**options)
    mine, other = list(grid.get_node_ids())[:2]
    view = GroupGrid(grid, {"ann": mine}, Exchange({}))
    (name,) = view.push_messages([Message(RecordDict(), mine, MessageType.QUERY)])
    return grid, view, other, name


def test_the_asked_node_may_answer_after_a_reply_of_another(network):
    grid, view, other, name = asking(network)
    right = grid.waiting[name]
    grid.waiting[name] = copy.deepcopy(right)
    grid.waiting[name].metadata.__dict__["_src_node_id"] = other
    assert view.pull_messages([name]) == []
    assert view.dropped == [DroppedReply(round=0, user="ann", reason="it came from another node")]
    grid.waiting[name] = right
    assert view.pull_messages([name]) == [right]
    view.close()
    assert len(view.dropped) == 1


def test_a_node_that_lies_about_its_name_and_says_no_more_is_recorded(network):
    grid, view, other, name = asking(network)
    grid.waiting[name].metadata.__dict__["_src_node_id"] = other
    assert view.pull_messages([name]) == []
    view.close()
    assert [one.reason for one in view.dropped] == ["it came from another node", "no reply until the end"]


def test_a_reply_to_another_message_does_not_count(network):
    grid, view, other, name = asking(network)
    (foreign,) = grid.push_messages([Message(RecordDict(), other, MessageType.QUERY)])
    right, grid.waiting[name] = grid.waiting[name], grid.waiting[foreign]
    assert view.pull_messages([name]) == []
    grid.waiting[name] = right
    assert view.pull_messages([name]) == [right]
    assert view.dropped == []


@pytest.mark.parametrize("kind", ["query", "system"])
def test_the_superlink_may_say_that_a_node_is_gone(kind, network):
    grid, view, _, name = asking(network)
    gone = Message(Error(code=3, reason="Node Unavailable"), reply_to=grid.waiting[name])
    gone.metadata.__dict__.update(_src_node_id=1, _reply_to_message_id=name, _message_type=kind)
    grid.waiting[name] = gone
    assert view.pull_messages([name]) == []
    view.close()
    assert [one.reason for one in view.dropped] == ["error 3: Node Unavailable"]


def test_only_errors_come_from_the_superlink(network):
    grid, view, _, name = asking(network)
    grid.waiting[name].metadata.__dict__["_src_node_id"] = 1
    assert view.pull_messages([name]) == []
    assert [one.reason for one in view.dropped] == ["it came from another node"]


def test_messages_that_a_grid_does_not_take_are_named(network):
    grid = network()
    grid.push_messages = lambda _: []
    node = next(iter(grid.get_node_ids()))
    view = GroupGrid(grid, {"ann": node}, Exchange({}))
    with pytest.raises(RunError, match="the grid took 0 of 1 messages"):
        view.push_messages([Message(RecordDict(), node, MessageType.QUERY)])


def test_a_strategy_that_waits_for_more_nodes_than_there_are_is_stopped(network, monkeypatch):
    monkeypatch.setattr("flwr.serverapp.strategy.strategy_utils.sleep", lambda _: None)
    view = GroupGrid(network(), {"ann": 1}, Exchange({}))
    with pytest.raises(RunError, match="waits for more nodes than the 1 that take part"):
        sample_nodes(view, min_available_nodes=2, sample_size=1)


def test_one_wrapped_strategy_or_container_cannot_serve_two_groups(network, train):
    inner, notes, generator = FedAdam(), [], np.random.default_rng(0)

    def wrapped():
        return DifferentialPrivacyServerSideFixedClipping(inner, 0.0, 1.0, 5)

    def holding(value):
        strategy = FedAvg()
        strategy.held = value
        return strategy

    for factory, shared in (
        (wrapped, "FedAdam"),
        (lambda: holding(notes), "list"),
        (lambda: holding({"deep": (notes,)}), "list"),
        (lambda: holding(generator), "Generator"),
    ):
        with pytest.raises(InputError, match=rf"got the same {shared} for groups 0 and 1"):
            train(network(), strategy=factory)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": 0}, "groups must be a number from 1, or settings of a grouping, got 0"),
        ({"groups": "4"}, "groups must be a number from 1, or settings of a grouping, got '4'"),
        ({"registered": 9.0}, "clients must be a whole number or a list of user ids, got 9.0"),
        ({"users": flower.by_name}, r"users must be what by_name\(\) returns, got by_name itself"),
    ],
    ids=["no groups", "groups as text", "clients as float", "users not called"],
)
def test_wrong_arguments_are_named(options, message, network, train):
    with pytest.raises(InputError, match=message):
        train(network(), **options)


def test_one_strategy_object_cannot_serve_two_groups(network, train):
    shared = FedAvg()
    with pytest.raises(InputError, match="must return a new strategy at each call"):
        train(network(), strategy=lambda: shared)


@pytest.mark.parametrize("also", [(), ("runoff",)], ids=["votes", "ranks"])
def test_a_group_whose_model_cannot_vote_has_failed_and_the_others_vote_as_before(
    also, network, train, untouched, settings
):
    from digits_app.task import recipe

    model = {"name": "tests.touchy:TouchyMLP", "options": recipe(settings).model.options}
    own = Recipe.model_validate({**recipe(settings).model_dump(), "model": model})
    result = train(network({VICTIM: "scaled"}), recipe=own, certificate=CertificateSettings(also=also))
    directory, group = RunDirectory.open(result.directory), group_of(untouched, VICTIM)
    failures = {number: facts.failure for number, facts in enumerate(directory.manifest().groups) if facts.failure}
    assert failures == {group: "its model cannot vote: ValueError: weights beyond all measure"}
    assert directory.guarantee().num_failed == 1
    votes = directory.array("votes")
    assert (votes[group] == -1).all()
    peopled = [number for number, facts in enumerate(directory.manifest().groups) if facts.clients and number != group]
    assert (votes[peopled] >= 0).all()
