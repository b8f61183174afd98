"""Flower's strategies as base algorithms, unchanged."""

import re
import subprocess
import sys
from copy import deepcopy
from functools import partial
from threading import Lock, RLock

import numpy as np
import pytest
import torch
from digits_app.task import federation
from flwr.serverapp import strategy as strategies
from flwr.serverapp.strategy import FedAvg

from flcert import aggregators, certify, models
from flcert.certify import CertificateSettings
from flcert.core.settings import Choice
from flcert.errors import InputError
from flcert.flower.strategy import RuleStrategy, described
from flcert.grouping import Sampled
from flcert.runs.directory import RunDirectory
from flcert.runs.ensemble import open_ensemble
from flcert.training import Recipe
from flcert.training.trusted import TrustedModel
from tests.flower.conftest import NUM_CLIENTS
from tests.flower.models import model_bytes

FACTORIES = {
    "FedAvg": FedAvg,
    "FedMedian": strategies.FedMedian,
    "FedTrimmedAvg": lambda: strategies.FedTrimmedAvg(beta=0.3),
    "Krum": lambda: strategies.Krum(num_malicious_nodes=1),
    "MultiKrum": lambda: strategies.MultiKrum(num_malicious_nodes=0, num_nodes_to_select=2),
    "FedProx": lambda: strategies.FedProx(proximal_mu=0.1),
    "FedAdam": strategies.FedAdam,
    "FedAvgM": lambda: strategies.FedAvgM(server_momentum=0.5),
    "FedYogi": strategies.FedYogi,
    "FedAdagrad": strategies.FedAdagrad,
}
SAME_AS_FEDAVG = {"FedAvg", "FedProx"}  # what FedProx changes is the clients' part


@pytest.mark.parametrize("name", FACTORIES)
def test_a_strategy_trains_every_group(name, network, train, tmp_path):
    result = train(network(), strategy=FACTORIES[name])
    assert not result.ensemble.failures
    assert result.ensemble.trained == sum(size > 0 for size in result.ensemble.grouping.sizes)
    assert not result.ensemble.diverged
    average = train(network(), strategy=FedAvg, directory=tmp_path / "average")
    assert (model_bytes(result.ensemble) == model_bytes(average.ensemble)) == (name in SAME_AS_FEDAVG)
    recorded = RunDirectory.open(result.directory)
    assert recorded.manifest().network.strategy.startswith(f"{name}(")
    assert recorded.config().recipe.aggregator.name == "flower"


def test_a_group_has_clients_enough_for_these_tests(network, train):
    assert max(train(network()).ensemble.grouping.sizes) >= 4


@pytest.mark.timeout(60)
def test_a_group_of_one_trains_although_flower_s_minimum_is_two(network, train):
    result = train(network(), strategy=FedAvg, groups=Sampled(num_groups=2, group_size=1))
    assert (result.ensemble.trained, result.ensemble.failures) == (2, {})


def test_a_strategy_s_description_has_its_settings():
    assert described(strategies.Krum(num_malicious_nodes=1)) != described(strategies.Krum(num_malicious_nodes=2))
    assert "num_malicious_nodes=1" in described(strategies.Krum(num_malicious_nodes=1))
    wrapped = strategies.DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.1, 1.0, 5)
    assert "strategy=FedAvg(" in described(wrapped)
    assert described(Own()).startswith("Own(")
    assert " of " in described(Own())


class Own(FedAvg):
    def __init__(self, **held):
        super().__init__()
        vars(self).update(held)


def double(value):
    return 2 * value


def times(number, by=1, **held):
    """A function with a closure and a default."""
    return lambda value, factor=by: value * number * factor * len(held)


