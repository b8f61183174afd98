"""The same clients end in the same models, by ``flcert run`` and over Flower, whatever the network does."""

import numpy as np
import pytest
from digits_app.task import federation, recipe
from flwr.serverapp.strategy import FedAvg
from torch import nn

from flcert import training
from flcert.core.settings import Choice
from flcert.errors import InputError
from flcert.grouping import Enumerated, FiniteAggregation, Hashed, Sampled
from flcert.training import Recipe
from tests.flower.conftest import NUM_CLIENTS
from tests.flower.models import model_bytes

GROUPINGS = {
    "hashed": Hashed(num_groups=4),
    "sampled": Sampled(num_groups=12, group_size=2),
    "enumerated": Enumerated(group_size=8),
    "finite aggregation": FiniteAggregation(num_groups=4),
}


def by_flcert(grouping, given, store):
    data = federation(NUM_CLIENTS)
    return model_bytes(training.train(data, grouping.build(data.ids), given, store=store))


@pytest.mark.parametrize("kind", GROUPINGS)
def test_flower_clients_train_the_bytes_of_flcert_run(kind, network, train, settings, store):
    over_flower = train(network(), groups=GROUPINGS[kind])
    assert model_bytes(over_flower.ensemble) == by_flcert(GROUPINGS[kind], recipe(settings), store)


@pytest.mark.parametrize(
    "changes",
    [
        {"aggregator": Choice(name="median")},
        {"aggregator": Choice(name="krum", options={"assumed_malicious": 0})},
        {"aggregator": Choice(name="fedadam")},
        {"aggregator": Choice(name="fedavgm"), "participation": 0.5},
        {"participation": 0.5},
        {"seeds": "per-group"},
        {"seed": 7},
    ],
    ids=str,
)
def test_the_recipe_means_the_same_over_flower(changes, network, train, settings, store):
    given = recipe(settings).model_copy(update=changes)
    plain = train(network()).ensemble
    over_flower = train(network(), recipe=given, directory=store.directory / "run").ensemble
    assert model_bytes(over_flower) == by_flcert(GROUPINGS["hashed"], given, store)
    assert model_bytes(over_flower) != model_bytes(plain)


LOCAL = {
    "optimiser": Choice(name="sgd", options={"momentum": 0.9}),
    "adamw": Choice(name="adamw"),
    "schedule": Choice(name="one-cycle"),
    "proximal": 0.5,
    "label_smoothing": 0.1,
    "label_weights": "equal",
    "local_epochs": 2,
}


@pytest.mark.parametrize("name", LOCAL)
def test_how_clients_train_means_the_same_over_flower(name, network, train, settings, monkeypatch, store):
    """The settings that only clients read: the client's app has the server's recipe."""
    field = "optimiser" if name == "adamw" else name
    plain = recipe({**settings, "local-steps": 5})  # the default, which epochs replace
    given = plain.model_copy(update={field: LOCAL[name]})
    monkeypatch.setattr("digits_app.client_app.recipe", lambda _: given)
    over_flower = train(network(), recipe=given).ensemble
    assert model_bytes(over_flower) == by_flcert(GROUPINGS["hashed"], given, store)
    assert model_bytes(over_flower) != by_flcert(GROUPINGS["hashed"], plain, store)


def test_a_name_that_no_client_could_use_is_refused_at_the_server(network, train, settings):
    given = recipe(settings).model_copy(update={"schedule": Choice(name="liner")})
    with pytest.raises(InputError, match="unknown schedule 'liner'; did you mean 'linear'"):
        train(network(), recipe=given)


@pytest.mark.parametrize("options", [{}, {"strategy": FedAvg}], ids=["flcert", "FedAvg"])
def test_node_ids_and_the_order_of_replies_do_not_matter(options, network, train, tmp_path):
    runs = [
        train(network(seed=seed), directory=tmp_path / str(seed), recipe=Recipe(rounds=3, local_steps=2), **options)
        for seed in range(3)
    ]
    assert model_bytes(runs[0].ensemble) == model_bytes(runs[1].ensemble) == model_bytes(runs[2].ensemble)


def test_the_number_of_groups_that_train_at_once_does_not_matter(network, train, tmp_path):
    one = train(network(), concurrent=1, directory=tmp_path / "one")
    assert model_bytes(one.ensemble) == model_bytes(train(network()).ensemble)


class Counting(nn.Module):
    """Counts batches as batch normalisation does, in an integer of no dimensions."""

    def __init__(self, input_shape, num_labels):  # noqa: ARG002
        super().__init__()
        self.normalise, self.scores = nn.BatchNorm1d(64), nn.Linear(64, num_labels)

    def forward(self, inputs):
        return self.scores(self.normalise(inputs))


@pytest.mark.parametrize("options", [{}, {"strategy": FedAvg}], ids=["flcert", "FedAvg"])
def test_a_model_with_counters_keeps_its_types_and_votes(options, network, train, settings, monkeypatch, store):
    given = recipe(settings).model_copy(update={"model": Choice(name="tests.flower.test_same_bytes:Counting")})
    monkeypatch.setattr("digits_app.client_app.recipe", lambda _: given)
    over_flower = train(network(), recipe=given, **options).ensemble
    for key in over_flower.model_keys().values():
        counter = over_flower.load(key)["normalise.num_batches_tracked"]
        assert (counter.dtype, counter.shape) == (np.int64, ())
    if not options:
        assert model_bytes(over_flower) == by_flcert(GROUPINGS["hashed"], given, store)


def test_flower_s_own_fedavg_differs_by_rounding_only(network, train, tmp_path):
    ours = train(network(), directory=tmp_path / "ours").ensemble
    theirs = train(network(), strategy=FedAvg).ensemble
    for group, key in ours.model_keys().items():
        found = theirs.load(theirs.model_keys()[group])
        for name, array in ours.load(key).items():
            np.testing.assert_allclose(found[name], array, atol=1e-5)
