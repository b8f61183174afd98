"""Which kernels computed a model is no part of its key, but it is recorded, and a run tells when there are several."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from flcert.core.determinism import SWITCHES, kernels
from flcert.core.store import UNKNOWN, Entry, Store
from flcert.engines import Inline, Processes, Workers
from flcert.runs.directory import RunDirectory
from flcert.runs.records import Manifest
from flcert.training import train

SMALL = ("run", "--clients", "12", "--groups", "4", "--rounds", "2", "-q")


def flcert_with(tmp_path, *arguments, **environment):
    command = [sys.executable, "-c", "from flcert.cli.main import main; main()", *arguments]
    known = {**os.environ, "FLCERT_CACHE": str(tmp_path / "cache"), **environment}
    result = subprocess.run(command, cwd=tmp_path, env=known, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result


def told(err):
    return [line for line in err.splitlines() if "kernels" in line]


def manifest(tmp_path, out):
    return RunDirectory.open(tmp_path / out).manifest()


def models(tmp_path, out):
    return {facts.model for facts in manifest(tmp_path, out).groups if facts.model}


@pytest.mark.parametrize("engine", [pytest.param("inline", marks=pytest.mark.slow), "processes"])
def test_other_kernels_have_the_same_keys_and_are_recorded_and_told(tmp_path, engine):
    plain = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}
    first = flcert_with(tmp_path, *SMALL, "--engine", engine, "--workers", "1", "--out", "first", **plain)
    number = len(models(tmp_path, "first"))
    ((kind, groups),) = manifest(tmp_path, "first").kernels.items()
    assert kind.endswith(" DEFAULT MKL_CBWR=COMPATIBLE")
    assert groups == number
    assert told(first.stderr) == []
    store = Store(tmp_path / "cache")
    lost = min(models(tmp_path, "first"))
    store.delete(lost)
    second = flcert_with(tmp_path, *SMALL, "--engine", "inline", "--out", "second")
    assert models(tmp_path, "second") == models(tmp_path, "first")
    assert manifest(tmp_path, "second").kernels == {kind: number - 1, kernels(): 1}
    (line,) = told(second.stderr)
    assert f"{number - 1} on {kind}" in line
    assert f"1 on {kernels()}" in line
    assert {store.kernels(key) for key in models(tmp_path, "first") - {lost}} == {kind}
    assert store.kernels(lost) == kernels()


def kernels_there(federation, task):
    return kernels()


@pytest.mark.parametrize("name", SWITCHES)
def test_each_switch_is_part_of_the_kind(name, monkeypatch):
    monkeypatch.setenv(name, "something")
    assert kernels().endswith(f" {name}=something")


def test_workers_compute_with_the_kernels_of_the_command(federation, monkeypatch):
    for name in ("MKL_CBWR", "ONEDNN_MAX_CPU_ISA"):
        monkeypatch.setenv(name, "AVX2")
    with Workers(Processes(1), federation) as workers:
        assert [found for _, found in workers.completed(kernels_there, [lambda: None])] == [kernels()]


def test_votes_have_their_kernels_recorded_too(flcert, tmp_path):
    assert flcert(*SMALL, "--engine", "inline", "--out", "run").code == 0
    records = [json.loads(path.read_text()) for path in (tmp_path / "cache" / "store").rglob("*.json")]
    assert len(records) == 2 * len(models(tmp_path, "run"))
    assert {record["kernels"] for record in records} == {kernels()}


def test_entries_of_older_versions_are_used_and_their_kernels_are_unknown(federation, grouping, recipe, store):
    train(federation, grouping, recipe, engine=Inline(), store=store)
    for record in store.directory.rglob("*.json"):
        values = json.loads(record.read_text())
        record.write_text(json.dumps({"format": 1, "made_from": values["made_from"]}))
    again = train(federation, grouping, recipe, engine=Inline(), store=store)
    assert again.trained == 0
    assert again.kernels == {UNKNOWN: len(again.model_keys())}


@pytest.mark.parametrize("record", ["", "[]", '{"kernels": 3}', None])
def test_a_record_that_tells_no_kernels_is_no_error(record, store):
    store.write(Entry("ab" * 24, ()), {"a": np.arange(2)}, "some")
    path = store.path("ab" * 24).with_suffix(".json")
    path.unlink() if record is None else path.write_text(record)
    assert store.kernels("ab" * 24) == UNKNOWN


def test_a_manifest_without_kernels_can_be_read(flcert, tmp_path):
    flcert(*SMALL, "--engine", "inline", "--out", "run")
    values = json.loads((tmp_path / "run" / "manifest.json").read_text())
    del values["kernels"]
    assert Manifest.read(values, "manifest.json").kernels == {}


def test_a_compressed_run_keeps_the_kernels_of_its_groups(flcert, tmp_path):
    flcert(*SMALL, "--engine", "inline", "--out", "run")
    assert flcert("compress", "run", "--dtype", "float16", "-q").code == 0
    assert manifest(tmp_path, "run-float16").kernels == manifest(tmp_path, "run").kernels
