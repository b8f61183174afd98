"""The failure probability of sampled groups: shared, spent, and remembered."""

import json
import shutil

import httpx
import numpy as np
import pytest

from flcert import certify, voting
from flcert.datasets import load
from flcert.errors import InputError, RunError
from flcert.runs.directory import RunDirectory
from flcert.serve.ledger import Ledger
from flcert.serve.service import Service
from tests.sealing import change_manifest
from tests.theory.exact import sampled

INPUTS = load("digits", num_clients=60).test_inputs
ALPHA, PREDICTIONS = 0.05, 12
JSON = {"Content-Type": "application/json"}


def ask(service, rows):
    body = {"inputs": INPUTS[rows].tolist()}
    return httpx.post(f"{service.address}/v1/predict", json=body, timeout=60).json()


def expected_levels(directory, rows):
    """Theorem 1 with alpha shared by all predictions that are promised."""
    votes = RunDirectory.open(directory).array("votes")[:, rows]
    counts = voting.count(votes, 10)
    return sampled(counts, num_clients=60, group_size=4, alpha=ALPHA, num_inputs=PREDICTIONS, num_groups=80)


def test_each_answer_takes_an_equal_part_and_a_restart_forgets_nothing(sampled_directory, serving, tmp_path):
    ledger = tmp_path / "ledger.json"
    options = ("--alpha", ALPHA, "--predictions", PREDICTIONS, "--ledger", ledger, "--no-token")
    with serving(sampled_directory, *options) as service:
        first = ask(service, list(range(5)))
        assert service.stop() == 0
    expected = expected_levels(sampled_directory, list(range(5)))
    assert [one["level"] for one in first["predictions"]] == expected.levels.tolist()
    assert max(expected.levels) > 0
    assert first["budget"] == {"alpha": ALPHA, "predictions": 12, "spent": 5, "alpha_spent": ALPHA * (5 / 12)}
    with serving(sampled_directory, *options) as service:
        second = ask(service, list(range(5, 10)))
        service.process.kill()  # as in a power cut
        service.process.wait()
    assert second["budget"]["spent"] == 10
    with serving(sampled_directory, *options) as service:
        last = ask(service, list(range(10, 15)))
        nothing = ask(service, [0])
        info = httpx.get(f"{service.address}/v1/info").json()
    assert [one["abstained"] is None for one in last["predictions"]] == [False, False, True, True, True]
    assert not any(one["certified"] for one in last["predictions"][2:])
    assert [one["level"] for one in last["predictions"]][:2] == expected_levels(
        sampled_directory, [10, 11]
    ).levels.tolist()
    assert last["predictions"][4]["level"] is None
    assert last["predictions"][4]["sentence"].endswith(
        "without a certificate: the predictions that alpha covers are spent."
    )
    assert nothing["predictions"][0]["label"] == first["predictions"][0]["label"]
    assert (nothing["predictions"][0]["certified"], nothing["predictions"][0]["abstained"]) == (False, None)
    assert info["budget"] == nothing["budget"] == {"alpha": ALPHA, "predictions": 12, "spent": 12, "alpha_spent": ALPHA}


def test_bad_requests_spend_nothing(sampled_directory, serving, tmp_path):
    options = ("--alpha", ALPHA, "--predictions", PREDICTIONS, "--ledger", tmp_path / "ledger.json", "--no-token")
    with serving(sampled_directory, *options) as service:
        for body in ("{", '{"inputs": [1]}', '{"inputs": [[NaN]]}'):
            assert httpx.post(f"{service.address}/v1/predict", content=body, headers=JSON).status_code in (400, 422)
        assert httpx.get(f"{service.address}/v1/info").json()["budget"]["spent"] == 0


def test_the_groups_that_were_drawn_are_certified_without_probability(sampled_directory, serving):
    with serving(sampled_directory, "--certificate", "overlapping") as service:
        answer = ask(service, list(range(30)))
    run = RunDirectory.open(sampled_directory)
    expected = certify.overlapping(run.array("votes")[:, :30], run.members(), num_clients=60)
    assert [one["level"] for one in answer["predictions"]] == expected.levels.tolist()
    assert (answer["certificate"], answer["budget"]) == ("overlapping", None)


