"""Run directories of format 1 still open; those of a format to come are refused in one sentence."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from flcert import certify
from flcert.datasets import load
from flcert.runs.directory import RunDirectory
from flcert.runs.ensemble import open_ensemble

OLD = Path(__file__).parents[1] / "data" / "format-1"  # written by the version before formats had numbers
RUNS = sorted(path.name for path in OLD.iterdir())
RECORDS = ("config.json", "manifest.json", "groups.json", "summary.json", "samples.json")


@pytest.fixture(params=RUNS)
def old(request, tmp_path):
    shutil.copytree(OLD / request.param, tmp_path / "run")
    return tmp_path / "run"


def test_every_command_works_on_a_run_of_format_1(flcert, old):
    assert flcert("certify", old).code == 0  # it compares with the recorded certificate
    summary = json.loads((old / "summary.json").read_text())
    for kind, figures in summary.get("also", {}).items():
        printed = json.loads(flcert("certify", old, "--also", kind, "--json").out)
        if "inputs" in figures:
            assert printed["stay_right"] == figures["inputs"]
        else:
            assert printed["certified_accuracy"] == figures["certified_accuracy"]
    assert flcert("report", old).code == 0
    page = (old / "report.html").read_text()
    for kind in summary.get("also", {}):
        assert certify.kind_class(kind).title in page
    np.save("inputs.npy", load("digits", num_clients=12, num_test=16).test_inputs)
    predicted = json.loads(flcert("predict", old, "inputs.npy", "--json").out)
    assert predicted["levels"] == RunDirectory.open(old).certificate().levels.tolist()


def test_a_run_of_format_1_is_gone_on_with(flcert, old):
    before = {path.name: path.read_bytes() for path in (old / "models").iterdir()}
    result = flcert("run", old / "config.json", "--engine", "inline", "-q", "--out", old)
    assert result.code == 0, result.err
    assert {path.name: path.read_bytes() for path in (old / "models").iterdir()} == before
    assert json.loads((old / "manifest.json").read_text())["format"] == 2
    assert flcert("certify", old).code == 0


def test_groups_are_restored_with_all_that_certificates_ask_of_them(old):
    directory = RunDirectory.open(old)
    restored, built = open_ensemble(directory).grouping, directory.config().grouping
    fresh = built.build(load("digits", num_clients=12, num_test=16).ids)
    for name in ("kind", "num_clients", "group_size", "drawn", "distinct"):
        assert getattr(restored, name) == getattr(fresh, name)
    assert [len(group) for group in restored.members] == [len(group) for group in fresh.members]


@pytest.mark.parametrize("name", RECORDS)
def test_a_format_to_come_is_refused_in_one_sentence(flcert, tmp_path, name):
    shutil.copytree(OLD / RUNS[0], tmp_path / "run")
    file = tmp_path / "run" / name
    values = json.loads(file.read_text())
    file.write_text(json.dumps({"format": 3, "groups": values} if isinstance(values, list) else values | {"format": 3}))
    asks = {"config.json": ("run", file, "--out", "run"), "groups.json": ("certify", "run", "--also", "runoff")}
    result = flcert(*asks.get(name, ("report", "run")))
    assert result.code == 2
    assert f"{name} is of format 3; this version of flcert reads formats 1 and 2" in result.err


def test_every_record_of_a_run_carries_its_format(flcert, tmp_path):
    flcert("run", "--clients", 12, "--groups", 4, "--rounds", 1, "--engine", "inline", "-q", "--out", "run")
    written = sorted(path.name for path in (tmp_path / "run").glob("*.json"))
    assert written == sorted(RECORDS)
    assert {json.loads((tmp_path / "run" / name).read_text())["format"] for name in written} == {2}
