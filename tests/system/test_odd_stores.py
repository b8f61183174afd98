"""Stores with entries that cannot be read, on disks that cannot be written, or with what killed commands left."""

import errno
import io
import os
from pathlib import Path

import numpy as np
import pytest

from flcert.core.leftovers import temporary_beside
from flcert.core.store import Entry, Store
from flcert.engines import Inline
from flcert.errors import RunError
from flcert.training import train
from tests.half_written import leave_half

SMALL = ("run", "--clients", 12, "--groups", 4, "--rounds", 2, "--engine", "inline", "-q")


def loop(path):
    path.unlink()
    path.symlink_to(path.name)


def empty_directory(path):
    path.unlink()
    path.mkdir()


ODD = {"a symlink loop": loop, "an empty directory": empty_directory}


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("odd", ODD)
def test_an_entry_that_cannot_be_read_is_trained_again(odd, record, federation, grouping, recipe, store):
    ensemble = train(federation, grouping, recipe, engine=Inline(), store=store)
    path = store.path(next(iter(ensemble.model_keys().values())))
    sound = path.read_bytes()
    ODD[odd](path)
    if record:
        ODD[odd](path.with_suffix(".json"))
    again = train(federation, grouping, recipe, engine=Inline(), store=store)
    assert (again.trained, again.damaged) == (1, 1)
    assert path.read_bytes() == sound
    assert path.with_suffix(".json").is_file()


def test_an_entry_without_permission_is_trained_again(federation, grouping, recipe, store, monkeypatch):
    ensemble = train(federation, grouping, recipe, engine=Inline(), store=store)
    path = store.path(next(iter(ensemble.model_keys().values())))
    sound, inode, real = path.read_bytes(), path.stat().st_ino, Path.read_bytes

    def read(self):
        if self == path and self.stat().st_ino == inode:
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(self)

    monkeypatch.setattr(Path, "read_bytes", read)
    assert train(federation, grouping, recipe, engine=Inline(), store=store).damaged == 1
    assert path.read_bytes() == sound


@pytest.mark.parametrize("odd", ODD)
def test_odd_votes_are_cast_again(odd, flcert):
    assert flcert(*SMALL, "--out", "run").code == 0
    for entry in [entry for entry in Store().entries() if entry.stat().st_size < 5000]:  # votes, not models
        ODD[odd](entry)
    result = flcert(*SMALL, "--out", "again")
    assert result.code == 0, result.err


@pytest.mark.parametrize("suffix", [".safetensors", ".json"])
def test_what_cannot_be_replaced_is_named_before_anything_is_trained(suffix, flcert, monkeypatch):
    assert flcert(*SMALL, "--out", "run").code == 0
    path = next(entry for entry in Store().entries() if entry.stat().st_size > 5000)
    path.unlink()
    odd = path.with_suffix(suffix)
    odd.unlink(missing_ok=True)
    odd.mkdir()
    (odd / "something").write_text("of the user's")
    monkeypatch.setattr("flcert.engines.base.Workers._started", None)  # nothing may start
    result = flcert(*SMALL, "--out", "again")
    assert result.code == 1
    assert result.err.splitlines() == [f"error: cannot delete {odd}: Directory not empty"]


@pytest.mark.parametrize("odd", ODD)
def test_odd_entries_can_be_counted_pruned_and_forgotten(odd, store, flcert):
    for key in ("ab" * 24, "cd" * 24):
        store.write(Entry(key, (f"client {key} ann",)), {"a": np.arange(3)})
        ODD[odd](store.path(key))
    assert "2 files" in flcert("store", "info", "--cache", store.directory).out
    assert store.forget([f"client {'ab' * 24} ann"]) == 1
    assert "deleted 1 files" in flcert("store", "prune", "--days", 0, "--cache", store.directory).out
    assert [path for path in (store.directory / "store").rglob("*") if path.parent.name != "store"] == []


def test_a_directory_that_is_in_use_is_named_by_prune(store):
    store.write(Entry("ab" * 24, ()), {"a": np.arange(3)})
    path = store.path("ab" * 24)
    empty_directory(path)
    (path / "something").write_text("of the user's")
    with pytest.raises(RunError, match=f"cannot delete {path}: Directory not empty"):
        store.prune(0)


@pytest.fixture
def read_only(monkeypatch, tmp_path):
    """The store in this directory can be read, but not written, whoever asks."""
    refused = []

    def refuse(place):
        if isinstance(place, str | os.PathLike) and Path(place).absolute().is_relative_to(tmp_path / "cache"):
            refused.append(place)
            raise OSError(errno.EROFS, "Read-only file system")

    def guarded(function, *positions):
        def call(*arguments, **options):
            for position in positions:
                refuse(arguments[position])
            return function(*arguments, **options)

        return call

    real = io.open

    def opened(file, mode="r", *arguments, **options):
        if set(mode) & set("wax+"):
            refuse(file)
        return real(file, mode, *arguments, **options)

    def begin():
        monkeypatch.setattr(io, "open", opened)
        monkeypatch.setattr("builtins.open", opened)
        for name, positions in {
            "utime": (0,),
            "unlink": (0,),
            "rmdir": (0,),
            "replace": (0, 1),
            "link": (0, 1),
        }.items():
            monkeypatch.setattr(os, name, guarded(getattr(os, name), *positions))
        made = os.mkdir

        def mkdir(path, *arguments):
            if not Path(path).is_dir():
                refuse(path)
            made(path, *arguments)

        monkeypatch.setattr(os, "mkdir", mkdir)
        return refused

    return begin


def test_a_complete_store_on_a_read_only_disk_can_be_used(flcert, read_only, tmp_path):
    assert flcert(*SMALL, "--out", "run").code == 0
    refused = read_only()
    result = flcert(*SMALL, "--out", "again")
    assert result.code == 0, result.err
    assert refused  # it does stand in the way of writing
    assert (tmp_path / "again" / "votes.npy").read_bytes() == (tmp_path / "run" / "votes.npy").read_bytes()


def test_an_incomplete_store_on_a_read_only_disk_is_refused_before_anything_is_trained(flcert, read_only, monkeypatch):
    assert flcert(*SMALL, "--out", "run").code == 0
    path = next(entry for entry in Store().entries() if entry.stat().st_size > 5000)
    path.unlink()
    read_only()
    monkeypatch.setattr("flcert.engines.base.Workers._started", None)  # nothing may start
    result = flcert(*SMALL, "--out", "again")
    assert result.code == 2
    assert result.err.splitlines() == [f"error: directory {path.parent} cannot be written: Read-only file system"]


def test_prune_removes_what_killed_commands_left(flcert, store):
    store.write(Entry("ab" * 24, ()), {"a": np.arange(3)})
    path = store.path("ab" * 24)
    leave_half(path, path.with_suffix(".json"), store.directory / "probe", store.directory / "store" / "probe")
    busy = temporary_beside(path)
    busy.write_bytes(b"half")  # of a process that runs: this one
    result = flcert("store", "prune", "--cache", store.directory)
    assert result.code == 0
    assert "deleted 4 temporary files of commands that were killed" in result.out
    assert set(path.parent.iterdir()) == {path, path.with_suffix(".json"), busy}
    assert [found.name for found in store.directory.iterdir()] == ["store"]
