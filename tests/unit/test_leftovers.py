"""Temporary names tell which process made them, and what a killed process left is removed."""

import multiprocessing
import os
import re
import time

import pytest

from flcert.core.files import replacing, writable_directory
from flcert.core.leftovers import OLD, is_temporary, remove_leftovers, temporary_beside


def start_writing(path):
    with replacing(path) as temporary:
        temporary.write_bytes(b"half")
        os._exit(1)


def in_a_process_that_dies(target, *args):
    process = multiprocessing.get_context("spawn").Process(target=target, args=args)
    process.start()
    process.join()


def make_leftover_directory(path):
    place = temporary_beside(path)
    place.mkdir()
    (place / "data").write_bytes(b"private")


def test_what_a_killed_process_left_is_removed(tmp_path):
    in_a_process_that_dies(start_writing, tmp_path / "model")
    in_a_process_that_dies(make_leftover_directory, tmp_path / "copy")
    assert len(left := list(tmp_path.iterdir())) == 2
    assert all(map(is_temporary, left))
    assert remove_leftovers(tmp_path) == 2
    assert list(tmp_path.iterdir()) == []


def test_what_a_running_process_writes_stays(tmp_path):
    with replacing(tmp_path / "model") as temporary:
        temporary.write_bytes(b"half")
        assert remove_leftovers(tmp_path) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("name", [f".model.{'0' * 12}-1-{'0' * 32}.tmp", f".model.{'0' * 32}.tmp"])
def test_those_of_other_machines_and_earlier_versions_go_when_they_are_old(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(b"")
    assert remove_leftovers(tmp_path) == 0
    os.utime(path, (time.time() - OLD - 60,) * 2)
    assert remove_leftovers(tmp_path) == 1


@pytest.mark.parametrize("name", ["model", ".model.tmp", "notes.tmp", ".hidden"])
def test_other_files_are_not_ours(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(b"")
    os.utime(path, (0, 0))
    assert not is_temporary(path)
    assert remove_leftovers(tmp_path) == 0


def test_where_others_keep_files_only_ours_are_removed_and_no_name_breaks_it(tmp_path):
    ours, theirs, odd = (
        tmp_path / name
        for name in (f".flcert.{'0' * 32}.tmp", f".other.{'0' * 32}.tmp", temporary_beside(tmp_path / "flcert").name)
    )
    odd = odd.with_name(re.sub(r"-\d+-", f"-{10**25}-", odd.name))
    for path in (ours, theirs, odd):
        path.write_bytes(b"")
        os.utime(path, (0, 0) if path != odd else None)
    assert remove_leftovers(tmp_path, "flcert") == 1
    assert (ours.exists(), theirs.exists(), odd.exists()) == (False, True, True)


def test_a_directory_that_is_missing_has_no_leftovers(tmp_path):
    assert remove_leftovers(tmp_path / "missing") == 0


def test_trying_whether_a_directory_is_writable_leaves_nothing(tmp_path):
    assert list(writable_directory(tmp_path / "new").iterdir()) == []
