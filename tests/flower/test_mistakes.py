"""Mistakes of those who write a ServerApp or a ClientApp: refused in one sentence before anybody trains."""

import numpy as np
import pytest
import torch
from digits_app.task import federation, recipe
from flwr.app import ArrayRecord

from flcert import flower, models, training
from flcert.core.settings import Choice
from flcert.errors import InputError, RunError
from flcert.training import Recipe
from tests.flower.conftest import NUM_CLIENTS
from tests.flower.models import model_bytes

DATA = federation(NUM_CLIENTS)
STATE = models.build(Choice(name="mlp"), (64,), 10, 3).state_dict()
ARRAYS = {name: tensor.numpy() for name, tensor in STATE.items()}
RAGGED = [[1.0], [1.0, 2.0]]


@pytest.mark.parametrize("kind", ["tensors", "parameters", "record"])
def test_groups_start_from_a_state_dict_as_from_arrays(kind, network, train, tmp_path):
    module = models.build(Choice(name="mlp"), (64,), 10, 3)
    given = {"tensors": STATE, "parameters": dict(module.named_parameters()), "record": ArrayRecord(STATE)}[kind]
    expected = train(network(), initial=ARRAYS, directory=tmp_path / "arrays").ensemble
    assert model_bytes(train(network(), initial=given).ensemble) == model_bytes(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipe": {"rounds": 3}}, "recipe must be a flcert.Recipe, got dict"),
        ({"trusted": {"votes": 2}}, "trusted must be a TrustedModel, got {'votes': 2}"),
        ({"initial": "toy.safetensors"}, r"initial must be arrays by name, .* got str; a file goes to recipe.initial"),
        ({"initial": list(ARRAYS.values())}, r"initial must be arrays by name, .* got list"),
        ({"initial": {0: np.zeros(3)}}, "initial must be arrays of real numbers by name, got float64 for 0"),
        ({"initial": {"a": [1.0]}}, "initial must be arrays of real numbers by name, got list for 'a'"),
        ({"initial": {"a": np.array(["x"])}}, "initial must be arrays of real numbers by name, got <U1 for 'a'"),
        ({"initial": {"a": np.array([1j])}}, "initial must be arrays of real numbers by name, got complex128 for 'a'"),
        ({"inputs": RAGGED}, "the test set must have inputs and labels that are arrays: "),
        ({"labels": DATA.test_labels[:5]}, "the test set must have one label for each input, got shapes"),
        ({"num_labels": 3}, r"labels must be in \[0, 2\], got 9 from the test set"),
        ({"num_labels": "10"}, "num_labels must be a whole number, got '10'"),
        ({"concurrent": 1.5}, "concurrent must be a whole number from 1, got 1.5"),
    ],
)
def test_a_server_s_mistakes_are_named(options, message, network, train):
    grid = network()
    with pytest.raises(InputError, match=message):
        train(grid, **options)
    assert not any(kind == "train" for _, kind in grid.log)


@pytest.mark.parametrize(
    ("given", "inputs", "message"),
    [
        ({}, DATA.client(0)[0], "recipe must be a flcert.Recipe, got dict"),
        (Recipe(), RAGGED, "client 'ann' must have inputs and labels that are arrays: "),
    ],
)
def test_a_client_s_mistakes_are_named(given, inputs, message):
    with pytest.raises(InputError, match=message):
        flower.examples(given, "ann", inputs, DATA.client(0)[1])


def test_clients_with_another_network_say_so_in_one_line(network, train, settings, monkeypatch):
    other = training.Recipe.model_validate(recipe(settings).model_dump() | {"model": "linear"})
    monkeypatch.setattr("digits_app.client_app.recipe", lambda _: other)
    with pytest.raises(
        RunError, match=r"was dropped: error 2: Error\(s\) in loading state_dict for MLP: Unexpected key"
    ):
        train(network())


def test_tensors_of_other_types_are_read_too():
    assert flower.Learning(initial={"a": torch.zeros(2, dtype=torch.bfloat16)}).arrays["a"].dtype == np.float32
