"""``flcert certify`` on vote tables from anywhere."""

import json
import re

import numpy as np
import pytest

from flcert import certify, voting
from tests.theory.exact import sampled

VOTES = np.random.default_rng(0).choice(4, p=[0.7, 0.1, 0.1, 0.1], size=(31, 20))
TRUTH = np.zeros(20, dtype=int)
EVIDENCE = certify.Evidence.of_votes(VOTES)


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("votes.npy", VOTES)
    np.save("truth.npy", TRUTH)
    np.save("counts.npy", voting.count(VOTES))
    np.savetxt("votes.csv", VOTES.T, fmt="%d", delimiter=",")
    np.savetxt("truth.csv", TRUTH, fmt="%d")
    np.savetxt("counts.csv", voting.count(VOTES), fmt="%d", delimiter=",", header="a,b,c,d", comments="")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("votes.npy",),
        ("votes.csv",),
        ("votes.csv", "--rows", "inputs"),
        ("counts.npy", "--counts"),
        ("counts.csv", "--counts"),
    ],
)
def test_npy_and_csv_and_counts_give_the_same_certificate(flcert, tables, arguments):
    result = json.loads(flcert("certify", *arguments, "--json").out)
    expected = certify.disjoint(voting.count(VOTES))
    assert result["labels"] == expected.labels.tolist()
    assert result["levels"] == expected.levels.tolist()
    assert result["certified_share"] == certify.certified_share(expected).tolist()


@pytest.mark.parametrize("truth", ["truth.npy", "truth.csv"])
def test_with_true_labels_it_is_certified_accuracy(flcert, tables, truth):
    result = flcert("certify", "votes.npy", "--truth", truth, "--json")
    expected = certify.certified_accuracy(certify.disjoint(voting.count(VOTES)), TRUTH)
    assert json.loads(result.out)["certified_accuracy"] == expected.tolist()
    text = flcert("certify", "votes.npy", "--truth", truth).out
    assert "keep their right label" in text


def test_the_sentence_has_the_number_of_inputs_at_its_own_level(flcert, tmp_path, monkeypatch):
    """Levels 5, 2, 1 and 1; the last two inputs are wrong. Three quarters of CA@0 are left up to m = 2."""
    monkeypatch.chdir(tmp_path)
    rows = [[10, 0]] * 4 + [[7, 3]] * 3 + [[6, 4]] + [[3, 7]] * 2
    np.savetxt("counts.csv", rows, fmt="%d", delimiter=",")
    np.savetxt("truth.csv", [0] * 10, fmt="%d")
    right = flcert("certify", "counts.csv", "--counts", "--truth", "truth.csv").out
    assert "Whatever any 2 clients do, at least 7 of these 10 test inputs (70.0%) keep their right label." in right
    kept = flcert("certify", "counts.csv", "--counts").out
    assert "Whatever any one client does, at least 10 of these 10 test inputs (100.0%) keep their label." in kept


def test_tails_and_distinct_draws_of_a_table(flcert, tables):
    options = (
        "--kind",
        "sampled",
        "--clients",
        100,
        "--group-size",
        2,
        "--alpha",
        0.1,
        "--tails",
        "both",
        "--distinct",
    )
    result = json.loads(flcert("certify", "votes.npy", *options, "--labels", 30, "--json").out)
    setting = {"num_clients": 100, "group_size": 2, "alpha": 0.1, "tails": "both", "distinct": True}
    expected = sampled(voting.count(VOTES, 30), **setting)
    assert result["levels"] == expected.levels.tolist()
    assert result["levels"] != sampled(voting.count(VOTES), **setting).levels.tolist()  # it pays for 30 labels


def test_sampled_groups(flcert, tables):
    options = ("--kind", "sampled", "--clients", 100, "--group-size", 2, "--alpha", 0.01, "--selection", "paper")
    result = json.loads(flcert("certify", "votes.npy", *options, "--json").out)
    expected = sampled(voting.count(VOTES), num_clients=100, group_size=2, alpha=0.01, selection="paper")
    assert result["levels"] == expected.levels.tolist()
    assert result["abstained"] == expected.abstained.tolist()
    assert result["num_abstained"] == expected.abstained.sum()


def test_groups_without_a_vote_stay_in_the_number_of_sampled_groups(flcert, tables):
    votes = VOTES.copy()
    votes[:3] = -1
    np.save("missing.npy", votes)
    options = ("--kind", "sampled", "--clients", 100, "--group-size", 2)
    result = json.loads(flcert("certify", "missing.npy", *options, "--json").out)
    expected = sampled(voting.count(votes), num_clients=100, group_size=2, num_groups=31)
    assert result["levels"] == expected.levels.tolist()


def test_an_empty_cell_is_no_vote(flcert, tables):
    (tables / "gaps.csv").write_text("g0,g1,g2\n0,,0\n1,1,0\n")
    result = json.loads(flcert("certify", "gaps.csv", "--json").out)
    assert result["levels"] == certify.disjoint([[2, 0], [1, 2]]).levels.tolist()


