"""Clients whose files are unusable end nobody's run: they are left out, told, and counted as malicious."""

import json

import numpy as np
import pytest

from flcert import load_config, run
from flcert.datasets import load
from flcert.engines import Inline
from flcert.runs.directory import RunDirectory

USERS = tuple(f"client-{number}" for number in range(8))
FEW = ["--set", "recipe.rounds=4", "--set", "recipe.local_steps=8", "--engine", "inline", "-q"]


@pytest.fixture(scope="module")
def digits():
    return load("digits", num_clients=len(USERS), num_test=10)


@pytest.fixture
def folder(digits, tmp_path):
    path = tmp_path / "private" / "numbers"
    (path / "clients").mkdir(parents=True)
    for position, user in enumerate(USERS):
        inputs, labels = digits.client(position)
        np.savez(path / "clients" / f"{user}.npz", inputs=inputs[:80], labels=labels[:80])
    np.savez(path / "test.npz", inputs=digits.test_inputs, labels=digits.test_labels)
    return path


def settings(folder, grouping, *more):
    chosen = [f"grouping.{key}={json.dumps(value)}" for key, value in grouping.items()]
    options = [f"data.options.path={folder}", "data.options.on_bad_client=exclude", "data.options.num_labels=10"]
    few = ["data.name=folder", "recipe.rounds=4", "recipe.local_steps=8", "certificate.alpha=0.5"]
    return load_config(None, [*few, *options, *chosen, *more])


def spoil(folder, *users):
    for user in users:
        (folder / "clients" / f"{user}.npz").write_bytes(b"not an archive")


def models(directory):
    return {path.name: path.read_bytes() for path in sorted((directory / "models").iterdir())}


def test_other_groups_keep_their_models_and_its_own_is_trained_without_it(folder, store, tmp_path):
    config = settings(folder, KINDS["balanced"])
    run(config, tmp_path / "all", engine=Inline(), store=store)
    groups = json.loads((tmp_path / "all" / "groups.json").read_text())["groups"]
    own = next(group for group, held in enumerate(groups) if USERS[3] in held)
    without = config.model_copy(update={"forget": (USERS[3],)})
    run(without, tmp_path / "without", engine=Inline(), store=store)
    spoil(folder, USERS[3])
    run(config, tmp_path / "spoiled", engine=Inline(), store=store)
    complete, spoiled = models(tmp_path / "all"), models(tmp_path / "spoiled")
    assert spoiled == models(tmp_path / "without")
    assert [name for name in complete if complete[name] != spoiled[name]] == [sorted(complete)[own]]
    registered = RunDirectory.open(tmp_path / "spoiled").grouping()
    assert (registered.num_clients, [len(group) for group in registered.members]) == (8, [2, 2, 2, 2])


