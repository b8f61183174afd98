"""Compressed models: smaller, with votes and a certificate of their own, and each group still on its own."""

import json

import numpy as np
import pytest

from flcert.datasets import load
from flcert.runs.directory import RunDirectory
from flcert.runs.ensemble import open_ensemble
from flcert.training.compression import compressed, expanded

COMMON = ("--clients", 40, "--groups", 12, "--rounds", 4, "--engine", "inline", "-q")


@pytest.fixture
def trained(flcert, tmp_path):
    assert flcert("run", *COMMON, "--also", "runoff", "--out", "run").code == 0
    return tmp_path / "run"


@pytest.mark.parametrize(("dtype", "at_most"), [("float16", 0.6), ("int8", 0.4)])
def test_the_new_run_has_the_votes_of_the_small_models_and_their_certificate(flcert, trained, dtype, at_most, tmp_path):
    done = flcert("compress", "run", "--dtype", dtype, "--json", "-q")
    assert done.code == 0, done.err
    told, target = json.loads(done.out), tmp_path / f"run-{dtype}"
    assert told["bytes"]["after"] < at_most * told["bytes"]["before"]
    assert told["certified_accuracy"][0] > 0.8 * told["certified_accuracy_before"][0] > 0.5
    directory = RunDirectory.open(target)
    small, votes = open_ensemble(directory), directory.array("votes")
    inputs = load("digits", num_clients=40).test_inputs
    assert np.array_equal(votes, small.votes(inputs))
    original = open_ensemble(RunDirectory.open(trained))
    for group, key in original.model_keys().items():
        rounded = expanded(compressed(original.load(key), dtype))
        for name, array in small.load(small.model_keys()[group]).items():
            assert array.dtype == np.float32
            assert np.array_equal(array, rounded[name])
            assert not np.array_equal(array, original.load(key)[name])
    assert flcert("certify", target).code == 0
    assert flcert("certify", target, "--also", "runoff").code == 0
    assert flcert("report", target).code == 0


def test_a_run_that_is_told_to_compress_ends_with_the_same_bytes(flcert, trained, tmp_path):
    assert flcert("compress", "run", "--dtype", "int8", "-q").code == 0
    again = flcert("run", tmp_path / "run-int8" / "config.json", "--out", "again", "-q", "--json")
    assert json.loads(again.out)["groups"] == {
        "trained": 0,
        "reused": len(list((trained / "models").iterdir())),
        "damaged": 0,
    }
    for name in ("votes.npy", "certificate.npz", "summary.json", "ranks.npz", "models/group-00001.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run-int8" / name).read_bytes()


def test_forgetting_deletes_compressed_models_from_the_store_too(flcert, trained, tmp_path):
    assert flcert("compress", "run", "--dtype", "int8", "-q").code == 0
    stored = {path.name for path in (tmp_path / "cache" / "store").rglob("*.safetensors")}
    done = json.loads(flcert("forget", "run", "client-0003", "--engine", "inline", "-q", "--json").out)
    left = {path.name for path in (tmp_path / "cache" / "store").rglob("*.safetensors")}
    assert len(stored - left) == done["groups"]["deleted"] == 6  # model, votes and ranks, compressed and not


MISTAKES = {
    ("run", "--dtype", "int4"): "unknown dtype 'int4'; did you mean 'int8'? (known: float16, int8)",
    ("nowhere", "--dtype", "int8"): "nowhere is not a run directory",
    ("run-int8", "--dtype", "float16"): "compressed already, to int8",
    ("run", "--dtype", "int8", "--out", "run"): "holds a run of another configuration",
}


def test_mistakes_get_a_clear_error(flcert, trained):
    assert flcert("compress", "run", "--dtype", "int8", "-q").code == 0
    for command, message in MISTAKES.items():
        done = flcert("compress", *command, "-q")
        assert done.code == 2
        assert message in done.err.replace("\n", " ")


def test_a_compression_with_an_attack_is_refused(flcert):
    done = flcert("run", *COMMON, "--attack", "zero", "--malicious", 2, "--set", "compression=int8")
    assert (done.code, "leave out compression or attack" in done.err) == (2, True)


MODEL = {
    "matrix": np.array([[1, -2, 0.5], [0, 0, 0], [1e-44, 0, 0], [3.4028235e38, 1, -3e38]], dtype=np.float32),
    "filters": np.linspace(-1, 1, 54, dtype=np.float32).reshape(2, 3, 3, 3),
    "vector": np.array([1.0, 70000.0, -3e-9], dtype=np.float32),
    "counter": np.array(7),
}


def test_whole_numbers_of_8_bits_are_within_half_a_step_of_each_row():
    small = compressed(MODEL, "int8")
    assert small["matrix"].dtype == np.int8
    large = expanded(small)
    assert np.isfinite(large["matrix"]).all()
    tiny = np.array([[180, -90]], dtype=np.float32) * np.float32(1.4e-45)  # numbers below the smallest normal one
    assert compressed({"tiny": tiny}, "int8")["tiny"].tolist() == [[127, -90]]
    for name in ("matrix", "filters"):
        original = MODEL[name].reshape(len(MODEL[name]), -1)
        step = np.abs(original).max(axis=1, keepdims=True).astype(np.float64) / 127
        assert (np.abs(large[name].reshape(original.shape) - original.astype(np.float64)) <= 0.501 * step + 1e-40).all()
    assert large["counter"] == 7
    assert list(large) == list(MODEL)


def test_numbers_of_16_bits_round_and_overflow_as_numpy_s():
    large = expanded(compressed(MODEL, "float16"))
    assert large["vector"].tolist() == [1.0, np.inf, -0.0]
    assert large["filters"].dtype == np.float32
    assert np.allclose(large["filters"], MODEL["filters"], rtol=1e-3)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_a_model_that_is_not_finite_stays_so_and_harms_nobody(dtype):
    wrong = {"matrix": np.array([[np.nan, 1], [2, np.inf]], dtype=np.float32)}
    before = compressed(MODEL, dtype)
    compressed(wrong, dtype)
    after = compressed(MODEL, dtype)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert np.array_equal(expanded(compressed(wrong, dtype))["matrix"], wrong["matrix"], equal_nan=True)
