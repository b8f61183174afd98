"""`flcert plan`: cost and largest certifiable level, from the paper's formulas."""

import json
import re
from functools import partial
from itertools import product
from math import comb

import numpy as np
import pytest

from flcert import certify, grouping, presets
from flcert.certify.sampled import least_groups
from flcert.pipeline.agreement import Agreement
from flcert.pipeline.plan import overview
from flcert.pipeline.plan_setting import Setting
from flcert.pipeline.plan_words import agreeing, cell, largest, remarks
from flcert.training.rounds import participants


def planned(flcert, *options):
    result = flcert("plan", *options, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_the_paper_s_mnist(flcert):
    facts = planned(flcert, "--preset", "mnist-0.5", "--selection", "paper")
    assert {name: one["largest_level"] for name, one in facts["plans"].items()} == {
        "FLCert-D": 250,
        "FLCert-D, balanced": 250,
        "FLCert-P": 270,
        "single global model": 0,
    }
    # k N = n and T_e = beta T / beta_e: the same cost (with T = 1,000, beta = 0.1 that is T_e = 100)
    same = planned(flcert, "--preset", "mnist-0.5", "--rounds", 100, "--single-rounds", 1000)["plans"]
    assert len({one["rounds_a_client"] for one in same.values()}) == 1
    assert same["FLCert-D"]["bytes_a_client"] == 100 * 2 * 4 * 139_960
    assert abs(facts["plans"]["FLCert-D"]["expected_empty_groups"] - 67.5) < 0.1


def test_all_figures_with_partial_participation(flcert):
    """n = 1,000, N = 200, k = 10: each client is in 2 groups of P on average, and half of a group is in a round.

    Half of an odd number of clients is rounded up, so in D's groups of 5 on average it is 55 % of them.
    """
    setting = ("--clients", 1000, "--groups", 200, "--group-size", 10, "--rounds", 100, "--participation", 0.5)
    single = ("--single-rounds", 500, "--beta", 0.2)
    plans = planned(flcert, *setting, *single, "--groups-per-client", 3, "--parameters", 1000)["plans"]
    told = {
        name: (one["models_a_client"], round(one["rounds_a_client"], 2), one["largest_level"])
        for name, one in plans.items()
    }
    level = certify.sampled([[200, 0]], num_clients=1000, group_size=10, num_inputs=10_000).levels[0]
    assert told == {
        "FLCert-D": (1.0, 55.0, 100),
        "FLCert-D, balanced": (1.0, 60.0, 100),
        "FLCert-P": (2.0, 100.0, level),
        "finite aggregation, 3 groups a client": (3.0, 155.0, 33),
        "single global model": (1.0, 100.0, 0),
    }
    assert all(one["bytes_a_client"] == round(8000 * one["rounds_a_client"]) for one in plans.values())


@pytest.mark.parametrize("participation", [0.1, 0.5, 0.7, 1.0])
def test_a_client_s_share_of_the_rounds_is_that_of_training(participation):
    """n = 4 clients, N = 3 groups: every way to put them into groups is as likely."""
    shares = []
    for world in product(range(3), repeat=4):
        together = [client for client in range(4) if world[client] == world[0]]
        rounds = [participants(len(together), participation, seed=0, round_number=number) for number in range(1, 400)]
        shares.append(sum(0 in chosen for chosen in rounds) / len(rounds))
    expected = grouping.expected_share(4, 1 / 3, participation)
    assert sum(shares) / len(shares) == pytest.approx(expected, abs=0.02)


def test_har_with_few_and_with_many_groups(flcert):
    few = planned(flcert, "--preset", "har", "--inputs", 2603)
    assert not few["plans"]["FLCert-P"]["can_certify"]
    assert few["plans"]["FLCert-P"]["least_groups"] > 15
    many = planned(
        flcert, "--preset", "har", "--grouping", "sampled", "--groups", 500, "--group-size", 2, "--inputs", 2603
    )
    assert many["plans"]["FLCert-P"]["largest_level"] == 8
    assert many["plans"]["FLCert-P"]["rounds_a_client"] == pytest.approx(2 * 500 / 30 * 200)
    assert "FLCert-D" not in many["plans"]  # more groups than clients


@pytest.mark.parametrize("selection", ["safe", "paper"])
@pytest.mark.parametrize(("num_inputs", "alpha"), [(1, 0.5), (7, 0.001), (10_000, 0.001), (2**20, 2.0**-10)])
def test_the_least_number_of_groups_is_where_certificates_begin(num_inputs, alpha, selection):
    least = least_groups(num_inputs, alpha, selection)

    def abstains(groups):
        options = {"num_clients": 1000, "group_size": 2, "alpha": alpha}
        return certify.sampled([[groups, 0]], **options, num_inputs=num_inputs, selection=selection).abstained[0]

    assert not abstains(least)
    assert least == 1 or abstains(least - 1)


def test_expected_empty_groups_by_enumeration():
    worlds = [(a, b, c, d) for a in range(3) for b in range(3) for c in range(3) for d in range(3)]
    mean = sum(3 - len(set(world)) for world in worlds) / 81
    assert grouping.Hashed(num_groups=3).expected_empty(4) == pytest.approx(mean)


def row(text, title):
    """The cells of a row of a table."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"{title}  "))
    return re.split(r"\s{2,}", line.strip())[1:]


def test_the_table_says_whether_p_can_certify(flcert):
    enough, few = (flcert("plan", "--clients", 1000, "--groups", groups).out for groups in (25, 24))
    assert row(enough, "largest certifiable m") == ["12", "12", "0", "0"]
    assert row(few, "largest certifiable m") == ["12", "12", "none", "0"]
    assert row(few, "fewest groups that certify anything") == ["1", "1", "25", "1"]
    assert "FLCert-P can certify with N = 25, but only if no client is malicious." in enough
    assert "FLCert-P can certify nothing with N = 24: for D = 10,000 test inputs and alpha = 0.001" in few
    assert "it needs at least 25 groups of 42." in few
    some = flcert("plan", "--clients", 1000, "--groups", 500).out
    assert "FLCert-P can" not in some
    assert row(some, "groups left empty, on average") == ["0.0", "67.5", "0.0", "0.0"]
    assert row(some, "largest certifiable m, with those empty") == ["250", "216", "269", "0"]
    assert "For a client's traffic give --parameters, a configuration or a --preset." in few
    assert "223.9 MB" in flcert("plan", "--preset", "mnist-0.1").out
    assert (
        "n = 100 clients (data.options.num_clients), N = 50"
        in flcert("plan", "--preset", "mnist-0.1", "--scale", 0.1).out
    )
    assert flcert("plan", "--clients", 9, "--groups", 3, "--scale", 0.5).code == 2
    drawn = ("--grouping", "sampled", "--group-size", 1)
    assert "FLCert-D is not possible" in flcert("plan", "--clients", 10, *drawn, "--groups", 24).out


def test_a_client_s_traffic_has_the_statistics_of_batch_normalisation(flcert):
    told = planned(flcert, "--preset", "cifar10", "--rounds", 1)
    statistics = 2 * (16 + 6 * 16 + 6 * 32 + 6 * 64)  # a mean and a variance for every channel of ResNet20's 19 norms
    assert told["sizes"]["num_parameters"] == 269_722 + statistics
    assert told["plans"]["FLCert-D"]["bytes_a_client"] == 2 * 4 * (269_722 + statistics)


NOT_FETCHED = ("mnist-0.1-public", "mnist-0.5-public", "chitchat-public", "cifar10-public", "cifar10-public-1000")


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_can_be_planned(flcert, name):
    assert (planned(flcert, "--preset", name)["plans"]["FLCert-D"]["bytes_a_client"] > 0) == (name not in NOT_FETCHED)


def test_a_preset_without_its_public_model_is_planned_without_traffic(flcert):
    told = flcert("plan", "--preset", "mnist-0.1-public")
    assert told.code == 0
    assert "The model cannot be built here" in told.out
    assert "run: flcert pretrain digits-28+pen+fonts." in told.out
    assert "sent in a round" not in told.out


def test_empty_groups_are_only_mentioned_where_they_change_something(flcert):
    """Of 40 groups 0.3 are empty on average: 40 to the nearest whole number vote, so there is nothing to add."""
    assert "empty" not in flcert("plan", "--clients", 200, "--groups", 40).out
    told = flcert("plan", "--clients", 60, "--groups", 40).out
    assert row(told, "groups left empty, on average")[:2] == ["0.0", "8.8"]
    assert row(told, "largest certifiable m, with those empty")[:2] == ["20", "15"]


SETTINGS = [
    (clients, groups, size, proof, trusted)
    for clients, size in [(1, 1), (8, 2), (28, 27), (1000, 3)]
    for groups in (1, 2, 28, 40)
    for proof in (
        {},
        {"alpha": 1e-300},
        {"alpha": 0.9, "selection": "paper"},
        {"tails": "both"},
        {"tails": "best"},
    )
    for trusted in (0, 1, 41)
]


def told_by(clients, groups, size, proof, trusted, *, distinct=False, of_a_client=2):
    """An overview of all kinds of groups, by what is drawn at random."""
    settings = certify.CertificateSettings(**proof)
    sizes = grouping.Sizes(clients, groups, size, of_a_client)
    own = grouping.Sampled(num_groups=groups, group_size=size, distinct=distinct)
    setting = Setting(sizes, rounds=1, num_inputs=450, num_labels=10, certificate=settings, trusted=trusted)
    return overview(own, setting, target=min(3, clients))


def reach_of(setting, groups, *, distinct, opposed=False, votes=None):
    """What an input gets from groups drawn at random, asked without the planner."""
    guarantee = certify.Sampled(
        num_clients=setting.sizes.num_clients,
        group_size=setting.sizes.group_size,
        num_groups=groups,
        distinct=distinct,
        trusted=setting.trusted,
        **setting.certificate.model_dump(exclude={"also"}),
    )
    agreeing = groups if votes is None else votes
    counts = np.array([[agreeing, groups - agreeing, *[0] * 8]])
    found = guarantee.certify(certify.Evidence(counts, trusted=np.array([int(opposed)])), setting.num_inputs)
    return int(found.levels[0]) if found.labels[0] == 0 and not found.abstained[0] else None


@pytest.mark.parametrize("distinct", [False, True])
def test_no_sentence_contradicts_the_table(distinct):
    """Every sentence and every cell, for many settings, against the certificate itself."""
    for case in SETTINGS:
        found = told_by(*case, distinct=distinct)
        said = remarks(found)
        for label, plan in found.plans.items():
            check_sentences(label, plan, [text for text in said if text.startswith(f"{label} can")], case)
            outvoted = [text for text in said if f"groups of {label}:" in text]
            assert bool(outvoted) == (plan.opposed is not None and cell(plan.opposed) == "outvoted"), case
        assert sum("is not possible" in text for text in said) == len(found.obstacles)
        assert all(label not in found.obstacles for label in found.plans)
        if "FLCert-P" in found.plans:
            check_against_certificate(found, distinct, case)
        else:
            assert distinct, case
            assert comb(case[0], case[2]) < case[1], case


def check_sentences(label, plan, said, case):
    """What a plan's sentences say is what its cells show."""
    nothing = [text for text in said if "can certify nothing" in text]
    only = [text for text in said if "only if no client is malicious" in text]
    assert len(said) == len(nothing) + len(only) <= 1, (label, case)
    assert bool(nothing) == (largest(plan) == "none"), (label, case)
    assert bool(only) == (largest(plan) == "0"), (label, case)
    for text in said:
        assert f"N = {plan.num_groups:,}" in text
        for number in re.findall(r"at least ([\d,]+) groups", text):
            assert int(number.replace(",", "")) == plan.least_groups > plan.num_groups, (label, case)
    assert plan.likely_votes <= plan.num_groups
    assert plan.likely_level <= plan.largest_level, (label, case)
    assert (agreeing(plan) == "impossible") == (plan.needed.agreeing is None)
    if plan.likely_votes == plan.num_groups:  # otherwise the largest level is that of more votes
        reachable = plan.can_certify and plan.largest_level >= plan.needed.level
        assert (agreeing(plan) == "impossible") == (not reachable), (label, case)
    if plan.opposed:
        assert plan.opposed.level <= plan.largest_level, (label, case)


def check_against_certificate(found, distinct, case):
    """The plan for groups drawn at random is what its certificate gives."""
    plan, setting, ask = found.plans["FLCert-P"], found.setting, partial(reach_of, found.setting, distinct=distinct)
    level = ask(plan.num_groups)
    assert largest(plan) == ("none" if level is None else f"{level:,}"), case
    if setting.trusted:
        assert (plan.opposed.level if plan.opposed.certified else None) == ask(plan.num_groups, opposed=True), case
    if needed := plan.needed.agreeing:
        assert ask(plan.num_groups, votes=needed) >= plan.needed.level, case
        below = ask(plan.num_groups, votes=needed - 1)
        assert below is None or below < plan.needed.level, case
    if not setting.trusted:
        assert ask(plan.least_groups) is not None, case
        assert plan.least_groups == 1 or ask(plan.least_groups - 1) is None, case


@pytest.mark.parametrize(("groups", "of_a_client"), [(8, 1), (9, 2), (20, 3), (21, 4)])
def test_finite_aggregation_withstands_as_many_clients_as_its_certificate_says(groups, of_a_client):
    settings = grouping.FiniteAggregation(num_groups=groups, groups_per_client=of_a_client)
    best = Agreement(settings.outlook(100, certify.CertificateSettings()), 100).best
    assert best.level == groups // 2 // of_a_client


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--clients", 4), "--groups is needed, but was not given"),
        (("--clients", 0), "num_clients must be in [1, 1099511627776], got 0"),
        (("--clients", 0, "--set", "recipe.rounds=2"), "num_clients must be in [1, 1099511627776], got 0"),
        (("--clients", 10, "--groups", 0), "num_groups must be in [1, 1000000], got 0"),
        (("--clients", 10, "--groups", 4, "--group-size", 11), "group_size must be in [1, num_clients=10], got 11"),
        (("--clients", 10, "--groups", 4, "--participation", 0), "participation must be greater than 0, got 0.0"),
        (("--clients", 10, "--groups", 4, "--beta", 2), "beta must be in (0, 1], got 2.0"),
        (("--clients", 10, "--groups", 4, "--alpha", 2), "alpha must be less than 1, got 2.0"),
        (("--clients", 10, "--groups", 4, "--inputs", 0), "num_inputs must be in [1"),
        (("--clients", 10, "--groups", 4, "--rounds", 0), "rounds must be greater than 0, got 0"),
        (("--clients", 10, "--groups", 4, "--selection", "save"), "selection must be 'safe' or 'paper', got 'save'"),
        (("--preset", "hat"), "unknown preset 'hat'; did you mean 'har'"),
        (("--preset", "har", "--groups", "5,x"), "--groups must be a whole number, or several: 20,50,100, got '5,x'"),
        (
            ("--groups", 300),
            "FLCert-D, balanced is not possible: num_groups must be in [1, num_clients=200], got 300",
        ),
        (
            ("--grouping", "hashed", "--groups", "300,400", "--json"),
            "FLCert-D is not possible: num_groups must be in [1, num_clients=200], got 300; "
            "num_groups must be in [1, num_clients=200], got 400",
        ),
        (
            (
                "--clients",
                5,
                "--grouping",
                "sampled",
                "--group-size",
                2,
                "--groups",
                11,
                "--set",
                "grouping.distinct=true",
            ),
            "num_groups must be at most 10, as many as there are distinct groups of 2 of the 5 clients, got 11",
        ),
        (("--groups", 5, "--target-m", 201), "target_m must be in [0, num_clients=200], got 201"),
        (("--groups", 5, "--figure", "a.gif"), "--figure must end in .svg, .png or .pdf, got 'a.gif'"),
        (("--groups", 5, "--grouping", "hashd"), "unknown grouping.kind 'hashd'; did you mean 'hashed'"),
        (("--groups", 5, "--grouping", "enumerated", "--group-size", 2), "grouping.num_groups goes with"),
        (("--grouping", "enumerated", "--group-size", 99), "groups are more than limit=10,000"),
        (("--grouping", "enumerated"), "grouping.group_size is needed"),
        (("--grouping", "sampled", "--set", "grouping.group_size=0"), "group_size must be greater than 0, got 0"),
        (("--grouping", "sampled", "--group-size", 0), "grouping.group_size must be greater than 0, got 0"),
        (("--set", "data.name=folder"), "option 'path' of data set 'folder' is needed"),
        (("nowhere.toml",), "cannot read the configuration nowhere.toml"),
    ],
)
def test_a_mistake_gives_a_message_and_code_2(flcert, options, message):
    result = flcert("plan", *options)
    assert result.code == 2
    assert message in result.err
    assert len(result.err.splitlines()) == 1