KINDS = {
    "balanced": {"kind": "balanced", "num_groups": 4},
    "every client a group": {"kind": "balanced", "num_groups": 8},
    "hashed": {"kind": "hashed", "num_groups": 8},
    "finite-aggregation": {"kind": "finite-aggregation", "num_groups": 8, "groups_per_client": 2},
    "sampled": {"kind": "sampled", "num_groups": 100, "group_size": 1},
    "enumerated": {"kind": "enumerated", "group_size": 1},
    "pairs": {"kind": "enumerated", "group_size": 2},
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_certified_holds_whatever_the_excluded_client_would_have_sent(folder, store, tmp_path, kind):
    """Groups of one client without a model are among these: they count as votes for the strongest rival."""
    config = settings(folder, KINDS[kind])
    good = (folder / "clients" / f"{USERS[3]}.npz").read_bytes()
    spoil(folder, USERS[3])
    found = run(config, tmp_path / "spoiled", engine=Inline(), store=store)
    assert found.guarantee.num_clients == 8
    held = ~found.certificate.abstained & (found.certificate.levels >= 1)
    assert held.any()
    inputs, labels = np.load(folder / "test.npz")["inputs"], np.zeros(10, int)
    for sent in (None, (inputs, labels), (inputs, labels + 7)):
        if sent is None:
            (folder / "clients" / f"{USERS[3]}.npz").write_bytes(good)
        else:
            np.savez(folder / "clients" / f"{USERS[3]}.npz", inputs=sent[0], labels=sent[1])
        other = run(config, tmp_path / f"other-{sent is None or sent[1][0]}", engine=Inline(), store=store)
        after = other.guarantee.predict(RunDirectory.open(other.directory).evidence())
        assert (after[held] == found.certificate.labels[held]).all()
        assert other.summary.excluded is None


def test_a_group_of_excluded_clients_has_clients_and_no_model(folder, store, tmp_path):
    spoil(folder, USERS[3])
    found = run(settings(folder, {"num_groups": 8}), tmp_path / "run", engine=Inline(), store=store)
    assert found.guarantee.num_failed == 1
    facts = [one for one in RunDirectory.open(tmp_path / "run").manifest().groups if not one.model]
    assert [(one.clients, one.failure) for one in facts] == [(1, "the data of all its clients are unusable")]
    assert int(found.certificate.levels.max()) <= 3  # 7 votes at most, one more for the rival: (7 - 1) / 2


def test_the_record_is_kept_and_told_wherever_a_table_is_printed(flcert, folder, tmp_path):
    spoil(folder, USERS[1], USERS[6])
    told = (
        "2 clients' files were unusable and left out: beside a federation of honest clients they are 2 of the m "
        "malicious ones, so read m = 2 and above."
    )
    options = ["--set", "data.name=folder", "--set", f"data.options.path={folder}", "--groups", "4"]
    refused = flcert("run", *options, *FEW, "--out", "run")
    assert (refused.code, refused.out) == (2, "")
    assert "client-1.npz cannot be read as npz" in refused.err
    exclude = ["--set", "data.options.on_bad_client=exclude", "--also", "collective"]
    made = flcert("run", *options, *FEW, *exclude, "--out", "run")
    assert made.code == 0, made.err
    assert told in made.out
    assert "of the 8 clients" in made.out
    manifest, summary = (
        json.loads((tmp_path / "run" / f"{name}.json").read_text()) for name in ("manifest", "summary")
    )
    reason = "the file cannot be read as npz: it is not a zip file"
    assert manifest["data"]["excluded"] == {"client-1": reason, "client-6": reason}
    assert (manifest["data"]["clients"], manifest["data"]["examples"], summary["excluded"]) == (8, 6 * 80, 2)
    page = (tmp_path / "run" / "report.html").read_text()
    assert told.replace("'", "&#39;") in page
    assert f"client-6: {reason}" in page
    for command in (
        ["certify", "run"],
        ["certify", "run", "--also", "collective"],
        ["compress", "run", "--dtype", "int8", "--workers", "1"],
    ):
        assert told in flcert(*command).out
    assert json.loads(flcert("certify", "run", "--json").out)["excluded"] == 2
    assert json.loads(flcert("run", *options, *FEW, *exclude, "--out", "run", "--json").out)["excluded"] == 2
    assert "1 of the runs left out clients whose files were unusable" in " ".join(flcert("compare", "run").out.split())
    assert flcert("forget", "run", "client-6", *FEW[-3:]).code == 0
    assert "1 client's file was unusable and left out: beside a federation" in flcert("certify", "run").out


def test_an_attack_by_an_excluded_client_changes_nothing(folder, store, tmp_path):
    spoil(folder, USERS[3])
    attack = ["attack.name=label-flip", f"attack.malicious={json.dumps([USERS[3]])}"]
    found = run(settings(folder, KINDS["balanced"], *attack), tmp_path / "run", engine=Inline(), store=store)
    assert found.summary.attack.changed == 0
    assert found.attacked.trained == 0


def test_too_few_clients_left_for_a_rule_are_told(folder, store, tmp_path):
    spoil(folder, USERS[3])
    run(settings(folder, {"num_groups": 1}, "recipe.aggregator=krum"), tmp_path / "a", engine=Inline(), store=store)
    spoil(folder, *USERS[2:])
    run(settings(folder, {"num_groups": 1}, "recipe.aggregator=krum"), tmp_path / "b", engine=Inline(), store=store)
    told = [RunDirectory.open(tmp_path / name).manifest().groups[0] for name in "ab"]
    assert [(one.clients, bool(one.substitute)) for one in told] == [(8, False), (8, True)]
