"""A user's data that cannot be right is refused with a message that says whose and why."""

import io
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from flcert import datasets, models
from flcert.core.settings import Choice
from flcert.datasets import Federation
from flcert.errors import InputError
from flcert.training import Recipe, train
from flcert.voting.files import read_votes

GOOD = (np.ones((3, 4), np.float32), np.array([0, 1, 2]))
SECOND_INFINITE = np.array([[1.0] * 4, [np.inf] * 4, [1.0] * 4])


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ((np.ones((0, 4), np.float32), np.zeros(0, int)), "client 'bob' has no examples"),
        (
            (np.ones((3, 5), np.float32), GOOD[1]),
            r"client 'bob' has inputs of shape \(5,\), .* have \(4,\)",
        ),
        (
            (GOOD[0], np.array([0, 1])),
            r"client 'bob' must have one label for each input, .* \(3, 4\) and \(2,\)",
        ),
        ((GOOD[0], np.array([0.0, 1.0, 2.0])), "client 'bob' must have integer labels, got dtype float64"),
        ((GOOD[0], np.array([0, 1, -2])), r"client 'bob' must have labels in \[0, 2\*\*31\], got -2 to 1"),
        ((GOOD[0], np.array([0, 1, 3])), r"labels must be in \[0, 2\], got 3 from client 'bob'"),
        ((GOOD[0] * 1j, GOOD[1]), "client 'bob' must have real numbers as inputs, got dtype complex"),
        ((np.full((3, 4), np.nan), GOOD[1]), r"inputs must be finite, got NaN or infinity in row 0 \(client 'bob'\)"),
        ((SECOND_INFINITE, GOOD[1]), r"inputs must be finite, got NaN or infinity in row 1 \(client 'bob'\)"),
        ((np.ones((3, 4), "m8[s]"), GOOD[1]), "client 'bob' must have real numbers as inputs, got dtype timedelta64"),
        ((np.ones((3, 4), "M8[s]"), GOOD[1]), "client 'bob' must have real numbers as inputs, got dtype datetime64"),
        ((np.array([["a"] * 4] * 3), GOOD[1]), "client 'bob' must have real numbers as inputs"),
        ((np.ones((3, 4), int), GOOD[1]), "client 'bob' has inputs of dtype int64, but the test inputs have float32"),
    ],
)
def test_a_client_s_data_that_does_not_fit(client, message):
    with pytest.raises(InputError, match=message):
        Federation.build("bad", {"ann": GOOD, "bob": client}, GOOD, num_labels=3)


@pytest.mark.parametrize("kind", ["m8[s]", "M8[s]"])
def test_times_are_no_tokens(kind):
    tokens = (np.ones((3, 4), int), GOOD[1])
    with pytest.raises(InputError, match=r"client 'bob' must have real numbers as inputs, got dtype (time|date)"):
        Federation.build("bad", {"ann": tokens, "bob": (tokens[0].astype(kind), GOOD[1])}, tokens)
    with pytest.raises(
        InputError, match=r"client 'ann' has inputs of dtype int64, but the test inputs have (time|date)"
    ):
        Federation.build("bad", {"ann": tokens}, (tokens[0].astype(kind), GOOD[1]))


def test_a_test_set_that_does_not_fit():
    with pytest.raises(InputError, match=r"the test set has no examples"):
        Federation.build("bad", {"ann": GOOD}, (np.ones((0, 4), np.float32), np.zeros(0, int)))
    with pytest.raises(InputError, match=r"test_labels must be in \[0, 1\], got 2"):
        Federation.build("bad", {"ann": (GOOD[0], np.array([0, 1, 1]))}, GOOD, num_labels=2)
    with pytest.raises(InputError, match=r"data set 'bad' has no clients"):
        Federation.build("bad", {}, GOOD)


def test_offsets_that_do_not_fit():
    federation = Federation.build("good", {"ann": GOOD}, GOOD)
    with pytest.raises(InputError, match=r"1 ids need 2 offsets, got 3"):
        replace(federation, offsets=np.array([0, 1, 3]))
    with pytest.raises(InputError, match=r"offsets must go from 0 to the number of examples, got 0 to 6 for 3 inputs"):
        replace(federation, offsets=np.array([0, 6]))
    with pytest.raises(InputError, match=r"for 2 inputs and 3 labels"):
        replace(federation, inputs=federation.inputs[:2])
    with pytest.raises(InputError, match=r"2 test inputs need as many labels, got 3"):
        replace(federation, test_inputs=federation.test_inputs[:2])


def npy():
    buffer = io.BytesIO()
    np.save(buffer, GOOD[0])
    return buffer.getvalue()


def test_a_folder_that_does_not_fit(tmp_path):
    with pytest.raises(InputError, match=r"no client files: .*clients must hold one npz file for each client"):
        datasets.load("folder", path=tmp_path)
    (tmp_path / "clients").mkdir()
    np.savez(tmp_path / "clients" / "ann.npz", inputs=GOOD[0])
    with pytest.raises(InputError, match=r"missing file .*test.npz"):
        datasets.load("folder", path=tmp_path)
    np.savez(tmp_path / "test.npz", inputs=GOOD[0], labels=GOOD[1])
    with pytest.raises(InputError, match=r"ann.npz must hold the arrays 'inputs' and 'labels'"):
        datasets.load("folder", path=tmp_path)
    for content in (b"not an archive", b"", npy()):
        (tmp_path / "test.npz").write_bytes(content)
        with pytest.raises(InputError, match=r"test.npz cannot be read as npz"):
            datasets.load("folder", path=tmp_path)


