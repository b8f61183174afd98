"""Forgetting a client: the bytes of a run that never had it, and no other group trained again."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from flcert.core.leftovers import is_temporary, temporary_beside
from flcert.core.store import Entry, Store
from flcert.datasets import load
from flcert.engines import Inline
from flcert.pipeline.forget import forget
from flcert.runs.directory import RunDirectory
from tests.half_written import leave_half

COMMON = ("--groups", 6, "--rounds", 3, "--engine", "inline", "-q")


@pytest.fixture
def folder(tmp_path):
    """Fifteen clients with digits, as files."""
    federation = load("digits", num_clients=15, num_test=80)
    place = tmp_path / "data"
    (place / "clients").mkdir(parents=True)
    for position, user in enumerate(federation.ids):
        inputs, labels = federation.client(position)
        np.savez(place / "clients" / f"{user}.npz", inputs=inputs, labels=labels)
    np.savez(place / "test.npz", inputs=federation.test_inputs, labels=federation.test_labels)
    return place


def run(flcert, data, out, *options):
    options = ("--set", "data.name=folder", "--set", f"data.options.path={data}", *COMMON, *options, "--out", out)
    result = flcert("run", *options)
    assert result.code == 0, result.err


TELLS_OF_THE_SETTING = ("config.json", "report.html")  # where the data are, and who is left out


def bytes_of(run):
    files = [path for path in run.rglob("*") if path.is_file() and path.name not in TELLS_OF_THE_SETTING]
    found = {str(path.relative_to(run)): path.read_bytes() for path in files}
    manifest = json.loads(found["manifest.json"])
    del manifest["digest"], manifest["files"]["config.json"]
    return {**found, "manifest.json": manifest}


@pytest.mark.parametrize(
    "kind",
    [
        ("hashed", "--also", "runoff", "--set", "recipe.evaluate_at=[1]"),
        ("finite-aggregation", "--set", "grouping.groups_per_client=2"),
    ],
)
def test_the_bytes_are_those_of_a_run_that_never_had_the_client(flcert, folder, tmp_path, kind):
    run(flcert, folder, "with", "--grouping", *kind)
    forgotten = ("client-0003", "client-0011")
    groups = json.loads((tmp_path / "with" / "groups.json").read_text())["groups"]
    held = [tuple(members) for members in groups if set(members) & set(forgotten)]
    stored = set((tmp_path / "cache" / "store").rglob("*.safetensors"))
    done = flcert("forget", "with", *forgotten, "--engine", "inline", "-q", "--json")
    assert done.code == 0, done.err
    counts = json.loads(done.out)["groups"]
    assert counts["held"] == len(held) > 0
    left = {tuple(user for user in members if user not in forgotten) for members in held}
    assert counts["trained"] == len(left - {()} - {tuple(members) for members in groups})
    assert counts["reused"] > 0
    never = tmp_path / "never" / folder.name
    shutil.copytree(folder, never)
    for user in forgotten:
        (never / "clients" / f"{user}.npz").unlink()
    run(flcert, never, "without", "--grouping", *kind, "--cache", tmp_path / "other")
    assert bytes_of(tmp_path / "with") == bytes_of(tmp_path / "without")
    left = set((tmp_path / "cache" / "store").rglob("*.safetensors"))
    files = 5 if kind[0] == "hashed" else 2  # a model and its votes, the same after round 1, and ranks
    assert counts["deleted"] == len(stored - left) == files * len(set(held))
    assert flcert("certify", "with").code == 0
    assert not list(tmp_path.glob(".with*"))


def test_balanced_groups_forget_without_moving_anybody(flcert, folder, tmp_path):
    """Only the group that held the client is trained again, and a second client finds its group where it was."""
    run(flcert, folder, "run", "--grouping", "balanced")
    before = json.loads((tmp_path / "run" / "groups.json").read_text())["groups"]
    assert {len(members) for members in before} == {2, 3}
    for forgotten in (("client-0003",), ("client-0003", "client-0011")):
        done = flcert("forget", "run", forgotten[-1], "--engine", "inline", "-q", "--json")
        assert json.loads(done.out)["groups"]["trained"] == 1
        after = json.loads((tmp_path / "run" / "groups.json").read_text())["groups"]
        assert after == [[user for user in members if user not in forgotten] for members in before]
    assert flcert("certify", "run").code == 0
    assert flcert("compress", "run", "--dtype", "float16", "-q").code == 0


def test_clients_can_be_forgotten_one_after_the_other(flcert, folder, tmp_path):
    for out in ("one", "two"):
        run(flcert, folder, out)
    flcert("forget", "one", "client-0003", "client-0011", "--engine", "inline", "-q")
    for client in ("client-0011", "client-0003"):
        assert flcert("forget", "two", client, "--engine", "inline", "-q").code == 0
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")
    again = flcert("forget", "two", "client-0003", "--engine", "inline", "-q")
    assert "0 groups had held them: 0 trained" in again.out


def test_a_forgotten_run_that_was_stopped_keeps_the_old_one_until_it_is_complete(flcert, folder, tmp_path, monkeypatch):
    run(flcert, folder, "run")
    before = bytes_of(tmp_path / "run")
    with monkeypatch.context() as broken:
        broken.setattr("flcert.pipeline.forget._take_place", stopped)
        assert flcert("forget", "run", "client-0003", "--engine", "inline", "-q").code == 130
    assert bytes_of(tmp_path / "run") == before
    assert flcert("forget", "run", "client-0003", "--engine", "inline", "-q").code == 0
    assert bytes_of(tmp_path / "run") != before


def test_what_an_attack_made_of_the_client_s_group_is_deleted_too(flcert, folder, tmp_path):
    run(flcert, folder, "first")
    groups = json.loads((tmp_path / "first" / "groups.json").read_text())["groups"]
    (companion, *_) = next(set(members) - {"client-0003"} for members in groups if "client-0003" in members)
    run(flcert, folder, "run", "--attack", "label-flip", "--set", f"attack.malicious=['{companion}']")
    before = set((tmp_path / "cache" / "store").rglob("*.safetensors"))
    assert flcert("forget", "run", "client-0003", "--engine", "inline", "-q").code == 0
    gone = before - set((tmp_path / "cache" / "store").rglob("*.safetensors"))
    assert len(gone) == 4  # the model and its votes, with the attack and without


def test_forgetting_that_was_stopped_does_not_keep_others_from_being_forgotten(flcert, folder, tmp_path, monkeypatch):
    run(flcert, folder, "run")
    with monkeypatch.context() as broken:
        broken.setattr("flcert.pipeline.forget._take_place", stopped)
        assert flcert("forget", "run", "client-0003", "--engine", "inline", "-q").code == 130
    done = flcert("forget", "run", "client-0011", "--engine", "inline", "-q")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "run" / "config.json").read_text())["forget"] == ["client-0011"]


def stopped(*_):
    raise KeyboardInterrupt


def test_a_run_whose_place_was_empty_when_it_was_killed_is_found_again(flcert, folder, tmp_path):
    run(flcert, folder, "run")
    (tmp_path / "run").rename(tmp_path / ".run.forgotten")
    assert flcert("forget", "run", "client-0003", "--engine", "inline", "-q").code == 0
    assert [path.name for path in tmp_path.glob("*run*")] == ["run"]


def test_what_was_to_be_deleted_is_known_until_it_is(flcert, folder, tmp_path, monkeypatch):
    """A command that is killed just before the new run takes its place has deleted, or the next one does."""
    run(flcert, folder, "run")
    before = set((tmp_path / "cache" / "store").rglob("*.safetensors"))
    with monkeypatch.context() as broken:
        broken.setattr("flcert.pipeline.forget._take_place", stopped)
        flcert("forget", "run", "client-0003", "--engine", "inline", "-q")
    flcert("forget", "run", "client-0003", "--engine", "inline", "-q")
    after = set((tmp_path / "cache" / "store").rglob("*.safetensors"))
    assert len(before - after) == 2


@pytest.mark.parametrize(
    ("options", "client", "message"),
    [
        ((), "client-003", "unknown client 'client-003'; did you mean 'client-0013'"),
        (("--grouping", "sampled", "--group-size", 2), "client-0003", "groups of kind 'sampled' cannot forget"),
    ],
)
def test_a_mistake_gives_a_message_and_code_2(flcert, folder, options, client, message):
    run(flcert, folder, "run", *options)
    result = flcert("forget", "run", client, "--engine", "inline", "-q")
    assert result.code == 2
    assert message in result.err


def test_whatever_was_made_from_a_client_is_forgotten_though_nobody_listed_it(flcert, folder, tmp_path):
    """An artefact of a kind that flcert does not know, made from votes, which were made from models."""
    run(flcert, folder, "run")
    store = Store(tmp_path / "cache")
    directory = RunDirectory.open(tmp_path / "run")
    held = [group for group, members in enumerate(directory.group_ids()) if "client-0003" in members]
    for group, facts in enumerate(directory.manifest().groups):
        if facts.model:
            (votes,) = store.descendants([facts.model])
            store.write(Entry(f"{group:048x}", (votes,)), {"toy": np.arange(3)})
    done = flcert("forget", "run", "client-0003", "--engine", "inline", "-q", "--json")
    assert json.loads(done.out)["groups"]["deleted"] == 3  # the model, its votes, and what was made from them
    toys = {int(path.stem, 16) for path in store.entries() if path.stem.startswith("0" * 40)}
    everybody = {group for group, facts in enumerate(directory.manifest().groups) if facts.model}
    assert len(held) == 1
    assert toys == everybody - set(held)
    records = "".join(path.read_text() for path in (tmp_path / "cache" / "store").rglob("*.json"))
    assert "client-0004" in records
    assert "client-0003" not in records


def test_entries_of_version_1_are_forgotten_too_and_others_of_unknown_origin_are_told(flcert, folder, tmp_path):
    """An older version of flcert did not write what entries were made from."""
    run(flcert, folder, "run")
    before = stored(tmp_path / "cache")
    for record in (tmp_path / "cache" / "store").rglob("*.json"):
        record.unlink()
    result = flcert("forget", "run", "client-0003", "--engine", "inline", "-q")
    assert result.code == 0
    assert len(before - stored(tmp_path / "cache")) == 2  # a model and its votes
    assert "do not say what they were made from" not in result.err
    Store(tmp_path / "cache").path("ab" * 24).parent.mkdir(parents=True, exist_ok=True)
    Store(tmp_path / "cache").path("ab" * 24).write_bytes(b"strange")
    told = flcert("forget", "run", "client-0004", "--engine", "inline", "-q")
    assert "1 entries of the store do not say what they were made from" in " ".join(told.err.split())


def test_a_damaged_record_of_what_an_entry_was_made_from_is_an_error(flcert, folder, tmp_path):
    run(flcert, folder, "run")
    record = next((tmp_path / "cache" / "store").rglob("*.json"))
    record.write_text("{}")
    result = flcert("forget", "run", "client-0003", "--engine", "inline", "-q")
    assert result.code == 1
    assert f"{record.name} is damaged: it does not say what its entry was made from" in result.err


def stored(place):
    return {path.stem for path in (place / "store").rglob("*.safetensors")}


def test_what_was_made_from_a_client_is_found_though_what_came_between_was_pruned(flcert, folder, tmp_path):
    """Compressed models and their votes are known by the clients, not only by the models that are gone."""
    run(flcert, folder, "run")
    flcert("store", "prune", "--days", 0)
    assert flcert("compress", "run", "--dtype", "int8", "-q").code == 0
    before = stored(tmp_path / "cache")
    assert flcert("forget", "run-int8", "client-0003", "--engine", "inline", "-q").code == 0
    assert len(before - stored(tmp_path / "cache")) == 2
    other = tmp_path / "other"
    assert flcert("compress", "run", "--dtype", "float16", "-q", "--cache", other).code == 0
    before = stored(other)
    assert flcert("forget", "run", "client-0003", "--engine", "inline", "-q", "--cache", other).code == 0
    assert len(before - stored(other)) == 2


@pytest.mark.parametrize("change", ["other data", "excluded"])
def test_entries_made_from_other_data_of_the_client_stay_and_are_told(flcert, folder, tmp_path, change):
    """Another data set may have a client of this id, so the id alone is no reason to delete."""
    options = ("--set", "data.options.on_bad_client=exclude", "--set", "data.options.num_labels=10")
    run(flcert, folder, "run", *options)
    file = folder / "clients" / "client-0003.npz"
    inputs, labels = load("digits", num_clients=15, num_test=80).client(3)
    if change == "excluded":
        file.write_bytes(b"broken")
    else:
        np.savez(file, inputs=inputs[1:], labels=labels[1:])
    run(flcert, folder, "run", *options)
    before = stored(tmp_path / "cache")
    result = flcert("forget", "run", "client-0003", "--engine", "inline", "-q")
    assert result.code == 0, result.err
    told = "2 entries in the store were made from other data of clients with these ids"  # a model and its votes
    assert told in " ".join(result.err.split())
    assert len(before - stored(tmp_path / "cache")) == (0 if change == "excluded" else 2)
    again = flcert("forget", "run", "client-0003", "--engine", "inline", "-q", "--json")
    assert json.loads(again.out)["groups"]["of_other_data"] == 2
    flcert("store", "prune", "--days", 0)
    last = flcert("forget", "run", "client-0003", "client-0004", "--engine", "inline", "-q")
    assert "other data" not in last.err


def test_entries_are_counted_by_the_whole_id_of_their_clients(tmp_path):
    store = Store(tmp_path)
    made = {"a": "client 12ab ann", "b": "client 34cd ann", "c": "client 12ab joann", "d": "client 12ab mary ann"}
    for key, origin in made.items():
        store.write(Entry(key * 48, (origin,)), {"a": np.arange(2)})
    store.write(Entry("e" * 48, ("b" * 48,)), {"a": np.arange(2)})
    assert [store.of_clients(users) for users in (["ann"], ["mary ann"], ["bob"], ["ann", "joann"])] == [3, 1, 0, 4]
    assert store.forget(["client 12ab ann"]) == 1
    assert store.of_clients(["ann"]) == 2


def test_a_copy_of_the_store_forgets_too_when_it_is_told_again(flcert, folder, tmp_path):
    run(flcert, folder, "run")
    shutil.copytree(tmp_path / "cache", tmp_path / "copy")
    flcert("forget", "run", "client-0003", "--engine", "inline", "-q")
    before = stored(tmp_path / "copy")
    again = flcert("forget", "run", "client-0003", "--engine", "inline", "-q", "--cache", tmp_path / "copy", "--json")
    assert json.loads(again.out)["groups"]["deleted"] == 2
    assert len(before - stored(tmp_path / "copy")) == 2


def test_pruning_removes_the_records_with_the_entries(flcert, folder, tmp_path):
    run(flcert, folder, "run")
    assert list((tmp_path / "cache" / "store").rglob("*.json"))
    flcert("store", "prune", "--days", 0)
    assert list((tmp_path / "cache" / "store").rglob("*.json")) == []


def test_an_entry_is_never_there_without_its_record(tmp_path, monkeypatch):
    store = Store(tmp_path)
    monkeypatch.setattr("flcert.core.store.pack", stopped)
    with pytest.raises(KeyboardInterrupt):
        store.write(Entry("ab" * 24, ("client x ann",)), {"a": np.arange(2)})
    assert store.descendants(["client x ann"]) == {"ab" * 24}
    assert list(store.entries()) == []


def test_nothing_that_a_killed_command_left_half_written_stays(flcert, folder, tmp_path, monkeypatch):
    """It can be a model of the client, or a copy of its data."""
    run(flcert, folder, "run")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    with monkeypatch.context() as broken:
        broken.setattr("flcert.pipeline.forget._take_place", stopped)
        flcert("forget", "run", "client-0003", "--engine", "inline", "-q")
    entry, beside = next(Store().entries()), tmp_path / ".run.forgetting"
    leave_half(entry, beside / "votes.npy", next((beside / "models").iterdir()), tmp_path / "scratch" / "flcert")
    assert len(temporaries(tmp_path)) == 4
    result = flcert("forget", "run", "client-0003", "--engine", "inline", "-q")
    assert result.code == 0
    assert temporaries(tmp_path) == []
    assert "temporary files" not in result.err


def temporaries(place):
    return [path for path in place.rglob("*") if is_temporary(path)]


def test_forget_tells_of_temporary_files_that_it_must_leave(flcert, folder, tmp_path):
    run(flcert, folder, "run")
    busy = temporary_beside(next(Store().entries()))
    busy.write_bytes(b"half")
    result = flcert("forget", "run", "client-0003", "--engine", "inline", "-q")
    assert result.code == 0
    assert busy.exists()
    assert "1 temporary files in the store belong to commands that may still run" in " ".join(result.err.split())


def test_of_two_that_forget_at_once_each_waits_for_the_other_and_both_are_obeyed(flcert, folder, tmp_path):
    run(flcert, folder, tmp_path / "run")
    clients = ("client-0003", "client-0007")
    with ThreadPoolExecutor(2) as pool:
        store = Store(tmp_path / "cache")
        asked = [pool.submit(forget, tmp_path / "run", [one], engine=Inline(), store=store) for one in clients]
        assert all(one.result().deleted for one in asked)
    assert RunDirectory.open(tmp_path / "run").config().forget == clients
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".run")] == []


def test_other_commands_say_what_to_do_where_forgetting_was_killed_in_its_last_step(flcert, folder, tmp_path):
    run(flcert, folder, tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / ".run.forgotten")
    result = flcert("report", "run")
    assert result.code == 2
    assert "was being replaced when flcert forget was stopped; repeat that command" in result.err
