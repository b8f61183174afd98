"""``flcert predict``, ``report`` and ``store``."""

import csv
import io
import json
from importlib.metadata import version

import numpy as np
import pytest

from flcert.datasets import load

SMALL = ("--clients", 12, "--groups", 4, "--rounds", 2, "--engine", "inline", "--out", "run")


@pytest.fixture
def run(flcert, tmp_path):
    assert flcert("run", *SMALL).code == 0
    return tmp_path / "run"


def test_the_test_inputs_are_predicted_as_in_the_run(flcert, run):
    np.save("inputs.npy", load("digits", num_clients=12).test_inputs)
    rows = list(csv.DictReader(io.StringIO(flcert("predict", "run", "inputs.npy").out)))
    certificate = list(csv.DictReader((run / "certificate.csv").open()))
    assert len(rows) == len(certificate) == 450
    for row, recorded in zip(rows, certificate, strict=True):
        assert (row["label"], row["level"]) == (recorded["label"], recorded["level"])
        votes = dict(pair.split(":") for pair in row["votes"].split())
        assert sum(map(int, votes.values())) == 4
        assert int(votes[row["label"]]) == max(map(int, votes.values()))


def test_csv_inputs_and_json_output(flcert, run):
    inputs = load("digits", num_clients=12).test_inputs[:5]
    np.save("inputs.npy", inputs)
    np.savetxt("inputs.csv", inputs, delimiter=",", fmt="%.9g")
    from_csv = json.loads(flcert("predict", "run", "inputs.csv", "--json").out)
    assert from_csv == json.loads(flcert("predict", "run", "inputs.npy", "--json").out)
    assert set(from_csv) == {"certificate", "meaning", "labels", "levels", "abstained", "votes"}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (np.full((1, 64), np.nan), "inputs must be finite, got nan in row 0"),
        (np.full((2, 64), 1e300), "inputs must fit into float32, got 1e+300 in row 0"),
        (np.zeros((2, 63)), "each input must have shape (64,), got (63,)"),
        (np.zeros(64), "inputs must be a table with one row for each input, got shape (64,)"),
        (np.zeros((0, 64)), "got shape (0, 64)"),
        (np.array([["a"] * 64]), "inputs must be of dtype float32, got <U1"),
    ],
)
def test_inputs_that_make_no_sense_are_refused(flcert, run, inputs, message):
    np.save("inputs.npy", inputs)
    result = flcert("predict", "run", "inputs.npy")
    assert result.code == 2
    assert message in result.err


def test_a_run_that_is_not_finished_is_refused(flcert, run):
    (run / "manifest.json").unlink()
    np.save("inputs.npy", np.zeros((1, 64)))
    result = flcert("predict", "run", "inputs.npy")
    assert result.code == 2
    assert "run holds a run that is not finished; run it again" in result.err


def test_the_report_can_be_written_again_with_the_same_bytes(flcert, run):
    before = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    assert flcert("report", "run").out.strip() == "run/report.html"
    assert (run / "report.html").read_bytes() == before


def test_the_store_tells_what_it_holds_and_frees_what_is_old(flcert, run):
    assert json.loads(flcert("store", "info", "--json").out)["files"] == 8  # a model and its votes for each group
    assert flcert("store", "prune").out == "deleted 0 files, freed 0.0 MB\n"
    assert "deleted 8 files" in flcert("store", "prune", "--days", 0).out
    assert "0 files" in flcert("store", "info").out


COMMANDS = ["", "run", "certify", "predict", "report", "store info", "store prune"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(flcert, command):
    result = flcert(*command.split(), "--help")
    assert result.code == 0
    assert "Example" in result.out or not command


def test_the_version(flcert):
    assert flcert("--version").out.strip() == version("flcert")
