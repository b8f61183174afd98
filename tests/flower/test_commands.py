"""What Flower clients trained is a run directory like any other."""

import json

import numpy as np
import pytest
from digits_app.task import federation

from flcert.grouping import Sampled
from flcert.runs.directory import RunDirectory
from tests.flower.conftest import NUM_CLIENTS

GROUPINGS = {"hashed": 4, "sampled": Sampled(num_groups=15, group_size=3)}


@pytest.mark.parametrize("kind", GROUPINGS)
def test_certify_predict_and_report_work_on_it(kind, network, train, flcert, tmp_path):
    result = train(network({3: "nan"}), groups=GROUPINGS[kind])
    data = federation(NUM_CLIENTS)
    certified = json.loads(flcert("certify", result.directory, "--json").out)
    assert certified["certified_accuracy"] == list(result.summary.certified_accuracy)
    np.save(tmp_path / "inputs.npy", data.test_inputs[:60])
    predicted = json.loads(flcert("predict", result.directory, tmp_path / "inputs.npy", "--json").out)
    assert predicted["levels"] == RunDirectory.open(result.directory).certificate().levels.tolist()
    (result.directory / "report.html").unlink()
    assert flcert("report", result.directory).code == 0
    page = (result.directory / "report.html").read_text()
    assert "trained over a network of Flower clients" in page
    assert "replies were not used" in page
    assert "repeats the run" not in page


def test_it_is_not_run_again_by_mistake(network, train, flcert):
    directory = train(network()).directory
    commands = (
        ("run", directory / "config.json"),
        ("forget", directory, "client-0003"),
        ("compress", directory, "--dtype", "int8"),
        ("train-group", "--run", directory, "--group", "0"),
    )
    for command in commands:
        answer = flcert(*command)
        assert answer.code == 2
        assert "the data of a run over Flower clients are theirs; only its ServerApp can go on" in answer.err


def test_the_run_directory_has_the_files_of_flcert_run(network, train, flcert):
    flcert("run", "--clients", 9, "--groups", 4, "--rounds", 1, "--engine", "inline", "--out", "other")
    from pathlib import Path

    theirs = {path.name for path in Path("other").iterdir()}
    assert {path.name for path in train(network()).directory.iterdir()} == theirs | {"dropped"}
