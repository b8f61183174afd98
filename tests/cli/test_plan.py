"""`flcert plan`: cost and largest certifiable level, from the paper's formulas."""

import json
from itertools import product

import pytest

from flcert import certify, grouping, presets
from flcert.certify.sampled import least_groups
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
    many = planned(flcert, "--preset", "har", "--groups", 500, "--group-size", 2, "--inputs", 2603)
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


def test_the_table_says_whether_p_can_certify(flcert):
    enough, few = (flcert("plan", "--clients", 1000, "--groups", groups).out for groups in (25, 24))
    assert "FLCert-P can certify with N = 25" in enough
    assert "FLCert-P can certify nothing with N = 24" in few
    assert "FLCert-P can certify with N = 25, but only if no client is malicious" in enough
    some = flcert("plan", "--clients", 1000, "--groups", 500).out
    assert "FLCert-P can certify with N = 500:" in some
    assert "The largest m is that of 500 votes; with 432 it is 216." in " ".join(some.split())
    assert "more than log2(2 D / alpha) with selection = 'safe'" in " ".join(few.split())
    assert "For a client's traffic give --parameters or a --preset." in few
    assert "223.9 MB" in flcert("plan", "--preset", "mnist-0.1").out
    assert "n = 100 clients, N = 50 groups" in flcert("plan", "--preset", "mnist-0.1", "--scale", 0.1).out
    assert flcert("plan", "--clients", 9, "--groups", 3, "--scale", 0.5).code == 2
    assert "FLCert-D is not possible" in flcert("plan", "--clients", 10, "--groups", 24).out


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
    assert "run: flcert pretrain digits-28+pen+fonts." in told.out
    assert "sent in a round" not in told.out


def test_no_sentence_contradicts_the_table(flcert):
    """Of 40 groups 0.3 are empty on average: 40 to the nearest whole number vote, so there is nothing to add."""
    told = " ".join(flcert("plan", "--clients", 200, "--groups", 40).out.split())
    assert "largest certifiable m 20" in told
    assert "groups empty on average" not in told
    told = " ".join(flcert("plan", "--clients", 60, "--groups", 40).out.split())
    assert "FLCert-D leaves 8.8 groups empty on average" in told
    assert "with 31 it is 15." in told
    for groups in range(1, 61):
        facts = planned(flcert, "--clients", 60, "--groups", groups)["plans"]["FLCert-D"]
        assert facts["likely_level"] == certify.disjoint([[facts["likely_votes"], 0]]).levels[0]
        assert facts["likely_level"] <= facts["largest_level"]


@pytest.mark.parametrize(("groups", "of_a_client"), [(8, 1), (9, 2), (20, 3), (21, 4)])
def test_finite_aggregation_withstands_as_many_clients_as_its_certificate_says(groups, of_a_client):
    settings = grouping.FiniteAggregation(num_groups=groups, groups_per_client=of_a_client)
    best = settings.unanimous(100, certify.CertificateSettings(), 1)
    assert best.levels.tolist() == [groups // 2 // of_a_client]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--groups", 4), "--clients is needed, but was not given"),
        (("--clients", 10, "--groups", 0), "num_groups must be in [1, 1000000], got 0"),
        (("--clients", 10, "--groups", 4, "--group-size", 11), "group_size must be in [1, num_clients=10], got 11"),
        (("--clients", 10, "--groups", 4, "--participation", 0), "participation must be in (0, 1], got 0.0"),
        (("--clients", 10, "--groups", 4, "--beta", 2), "beta must be in (0, 1], got 2.0"),
        (("--clients", 10, "--groups", 4, "--alpha", 2), "alpha must be less than 1, got 2.0"),
        (("--clients", 10, "--groups", 4, "--inputs", 0), "num_inputs must be in [1"),
        (("--clients", 10, "--groups", 4, "--rounds", 0), "rounds must be in [1"),
        (("--clients", 10, "--groups", 4, "--selection", "save"), "selection must be 'safe' or 'paper', got 'save'"),
        (("--preset", "hat"), "unknown preset 'hat'; did you mean 'har'"),
    ],
)
def test_a_mistake_gives_a_message_and_code_2(flcert, options, message):
    result = flcert("plan", *options)
    assert result.code == 2
    assert message in result.err