MISTAKES = {
    (): "give --alpha (of all answers together) and --predictions",
    ("--alpha", "0.05"): "give --alpha (of all answers together) and --predictions",
    ("--alpha", "1.5", "--predictions", "5"): "alpha must be less than 1, got 1.5",
    ("--alpha", "0.05", "--predictions", "0"): "predictions must be greater than 0, got 0",
    ("--certificate", "collective"): "certificate 'collective' is for disjoint groups, got groups of kind 'sampled'",
    ("--certificate", "runoff"): "certificate 'runoff' needs how the models rank the labels",
    (
        "--certificate",
        "best",
    ): "unknown certificate 'best' (known: collective, disjoint,",
    (
        "--certificate",
        "overlapping",
        "--alpha",
        "0.1",
    ): "is for certificates of groups drawn at random; this one needs none",
}


def test_mistakes_with_alpha_get_a_clear_error(flcert, sampled_directory, tmp_path):
    for options, message in MISTAKES.items():
        done = flcert("serve", sampled_directory, *options)
        assert (options, done.code) == (options, 2)
        assert message in done.err.replace("\n", " ")
    assert not (sampled_directory / "served.json").exists()


DAMAGE = {
    "not JSON": "{",
    "no account": "[]",
    "a wrong number": '{"run": "these models", "alpha": 0.1, "predictions": 10, "spent": -5}',
}


@pytest.mark.parametrize("damage", [*DAMAGE, "gone", "changed"])
def test_a_damaged_account_certifies_nothing_and_tells_its_place_to_the_log_alone(
    sampled_directory, serving, tmp_path, damage
):
    ledger = tmp_path / "ledger.json"
    options = ("--alpha", ALPHA, "--predictions", PREDICTIONS, "--ledger", ledger, "--no-token")
    with serving(sampled_directory, *options) as service:
        if damage == "gone":
            ledger.unlink()
        else:
            ledger.write_text(DAMAGE.get(damage, ledger.read_text().replace('"spent": 0', '"spent": 1')))
        answer = httpx.post(f"{service.address}/v1/predict", json={"inputs": INPUTS[:1].tolist()}, timeout=60)
        assert service.stop() == 0
    assert answer.status_code == 500
    assert answer.json() == {"error": "the service cannot answer; its log says why"}
    assert str(ledger) in service.log.read_text()
    assert "Traceback" not in service.log.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--token-file", "nowhere"), "cannot read the token file nowhere: No such file"),
        (("--token-file", "short"), "must be one word of at least 16 ASCII characters"),
        (("--host", "256.0.0.1"), "cannot listen on 256.0.0.1:8000"),
        (("--alpha", "0.1"), "is for certificates of groups drawn at random"),
        (("--port", "99999"), "port must be in [0, 65535], got 99999"),
        (("--concurrency", "0"), "concurrency must be at least 1, got 0"),
        (("--max-connections", "0"), "max_connections must be at least 1, got 0"),
        (("--header-seconds", "0"), "header_seconds must be at least 1, got 0"),
        (("--no-token", "--token-file", "short"), "--no-token asks for no token, got --token-file short too"),
    ],
    ids=str,
)
def test_mistakes_get_a_clear_error(flcert, run_directory, tmp_path, options, message):
    (tmp_path / "short").write_text("abc")
    done = flcert("serve", run_directory, *options)
    assert done.code == 2
    assert message in " ".join(done.err.split())


def test_a_port_in_use_and_a_missing_run_are_errors(flcert, run_directory, serving):
    with serving(run_directory) as service:
        done = flcert("serve", run_directory, "--port", service.address.rpartition(":")[2])
        assert (done.code, "Address already in use" in done.err) == (2, True)
    assert flcert("serve", "nowhere").code == 2