def shifted(number):
    """A class that only its closure tells from another."""

    class Shifted(FedAvg):
        def shift(self):
            return number

    return Shifted


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"_private": 1}, {"_private": 2}),
        ({"rate": np.float32(0.1)}, {"rate": np.float32(0.2)}),
        ({"rates": [0.1, (0.2,)]}, {"rates": [0.1, (0.3,)]}),
        ({"names": {"a", "b"}}, {"names": {"a", "c"}}),
        ({"by_layer": {"first": 0.1}}, {"by_layer": {"first": 0.2}}),
        ({"secret": b"1"}, {"secret": b"2"}),
        ({"mask": np.zeros(3)}, {"mask": np.ones(3)}),
        ({"mask": torch.zeros(3)}, {"mask": torch.ones(3)}),
        ({"rule": double}, {"rule": described}),
        ({"rule": times(3)}, {"rule": times(4)}),
        ({"rule": times(3, 1)}, {"rule": times(3, 2)}),
        ({"rule": times(3, mask=np.zeros(2))}, {"rule": times(3, mask=np.ones(2))}),
        ({"rule": times(times(1))}, {"rule": times(times(2))}),
        ({"rule": lambda value: value}, {"rule": lambda value: -value}),
        ({"rule": partial(double, 1)}, {"rule": partial(double, 2)}),
        ({"rule": FedAvg().summary}, {"rule": FedAvg().start}),
        ({"kind": shifted(1)}, {"kind": shifted(2)}),
        ({"inner": FedAvg()}, {"inner": FedAvg(weighted_by_key="other")}),
    ],
    ids=lambda held: next(iter(held)),
)
def test_a_strategy_s_description_has_all_that_it_holds(one, other):
    assert described(Own(**one)) != described(Own(**other))
    assert described(Own(**one)) == described(Own(**deepcopy(one)))


def test_other_objects_in_a_closure_count_by_their_class():
    """Such as Flower's context, which is another in each run: a run that starts again must know its models."""
    assert described(Own(rule=times(3, held=Lock()))) == described(Own(rule=times(3, held=Lock())))
    assert described(Own(rule=times(3, held=Lock()))) != described(Own(rule=times(3, held=RLock())))


CELL = """
from flwr.serverapp.strategy import FedAvg

SHIFT = {}


class Strategy(FedAvg):
    def aggregate_train(self, server_round, replies):
        return super().aggregate_train(server_round + SHIFT, replies)
"""


def test_a_strategy_of_a_notebook_is_described_by_its_code():
    def of_cell(shift):
        exec(CELL.format(shift), cell := {"__name__": "strategy_without_file"})
        return described(cell["Strategy"]())

    assert of_cell(1) == of_cell("1  # said again")
    assert of_cell(1) != of_cell(2)


def test_a_strategy_of_the_running_script_is_described_by_its_file(tmp_path):
    asks = "from flcert.flower.strategy import described\nprint(described(Strategy()))"

    def of_script(shift):
        (tmp_path / "script.py").write_text(f"{CELL.format(shift)}\n{asks}\n")
        return subprocess.check_output([sys.executable, "script.py"], cwd=tmp_path, text=True)

    assert of_script(1) == of_script(1) != of_script(2)


def numbered(*last):
    """A factory whose strategies differ, as those of groups that have settings of their own."""
    numbers = iter([0, 1, 2, *last])
    return lambda: Own(_setting=next(numbers))


def test_a_group_s_key_has_its_own_strategy(network, train):
    assert train(network(), strategy=numbered(3)).ensemble.trained == 3  # one is empty
    again = train(network(), strategy=numbered(4)).ensemble
    assert (again.trained, again.reused) == (1, 2)


