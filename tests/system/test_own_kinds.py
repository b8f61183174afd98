"""A user's own certificate and grouping go through every command without a change anywhere."""

import json
import threading

import httpx
import numpy as np
import pytest
import uvicorn

from flcert import certify, voting
from flcert.datasets import load
from flcert.runs.directory import RunDirectory
from flcert.runs.guarantees import guarantee_of_run
from flcert.serve.app import build_app
from flcert.serve.server import listen
from flcert.serve.service import Limits, Service

CAUTIOUS, TITLE = "tests.toy_kinds:Cautious", "cautious levels"
COMMON = ("--clients", 40, "--groups", 9, "--rounds", 6, "--engine", "inline", "-q", "--out", "run")


@pytest.fixture
def run(flcert, tmp_path):
    result = flcert("run", *COMMON, "--also", CAUTIOUS)
    assert result.code == 0, result.err
    return RunDirectory.open(tmp_path / "run")


def halves(run):
    whole = certify.disjoint(voting.count(run.array("votes"), 10))
    return certify.Certificate(whole.labels, whole.levels // 2, whole.abstained)


def test_its_figures_are_in_the_table_the_json_and_the_report(flcert, run, tmp_path):
    expected = certify.certified_accuracy(halves(run), run.truth()).tolist()
    assert expected[1] > 0
    shown = flcert("run", *COMMON, "--also", CAUTIOUS).out
    assert TITLE in shown
    assert f"{expected[1]:.1%}" in shown
    printed = json.loads(flcert("run", *COMMON, "--also", CAUTIOUS, "--json").out)
    assert printed["also"][CAUTIOUS]["certified_accuracy"] == expected
    assert printed["also"][CAUTIOUS]["title"] == TITLE
    assert list(run.summary().also[CAUTIOUS].certified_accuracy) == expected
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.count(TITLE) >= 2
    assert "Cautious levels are lower than they need be." in page


def test_certify_computes_it_from_the_votes(flcert, run):
    printed = json.loads(flcert("certify", "run", "--also", CAUTIOUS, "--json").out)
    assert printed["levels"] == halves(run).levels.tolist()
    assert printed["guarantee"]["kind"] == CAUTIOUS
    assert "Said with care: whatever any" in " ".join(flcert("certify", "run", "--also", CAUTIOUS).out.split())


def test_certify_takes_it_for_a_vote_table(flcert, run):
    printed = json.loads(flcert("certify", "run/votes.npy", "--kind", CAUTIOUS, "--json").out)
    assert printed["levels"] == halves(run).levels.tolist()


def test_predict_answers_with_it(flcert, run):
    inputs = load("digits", num_clients=40).test_inputs
    np.save("inputs.npy", inputs)
    own = json.loads(flcert("predict", "run", "inputs.npy", "--json").out)
    printed = json.loads(flcert("predict", "run", "inputs.npy", "--certificate", CAUTIOUS, "--json").out)
    assert (own["certificate"], printed["certificate"]) == ("disjoint", CAUTIOUS)
    assert printed["levels"] == [level // 2 for level in own["levels"]]
    assert max(printed["levels"]) > 0


def test_the_service_answers_with_it(run):
    service = Service(run, guarantee_of_run(run, CAUTIOUS))
    inputs = load("digits", num_clients=40).test_inputs[:20]
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(build_app(service, Limits()), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        answers = httpx.post(f"{address}/v1/predict", json={"inputs": inputs.tolist()}, timeout=60).json()
        info = httpx.get(f"{address}/v1/info", timeout=60).json()
    finally:
        server.should_exit = True
        thread.join()
    assert [one["level"] for one in answers["predictions"]] == halves(run).levels[:20].tolist()
    assert answers["certificate"] == info["certificate"] == CAUTIOUS
    assert any("said with care" in one["sentence"] for one in answers["predictions"])
    curve = certify.certified_accuracy(halves(run), run.truth()).tolist()
    assert info["test"]["certified_accuracy"] == curve


def test_its_options_reach_it_and_are_recorded(flcert, tmp_path):
    also = f'certificate.also=[{{name="{CAUTIOUS}", options={{part=4}}}}]'
    assert flcert("run", *COMMON, "--set", also).code == 0
    directory = RunDirectory.open(tmp_path / "run")
    whole = certify.disjoint(voting.count(directory.array("votes"), 10)).levels
    printed = json.loads(flcert("certify", "run", "--also", CAUTIOUS, "--json").out)
    assert printed["levels"] == (whole // 4).tolist()
    wrong = flcert("run", *COMMON, "--set", also.replace("part=4", "parts=4"))
    assert (wrong.code, "unknown option of certificate" in wrong.err) == (2, True)
    assert "parts" in wrong.err


def test_groups_of_one_s_own_are_trained_certified_and_restored(flcert, tmp_path):
    setting = ("--grouping", "tests.toy_kinds:Dealt")
    assert flcert("run", *COMMON, *setting).code == 0
    directory = RunDirectory.open(tmp_path / "run")
    assert directory.config().grouping.kind == "tests.toy_kinds:Dealt"
    assert {facts.clients for facts in directory.manifest().groups} == {4, 5}  # 40 clients dealt out to 9 groups
    assert directory.summary().certificate == "disjoint"
    assert flcert("certify", "run").code == 0
    refused = flcert("forget", "run", "client-0003", "--engine", "inline", "-q")
    assert (refused.code, "cannot forget" in refused.err) == (2, True)
    again = flcert("run", "run/config.json", "--engine", "inline", "-q", "--out", "again")
    assert "0 groups trained, 9 reused" in again.out


def test_groups_of_one_s_own_can_have_a_certificate_of_one_s_own(flcert, tmp_path):
    assert flcert("run", *COMMON, "--grouping", "tests.toy_kinds:CautiouslyDealt").code == 0
    directory = RunDirectory.open(tmp_path / "run")
    assert directory.summary().certificate == CAUTIOUS
    assert np.array_equal(directory.certificate().levels, halves(directory).levels)
    assert "Said with care" in (tmp_path / "run" / "report.html").read_text()
    assert flcert("certify", "run").code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--grouping", "tests.toy_kinds:WronglyDealt"),
            "certificate 'disjoint' is for disjoint groups, got groups of kind 'tests.toy_kinds:WronglyDealt'",
        ),
        (("--grouping", "tests.toy_kinds:Cautious"), "must be a class derived from flcert.grouping.kind.GroupingKind"),
        (("--also", "tests.toy_kinds:Dealt"), "must be a class derived from flcert.certify.guarantee.Guarantee"),
        (("--also", "tests.toy_kinds:Missing"), "unknown function of module 'tests.toy_kinds' 'Missing'"),
        (("--also", "nowhere.at:All"), "cannot import module 'nowhere.at'"),
        (("--also", "disjoint"), "certificate 'disjoint' is the one that these groups get anyway"),
        (
            ("--grouping", "tests.toy_kinds:Dealt", "--groups", 0),
            "grouping.num_groups must be greater than 0, got 0",
        ),
        (
            ("--grouping", "tests.toy_kinds:Dealt", "--set", "grouping.numgroups=2"),
            "unknown setting 'grouping.numgroups'; did you mean 'grouping.num_groups'?",
        ),
    ],
)
def test_a_mistake_gives_a_message_and_code_2(flcert, options, message):
    result = flcert("run", *COMMON, *options)
    assert result.code == 2
    assert message in result.err