def test_an_account_is_of_one_run_and_one_promise(tmp_path):
    file = tmp_path / "ledger.json"
    ledger = Ledger(file, "these models", 0.1, 10)
    assert [ledger.spend(7), ledger.spend(7), ledger.spend(1)] == [7, 3, 0]
    with pytest.raises(InputError, match="is in use by another service"):
        Ledger(file, "these models", 0.1, 10)
    ledger._claimed.close()
    assert Ledger(file, "these models", 0.1, 10).account.spent == 10
    for changed in (("others", 0.1, 10), ("these models", 0.2, 10), ("these models", 0.1, 1000)):
        with pytest.raises(InputError, match="what it says is spent stays spent"):
            Ledger(file, *changed)
    file.write_text('{"run": "these models", "alpha": 0.1, "predictions": 10, "spent": -5}')
    with pytest.raises(InputError, match="is damaged"):
        Ledger(file, "these models", 0.1, 10)
    assert json.loads(file.read_text())["spent"] == -5
    file.write_text('{"run": "these models", "alpha": 0.1, "predictions": 10, "spent": 11}')
    with pytest.raises(InputError, match="spent must be at most predictions=10, got 11"):
        Ledger(file, "these models", 0.1, 10)


def test_a_link_to_an_account_is_the_same_account(tmp_path):
    file, link = tmp_path / "ledger.json", tmp_path / "link.json"
    ledger = Ledger(file, "these models", 0.1, 10)
    link.symlink_to(file)
    with pytest.raises(InputError, match="is in use by another service"):
        Ledger(link, "these models", 0.1, 10)
    ledger._claimed.close()
    assert Ledger(link, "these models", 0.1, 10).spend(4) == 4
    assert link.is_symlink()
    assert json.loads(file.read_text())["spent"] == 4


def test_an_account_that_is_gone_is_not_begun_again(tmp_path):
    file = tmp_path / "ledger.json"
    ledger = Ledger(file, "these models", 0.1, 10)
    ledger.spend(4)
    ledger._claimed.close()
    whole = file.read_bytes()
    file.unlink()
    with pytest.raises(InputError, match=r"ledger.json is gone, and with it what is spent of alpha"):
        Ledger(file, "these models", 0.1, 10)
    assert not file.exists()
    file.write_bytes(whole)
    assert Ledger(file, "these models", 0.1, 10).spend(10) == 6


def test_an_account_that_somebody_else_changed_certifies_no_more(tmp_path):
    file = tmp_path / "ledger.json"
    ledger = Ledger(file, "these models", 0.1, 10)
    (tmp_path / ".ledger.json.lock").unlink()
    Ledger(file, "these models", 0.1, 10).spend(4)
    with pytest.raises(RunError, match="was changed by somebody else"):
        ledger.spend(1)
    assert json.loads(file.read_text())["spent"] == 4


def test_the_account_is_of_alpha_also_for_a_run_that_was_certified_to_the_letter(tmp_path, sampled_directory):
    copy = shutil.copytree(sampled_directory, tmp_path / "paper")
    config = json.loads((copy / "config.json").read_text())
    config["certificate"]["selection"] = "paper"
    (copy / "config.json").write_text(json.dumps(config))
    change_manifest(copy, lambda values: values["guarantee"].update(selection="paper"))
    directory = RunDirectory.open(copy)
    service = Service(directory, None, Ledger(tmp_path / "ledger.json", "these", ALPHA, PREDICTIONS))
    levels = [one["level"] for one in service.predict(INPUTS[:12])["predictions"]]
    assert levels == expected_levels(sampled_directory, list(range(12))).levels.tolist()


def test_the_labels_of_an_uncovered_answer_are_those_of_the_vote(sampled_directory, serving, tmp_path):
    with serving(
        sampled_directory, "--alpha", 0.01, "--predictions", 1, "--ledger", tmp_path / "ledger.json", "--no-token"
    ) as service:
        answer = ask(service, list(range(40)))
    counts = voting.count(RunDirectory.open(sampled_directory).array("votes")[:, :40], 10)
    clear = np.sort(counts, axis=1)[:, -1] > np.sort(counts, axis=1)[:, -2]
    labels = np.array([one["label"] for one in answer["predictions"]])
    assert np.array_equal(labels[clear], counts.argmax(axis=1)[clear])
    assert clear.sum() > 30