def test_failed_groups_are_charged(flcert, tables):
    result = json.loads(flcert("certify", "votes.npy", "--failed", 2, "--json").out)
    assert result["levels"] == certify.disjoint(voting.count(VOTES), num_failed=2).levels.tolist()


def test_the_certificate_of_each_input_can_be_written(flcert, tables):
    assert flcert("certify", "votes.npy", "--out", "certificate.csv").code == 0
    rows = (tables / "certificate.csv").read_text().splitlines()
    assert rows[0] == "input,label,level,abstained"
    assert len(rows) == 21


def test_a_target_has_a_curve_a_sentence_and_a_level_for_each_input(flcert, tables):
    asked = ("certify", "votes.npy", "--truth", "truth.npy", "--target", 2)
    plain, levels = certify.disjoint(voting.count(VOTES)), certify.Disjoint().target_levels(EVIDENCE, 2)
    told = json.loads(flcert(*asked, "--json").out)["target"]
    bound = certify.targeted_success(levels, TRUTH, 2)
    assert told == {
        "label": 2,
        "inputs": 20,
        "success_at_most": bound.tolist(),
        "plain_levels_imply": certify.targeted_success(certify.implied_levels(plain, 2), TRUTH, 2).tolist(),
        "levels": levels.tolist(),
    }
    assert told["success_at_most"] != told["plain_levels_imply"]
    text = flcert(*asked, "--out", "levels.csv").out
    assert "turned into 2 at most" in text
    found = re.search(
        r"Whatever any (\d+) clients do, at most (\d+) of the 20 inputs \(.*\) .* get the label 2\.", text
    )
    assert bound[int(found[1])] * 20 == int(found[2])
    rows = (tables / "levels.csv").read_text().splitlines()
    assert rows[0] == "input,label,level,abstained,target_level"
    assert [int(row.split(",")[-1]) for row in rows[1:]] == levels.tolist()


def test_a_target_of_groups_drawn_at_random_names_alpha_and_all_possible_groups(flcert, tables):
    options = ("--kind", "sampled", "--clients", 100, "--group-size", 2, "--alpha", 0.1, "--target", 1)
    text = flcert("certify", "votes.npy", "--truth", "truth.npy", *options).out.splitlines()[-1]
    assert text.startswith("Except with probability 0.1 over the draw of the groups: whatever any")
    assert "in the ensemble of all possible groups at most" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n0\n", "line 2: every line must have 2 cells, got 1"),
        ("", "is empty"),
        ("a,b\n", "has a line of names and no rows"),
        ("0,1\n0,x\n", "line 2: 'x' is not a whole number"),
        (f"0,1\n0,{10**19}\n", f"line 2: '{10**19}' is not a whole number of at most 18 digits"),
        ("0,1\n0,1.5\n", "line 2: '1.5' is not a whole number"),
        ("x,1\n0,1\n", "line 1: 'x' is not a whole number"),
        ("0,-2\n", "votes must be in [-1, 2**31 - 1], got -2 to 0"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(flcert, tables, text, message):
    (tables / "bad.csv").write_text(text)
    result = flcert("certify", "bad.csv")
    assert result.code == 2
    assert message in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing.npy",), "missing file nothing.npy"),
        (("nothing.csv",), "cannot read nothing.csv: No such file or directory"),
        (("votes.npy", "--kind", "sampled"), "'sampled' needs the number of clients and the group size"),
        (
            ("votes.npy", "--kind", "disjont"),
            "unknown certificate 'disjont'; did you mean 'disjoint'?",
        ),
        (
            ("votes.npy", "--kind", "sampled", "--clients", 5, "--group-size", 6),
            "group_size must be in [1, num_clients=5]",
        ),
        (("votes.npy", "--kind", "enumerated", "--clients", 9, "--group-size", 2), "must sum to C(9, 2)"),
        (
            ("votes.npy", "--kind", "sampled", "--clients", 9, "--group-size", 2, "--alpha", 2),
            "alpha must be in (0, 1), got 2",
        ),
        (("votes.npy", "--truth", "counts.npy"), "must hold one integer label for each input"),
        (("votes.npy", "--truth", "truth.npy", "--rows", "inputs"), "one label for each of 31 inputs, got shape (20,)"),
        (("floats.npy",), "votes must be integers, got dtype float64"),
        (("objects.npy",), "objects.npy cannot be read as npy: Object arrays cannot be loaded"),
        (("counts.npy", "--counts", "--labels", 4), "--labels goes with a table of votes"),
        (("votes.npy", "--distinct"), "distinct has no meaning for disjoint groups, got True"),
        (
            ("votes.npy", "--kind", "sampled", "--clients", 100, "--group-size", 2, "--tails", "both"),
            "--tails both bounds every label there is, voted for or not; give their number with --labels",
        ),
        (("counts.npy", "--counts", "--rows", "inputs"), "--rows goes with a table of votes"),
        ((".",), "is not a run directory"),
        (("unsigned.npy",), "votes must be in [-1, 2**31 - 1], got 0 to 18446744073709551615"),
        (("votes.npy", "--truth", "negative.npy"), "labels must be at least 0, got -1"),
        (("votes.npy", "--alpha", 0.5), "alpha has no meaning for disjoint groups"),
        (("votes.npy", "--clients", -5), "num_clients must be greater than or equal to 1, got -5"),
        (("votes.npy", "--out", "."), ". is a directory, not a file to write"),
        (("votes.npy", "--target", 1), "--target 1 needs the true labels: give --truth"),
        (("votes.npy", "--truth", "truth.npy", "--target", 4), "target must be in [0, 3], got 4"),
        (("votes.npy", "--truth", "truth.npy", "--target", -1), "target must be in [0, 3], got -1"),
        (("votes.npy", "--truth", "truth.npy", "--target", 0), "the true label of every input is 0, so nothing can be"),
        (("votes.npy", "--truth", "truth.npy", "--target", "cat"), "Invalid value for '--target'"),
        (
            ("votes.npy", "--kind", "sampled", "--clients", 9, "--group-size", 2, "--failed", 1),
            "--failed goes with --counts",
        ),
    ],
)
def test_a_mistake_gives_a_message_and_code_2(flcert, tables, arguments, message):
    np.save("floats.npy", np.ones((2, 2)))
    np.save("negative.npy", np.full(20, -1))
    np.save("unsigned.npy", np.array([[0, 2**64 - 1]], dtype=np.uint64))
    np.save("objects.npy", np.array([[object()]]), allow_pickle=True)
    result = flcert("certify", *arguments)
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_target_of_a_run_and_of_certificates_that_cannot_tell(flcert):
    run = ("--clients", 12, "--groups", 5, "--rounds", 1, "--also", "runoff", "--engine", "inline", "--out", "run")
    flcert("run", *run)
    told = json.loads(flcert("certify", "run", "--target", 3, "--json").out)["target"]
    assert len(told["levels"]) == 450
    assert told["success_at_most"][-1] == 1
    same = json.loads(flcert("certify", "run", "--also", "overlapping", "--target", 3, "--json").out)["target"]
    assert same["levels"] == told["levels"]  # for disjoint groups
    for other, message in (
        ("runoff", "certificate 'runoff' cannot tell how many clients can bring about a given label"),
        ("collective", "certificate 'collective' says nothing about single labels; leave out --target 3"),
    ):
        result = flcert("certify", "run", "--also", other, "--target", 3)
        assert result.code == 2
        assert message in result.err


