"""A user's own certificate and grouping go through every command without a change anywhere."""

import json
import sys
import threading

import httpx
import numpy as np
import pytest
import uvicorn

from flcert import certify, voting
from flcert.datasets import load
from flcert.grouping import hashed
from flcert.runs.directory import RunDirectory
from flcert.runs.ensemble import open_ensemble
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
    assert list(directory.summary().also[CAUTIOUS].certified_accuracy) == printed["certified_accuracy"]
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
    assert flcert("certify", "run", "--modules", ".").code == 0
    refused = flcert("forget", "run", "client-0003", "--engine", "inline", "-q")
    assert (refused.code, "cannot forget" in refused.err) == (2, True)
    again = flcert("run", "run/config.json", "--engine", "inline", "-q", "--out", "again")
    assert "0 groups trained, 9 reused" in again.out


def test_a_kind_of_flcert_s_can_be_changed_a_little(flcert, tmp_path):
    assert flcert("run", *COMMON, "--also", "tests.toy_kinds:Stricter").code == 0
    summary = RunDirectory.open(tmp_path / "run").summary()
    assert summary.also["tests.toy_kinds:Stricter"].certified_accuracy == summary.certified_accuracy


def test_groups_of_one_s_own_that_are_drawn_are_still_drawn_when_a_run_is_opened(flcert, tmp_path):
    setting = ("--grouping", "tests.toy_kinds:Drawn", "--groups", 30, "--alpha", 0.5)
    assert flcert("run", *COMMON, *setting).code == 0
    directory = RunDirectory.open(tmp_path / "run")
    opened = open_ensemble(directory).grouping
    assert (opened.group_size, opened.drawn, opened.distinct) == (3, True, False)
    assert directory.guarantee().kind == "sampled"
    assert flcert("certify", "run", "--modules", ".").code == 0
    refused = flcert("certify", "run", "--also", "collective", "--modules", ".")
    assert (refused.code, "is for disjoint groups" in refused.err) == (2, True)


FAR_AWAY = """
from tests.toy_kinds import Cautious, Dealt


class Near(Dealt):
    certificate = "far_away:Cautious"
"""


def test_a_module_that_is_not_there_is_not_called_damage(flcert, tmp_path, monkeypatch):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "far_away.py").write_text(FAR_AWAY)
    path = "far_away:Near"
    monkeypatch.syspath_prepend(tmp_path / "far")
    assert flcert("run", *COMMON, "--grouping", path).code == 0
    monkeypatch.setattr(sys, "path", [place for place in sys.path if "far" not in place])
    monkeypatch.delitem(sys.modules, "far_away")
    lost = flcert("certify", "run", "--modules", "nowhere")
    assert lost.code == 2
    assert "cannot import module 'far_away'" in lost.err
    assert "damaged" not in lost.err
    assert flcert("certify", "run", "--modules", "far").code == 0


def test_groups_of_one_s_own_can_have_a_certificate_of_one_s_own(flcert, tmp_path):
    assert flcert("run", *COMMON, "--grouping", "tests.toy_kinds:CautiouslyDealt").code == 0
    directory = RunDirectory.open(tmp_path / "run")
    assert directory.summary().certificate == CAUTIOUS
    assert np.array_equal(directory.certificate().levels, halves(directory).levels)
    assert "Said with care" in (tmp_path / "run" / "report.html").read_text()
    for command in ("certify", "report"):
        assert "names code of its author's (tests.toy_kinds:" in flcert(command, "run").err
        assert flcert(command, "run", "--modules", ".").code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--grouping", "tests.toy_kinds:WronglyDealt"),
            "certificate 'disjoint' is for disjoint groups, got groups of kind 'tests.toy_kinds:WronglyDealt'",
        ),
        (("--grouping", "tests.toy_kinds:Cautious"), "must be a class derived from flcert.grouping.kind.GroupingKind"),
        (("--also", "tests.toy_kinds:Dealt"), "must be a class derived from flcert.certify.guarantee.Guarantee"),
        (("--also", "tests.toy_kinds:Missing"), "unknown name in module 'tests.toy_kinds': 'Missing'"),
        (("--also", "tests.toy_kinds:Undecided"), "certificate 'tests.toy_kinds:Undecided' must define 'fits'"),
        (("--also", "tests.toy_kinds:Careless"), "certificate 'tests.toy_kinds:Careless' raised KeyError: 'lost'"),
        (("--also", "tests.toy_kinds:Listed"), "must give a Certificate with a level for each input"),
        (("--also", "runoff", "--also", "runoff"), "must name each certificate once, got 'runoff' more than once"),
        (
            ("--also", CAUTIOUS, "--grouping", "sampled", "--group-size", 2),
            f"certificate '{CAUTIOUS}' is for disjoint groups, got groups of kind 'sampled'",
        ),
        (
            ("--set", f'certificate.also=[{{name="{CAUTIOUS}", options={{num_failed=0}}}}]'),
            f"num_failed of certificate '{CAUTIOUS}' follows from the groups and cannot be an option",
        ),
        (
            ("--set", f'certificate.also=[{{name="{CAUTIOUS}", options={{part=0}}}}]'),
            f"option 'part' of certificate '{CAUTIOUS}' must be greater than or equal to 1, got 0",
        ),
        (("--grouping", "tests.toy_kinds:Outside"), "must hold positions in [0, 39], got -1 to 39"),
        (("--grouping", "tests.toy_kinds:Nothing"), "must build a Grouping, got NoneType"),
        (("--grouping", "tests.toy_kinds:Clumsy"), "raised ZeroDivisionError: no reason"),
        (("--grouping", "spread"), "grouping.kind 'spread' is called 'finite-aggregation' now"),
        (("--set", "grouping.copies=2"), "grouping.copies is called grouping.groups_per_client now"),
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


def test_a_compressed_run_keeps_the_groups_that_were_trained(flcert, tmp_path, monkeypatch):
    """A grouping of one's own that would make other groups now cannot give old models another certificate."""
    assert flcert("run", *COMMON, "--grouping", "tests.toy_kinds:Dealt").code == 0
    before = RunDirectory.open(tmp_path / "run").group_ids()
    monkeypatch.setattr("tests.toy_kinds.Dealt.build", lambda self, ids: hashed(ids, self.num_groups))
    assert flcert("compress", "run", "--dtype", "float16", "-q").code == 0
    after = RunDirectory.open(tmp_path / "run-float16")
    assert after.group_ids() == before
    assert np.array_equal(after.certificate().levels, certify.disjoint(after.evidence().counts).levels)


def test_a_probabilistic_certificate_must_have_an_alpha_to_spend(flcert):
    refused = flcert("run", *COMMON, "--also", "tests.toy_kinds:Hopeful")
    assert (refused.code, "is probabilistic, so it must have the field 'alpha'" in refused.err) == (2, True)


def test_code_that_a_run_directory_names_is_not_run_by_reading_it(flcert, tmp_path):
    """An auditor is handed a directory; checking it must not run what its author put there."""
    assert flcert("run", *COMMON).code == 0
    (tmp_path / "evil.py").write_text("raise SystemExit('this must not run')")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    manifest["guarantee"]["kind"] = "evil:X"
    (tmp_path / "run" / "manifest.json").write_text(json.dumps(manifest))
    for command in ("certify", "report"):
        refused = flcert(command, "run")
        assert (refused.code, "names code of its author's (evil:X)" in refused.err) == (2, True)
    assert "evil" not in sys.modules