def test_a_pickle_in_a_folder_is_never_loaded(tmp_path):
    (tmp_path / "clients").mkdir()
    np.savez(tmp_path / "clients" / "ann.npz", inputs=np.array([object()]), labels=np.array([0]))
    np.savez(tmp_path / "test.npz", inputs=GOOD[0], labels=GOOD[1])
    with pytest.raises(InputError, match=r"ann.npz cannot be read as npz: Object arrays cannot be loaded"):
        datasets.load("folder", path=tmp_path)


def test_a_table_that_could_be_read_forever_is_refused(tmp_path):
    os.mkfifo(tmp_path / "votes.npy")
    with pytest.raises(InputError, match=r"votes.npy must be a regular file, not a directory, a pipe or a device"):
        read_votes(tmp_path / "votes.npy")
    (tmp_path / "votes.csv").symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"votes.csv must be a file, got a device"):
        read_votes(tmp_path / "votes.csv")


def nothing(**_):
    return {}


def test_a_function_that_returns_something_else_is_refused():
    with pytest.raises(InputError, match=r"must return a flcert.Federation, got dict"):
        datasets.load("tests.unit.test_bad_data:nothing")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:load", "data set 'no_such_module:load': cannot import module 'no_such_module'"),
        ("json:lod", "unknown name in module 'json': 'lod'; did you mean 'load'"),
        ("digit", "unknown data set 'digit'; did you mean 'digits'"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        datasets.load(name)


def test_options_of_the_wrong_kind_are_refused():
    with pytest.raises(InputError, match=r"option 'num_clients' of data set 'digits' must be .*got 'many'"):
        datasets.load("digits", num_clients="many")
    with pytest.raises(InputError, match=r"num_clients must be in \[1, number of training examples=1347\], got 2000"):
        datasets.load("digits", num_clients=2000)


def wide(input_shape, num_labels):
    return models.MODELS["mlp"](input_shape, num_labels + 1)


def test_a_model_of_the_wrong_width_is_refused_before_training(federation, grouping, store):
    recipe = Recipe(model=Choice(name="tests.unit.test_bad_data:wide"))
    with pytest.raises(InputError, match=r"one score for each of the 10 labels, shape \(1, 10\), got \(1, 11\)"):
        train(federation, grouping, recipe, store=store)
    assert not list(store.entries())


@pytest.mark.parametrize(("model", "least"), [("cnn", "10 x 10"), ("small-cnn", "16 x 16")])
def test_a_model_that_cannot_read_the_inputs_is_refused_before_training(federation, grouping, store, model, least):
    with pytest.raises(InputError, match=rf"needs images of at least {least} pixels, got input shape \(64,\)"):
        train(federation, grouping, Recipe(model=Choice(name=model)), store=store)


def test_a_model_that_is_none_is_refused():
    with pytest.raises(InputError, match=r"must be a torch.nn.Module, got dict"):
        models.build(Choice(name="tests.unit.test_bad_data:nothing"), (3,), 2, seed=0)


class Grumpy(nn.Module):
    def __init__(self, input_shape, num_labels, mood="init"):  # noqa: ARG002 (as every model)
        super().__init__()
        self.mood = mood
        self.bias = nn.Parameter(torch.zeros(1, dtype=torch.bfloat16 if mood == "narrow" else torch.float32))
        self.bias.requires_grad_(mood != "frozen")
        if mood == "init":
            raise KeyError("no")

    def forward(self, inputs):
        if self.mood == "noisy":
            return torch.rand(len(inputs), 10) + self.bias
        return {"tuple": (inputs,), "none": None, "raise": {}.get("x").y if self.mood == "raise" else 0}[self.mood]


@pytest.mark.parametrize(
    ("mood", "message"),
    [
        ("init", "raised KeyError: 'no'"),
        ("raise", "the model cannot read an input of shape .*: AttributeError"),
        ("tuple", "must give a tensor of floating-point scores, got tuple"),
        ("none", "must give a tensor of floating-point scores, got NoneType"),
        ("noisy", "must give the same scores for the same input each time in evaluation mode"),
        ("frozen", "the model has no parameters to train"),
        ("narrow", "parameters must be float32, got torch.bfloat16 for 'bias'"),
    ],
)
def test_a_model_that_does_something_else_is_refused(mood, message, federation, grouping, store):
    model = Choice(name="tests.unit.test_bad_data:Grumpy", options={"mood": mood})
    with pytest.raises(InputError, match=message):
        train(federation, grouping, Recipe(model=model), store=store)


@pytest.mark.parametrize("text", ["def f(:", "1 / 0", "import nothing_at_all", "x = '\0'"])
def test_a_module_that_does_not_import_is_refused(text, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_module.py").write_text(text)
    with pytest.raises(InputError, match=r"cannot import module 'broken_module' \(\w+Error"):
        datasets.load("broken_module:f")


def hinted(number: "NoSuchType" = 3):  # noqa: F821
    return number


def raising():
    raise RuntimeError("bad day")


def leaving():
    sys.exit(5)


def numbered():
    return Federation.build("numbers", {1: GOOD}, GOOD)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tests.unit.test_bad_data:raising", "raised RuntimeError: bad day"),
        ("tests.unit.test_bad_data:leaving", "raised SystemExit: 5"),
        ("tests.unit.test_bad_data:numbered", "user ids must be strings, got 1 of type int"),
        ("tests.unit.test_bad_data:hinted", "must return a flcert.Federation, got int"),
        ("os:getcwd", "must return a flcert.Federation, got str"),
        (":f", "cannot import module ''"),
        (":", "cannot import module ''"),
    ],
)
def test_a_function_that_does_something_else_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        datasets.load(name)