def test_a_run_keeps_its_own_clients_and_can_be_certified_with_another_alpha(flcert):
    common = ("--grouping", "sampled", "--group-size", 3, "--groups", 40, "--clients", 12, "--rounds", 1)
    flcert("run", *common, "--engine", "inline", "--out", "run")
    strict = json.loads(flcert("certify", "run", "--json", "--alpha", 1e-9).out)
    loose = json.loads(flcert("certify", "run", "--json", "--alpha", 0.5).out)
    assert strict["num_abstained"] > loose["num_abstained"]
    result = flcert("certify", "run", "--clients", 99)
    assert result.code == 2
    assert "num_clients comes from the run directory" in result.err


def test_failed_groups_of_sampled_counts_belong_to_the_number_of_groups(flcert, tables):
    np.save("short.npy", np.array([[490, 0]]))
    options = ("--counts", "--kind", "sampled", "--clients", 1000, "--group-size", 2, "--json")
    result = json.loads(flcert("certify", "short.npy", *options, "--failed", 10).out)
    assert result["levels"] == sampled([[490, 10]], num_clients=1000, group_size=2).levels.tolist()


def test_a_vote_for_a_very_large_label_is_counted(flcert, tables):
    np.save("large.npy", np.array([[2**31 - 1, 5]] * 9))
    assert json.loads(flcert("certify", "large.npy", "--json").out)["levels"] == [4, 4]


@pytest.mark.parametrize(("selection", "printed"), [("safe", "1e-07"), ("paper", "2 x 1e-07")])
def test_the_sentence_states_the_failure_probability_and_never_rounds_it_in_our_favour(
    flcert, tables, selection, printed
):
    np.save("clear.npy", np.zeros((200, 5), dtype=int))
    options = ("--kind", "sampled", "--clients", 1000, "--group-size", 2, "--alpha", 1e-7, "--selection", selection)
    assert f"Except with probability {printed} over the draw" in flcert("certify", "clear.npy", *options).out


def test_an_alpha_below_what_a_float_can_hold_certifies_nothing(flcert, tables):
    options = ("--kind", "sampled", "--clients", 1000, "--group-size", 2, "--alpha", "1e-320", "--json")
    assert json.loads(flcert("certify", "votes.npy", *options).out)["num_abstained"] == 20