def test_sampled_groups_must_have_strategies_alike(network, train):
    groups = Sampled(num_groups=4, group_size=2)
    with pytest.raises(InputError, match=r"must all train alike: .* made 4 different strategies"):
        train(network(), strategy=numbered(3), groups=groups)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": lambda: FedAvg(fraction_train=0.5)}, "fraction_train must be 1.0, got 0.5"),
        ({"strategy": lambda: FedAvg(fraction_evaluate=0.5)}, "fraction_evaluate must be 0.0 or 1.0, got 0.5"),
        (
            {"strategy": lambda: strategies.DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.1, 1.0, 5)},
            "noise_multiplier must be 0, got 0.1: Flower draws noise from a generator that all groups share",
        ),
        ({"strategy": lambda: 3}, "the factory must return a Flower strategy, got int"),
        ({"strategy": lambda: 1 / 0}, "the strategy's factory raised ZeroDivisionError"),
        (
            {"strategy": FedAvg, "recipe": Recipe(aggregator=Choice(name="median"))},
            "give a strategy or recipe.aggregator, not both, got 'median'",
        ),
        ({"recipe": Recipe(aggregator=Choice(name="fltrust"))}, "aggregator 'fltrust' needs a root set"),
        ({"recipe": Recipe(rounds=2, evaluate_at=(1,))}, r"recipe.evaluate_at cannot be used with Flower, got \(1,\)"),
        ({"recipe": Recipe(models_per_group=2)}, "recipe.models_per_group cannot be used with Flower, got 2"),
        (
            {"recipe": Recipe(initial="digits-28"), "initial": {}},
            "give initial arrays or recipe.initial, not both, got 'digits-28' and arrays",
        ),
        (
            {"recipe": Recipe(features={"name": "front"})},
            "features 'front' are those of a public model: set recipe.init",
        ),
        ({"trusted": TrustedModel(model="root", votes=3)}, "trusted model 'root' needs a root set"),
        ({"trusted": TrustedModel(votes=3)}, "'initial' is the public start of the groups: set recipe.initial"),
        ({"train_config": {"flcert-features": ""}}, "train_config must leave 'flcert-features' to flcert, got ''"),
        ({"timeout": 0}, "timeout must be positive, got 0"),
        ({"timeout": -1}, "timeout must be a number of seconds from 0, got -1"),
        ({"wait": None}, "wait must be a number of seconds from 0, got None"),
        ({"poll": float("nan")}, "poll must be a number of seconds from 0, got nan"),
        ({"strategy": FedAvg()}, "strategy must be a function or class that makes a new strategy, got <flwr"),
        ({"train_config": {"server-round": 1}}, "train_config must leave 'server-round' to flcert, got 1"),
        ({"train_config": {"rate": None}}, "train_config must be what a ConfigRecord can hold: "),
        ({"concurrent": 0}, "concurrent must be a whole number from 1, got 0"),
        (
            {"initial": {}},
            r"the weights of 'initial arrays' must fit the model, which has shape \(64,\) for 'layers.1.bias'",
        ),
        ({"groups": 10}, r"num_groups must be in \[1, num_clients=9\], got 10"),
    ],
)
def test_what_cannot_work_is_refused_before_anybody_trains(options, message, network, train, tmp_path):
    grid = network()
    with pytest.raises(InputError, match=message):
        train(grid, **options)
    assert not any(kind == "train" for _, kind in grid.log)
    assert not (tmp_path / "run" / "config.json").exists()


def test_initial_arrays_must_be_finite(network, train, tmp_path):
    first = train(network(), directory=tmp_path / "first").ensemble
    start = first.load(first.model_keys()[0])
    start["layers.1.bias"][3] = np.nan
    with pytest.raises(
        InputError,
        match=r"the weights of 'initial arrays' must be finite as float32, got NaN.* in 'layers.1.bias'",
    ):
        train(network(), initial=start)


def test_groups_start_from_arrays_that_are_given(network, train, tmp_path):
    first = train(network(), directory=tmp_path / "first").ensemble
    start = first.load(first.model_keys()[0])
    assert model_bytes(train(network(), initial=start).ensemble) != model_bytes(first)


def test_further_certificates_of_real_clients_are_those_of_the_same_groups_in_process(network, train):
    also = CertificateSettings(also=("runoff", "overlapping", "collective"))
    result = train(network(), certificate=also)
    data = federation(NUM_CLIENTS)
    directory = RunDirectory.open(result.directory)
    ensemble = open_ensemble(directory)
    evidence = ensemble.evidence(data.test_inputs[:60], "ranks")
    runoff = certify.runoff(evidence.ranks)
    assert set(result.summary.also) == {"runoff", "overlapping", "collective"}
    curve = certify.certified_accuracy(runoff, data.test_labels[:60])
    assert list(result.summary.also["runoff"].certified_accuracy) == curve.tolist()
    assert np.array_equal(directory.ranks().first_wins, evidence.ranks.first_wins)


def test_what_a_rule_remembers_is_no_part_of_a_key():
    """The keys of models that were trained before rules could remember anything stay as they are."""
    module = models.build(Choice(name="mlp"), (64,), 10, seed=0)
    strategy = RuleStrategy(module, aggregators.build(Choice(name="fedadam")))
    names = re.findall(r"[(\s](_\w+)=", described(strategy))
    assert names == ["_replica", "_rule", "_state"]
