"""What a few groups say about many: the estimate on made-up inputs whose true shares are known."""

import numpy as np
import pytest

from flcert.certify import certified_accuracy, disjoint
from flcert.pipeline.forecast import Ballots, forecast, patterns_of, worth
from flcert.pipeline.pilot import deal

NUM_GROUPS, NUM_LABELS = 500, 10
LEVELS = range(0, 226, 5)


def certified(counts):
    certificate = disjoint(counts)
    return certificate.labels, np.where(certificate.abstained, -1, certificate.levels)


def inputs(number, generator, right=(5, 1)):
    """True labels, and the share of all groups that vote for each label."""
    shares = generator.beta(*right, number)
    wrong = generator.dirichlet(0.7 ** np.arange(NUM_LABELS - 1) / 2, number)  # some wrong labels are likelier
    truth = generator.integers(0, NUM_LABELS, number)
    others = (np.arange(NUM_LABELS - 1) + (np.arange(NUM_LABELS - 1) >= truth[:, None])).astype(np.int64)
    table = np.zeros((number, NUM_LABELS))
    np.put_along_axis(table, others, (1 - shares)[:, None] * wrong, axis=1)
    table[np.arange(number), truth] = shares
    return truth, table


def votes(shares, num_groups, generator):
    drawn = generator.random((num_groups, len(shares), 1)) > np.cumsum(shares, axis=1)
    return np.minimum(drawn.sum(axis=2), NUM_LABELS - 1)


def ballots(votes, truth, **changes):
    groups = len(votes)
    plain = {
        "votes": votes,
        "truth": truth,
        "num_labels": NUM_LABELS,
        "shared": np.eye(groups),
        "inside": np.zeros(votes.shape, dtype=bool),
        "owners": np.arange(len(truth)),
    }
    return Ballots(**{**plain, **changes})


def curve_of(shares, truth, generator, num_votes=NUM_GROUPS):
    return padded(certified_accuracy(disjoint(generator.multinomial(num_votes, shares)), truth))


def padded(curve):
    return np.pad(curve, (0, NUM_GROUPS))


def worst(found, truth):
    return max(abs(found[m] - truth[m]) for m in LEVELS)


@pytest.mark.parametrize(
    ("right", "num_groups", "off"), [((5, 1), 12, 0.05), ((30, 5), 12, 0.1), ((30, 5), 25, 0.08), ((8, 0.3), 12, 0.06)]
)
def test_the_forecast_is_close_where_resampling_the_pilot_is_not(right, num_groups, off):
    """The share of right votes on an input has a beta distribution; the last one has most of it close to 1."""
    generator = np.random.default_rng(0)
    truth, shares = inputs(3000, generator, right)
    real = curve_of(shares, truth, generator)
    seen = votes(shares, num_groups, generator)
    counts = np.stack([(seen == label).sum(axis=0) for label in range(NUM_LABELS)], axis=1)
    resampled = curve_of(counts / num_groups, truth, generator)
    found = forecast(ballots(seen, truth), NUM_GROUPS, 3000, certified).curve
    assert worst(found, real) < 0.025
    assert worst(resampled, real) > off


def test_the_interval_covers_the_truth_if_groups_differ_in_quality():
    """Each group is good or bad at everything, so a dozen groups may be better or worse than all."""
    covered = []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        truth, shares = inputs(500, generator)
        spoilt = 0.5 * shares + 0.5 / NUM_LABELS
        bad = generator.random(12) < 0.3
        seen = np.where(bad[:, None], votes(spoilt, 12, generator), votes(shares, 12, generator))
        everything = inputs(20_000, generator)
        real = curve_of(0.7 * everything[1] + 0.3 * (0.5 * everything[1] + 0.5 / NUM_LABELS), everything[0], generator)
        low, high = forecast(ballots(seen, truth), NUM_GROUPS, 3000, certified).interval(100)
        covered.append(low <= real[100] <= high)
        assert high - low < 0.5
    assert sum(covered) >= 6


def test_a_curve_falls_and_ends_where_levels_end():
    generator = np.random.default_rng(1)
    truth, shares = inputs(300, generator)
    found = forecast(ballots(votes(shares, 12, generator), truth), 40, 3000, certified)
    assert (np.diff(found.curve) <= 0).all()
    assert found.at(21) == found.at(1000) == 0
    assert found.interval(1000) == (0, 0)


def test_groups_are_not_asked_about_their_own_clients_inputs():
    truth = np.zeros(4, dtype=np.int64)
    seen = np.array([[0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 2, 2]])
    inside = np.array([[True] * 4, [False] * 4, [False] * 4])
    patterns = patterns_of(ballots(seen, truth, inside=inside))
    assert patterns.right.tolist() == [0, 0]
    assert sorted(patterns.wrong[:, 1:3].tolist()) == [[0, 1], [2, 0]]  # one label twice, two labels once
    assert patterns.own_right.tolist() == [1, 1]


def test_the_owner_s_group_has_one_vote():
    """The only group is the owner's, which knows every input; the others do not know every second one."""
    truth, seen = np.zeros(400, dtype=np.int64), np.zeros((12, 400), dtype=np.int64)
    seen[:, ::2] = 1
    inside = np.zeros((12, 400), dtype=bool)
    inside[0], seen[0] = True, 0
    told = forecast(ballots(seen, truth, inside=inside, own=True), 1, 3000, certified)
    without = forecast(ballots(seen, truth, inside=inside), 1, 3000, certified)
    assert without.at(0) == pytest.approx(0.5, abs=0.02)
    assert told.at(0) == 1


def test_votes_of_groups_that_share_clients_are_worth_less():
    """Every vote is that of one of a group's two clients, and each client is in two of twelve groups."""
    generator = np.random.default_rng(3)
    truth, shares = inputs(2000, generator)
    clients = votes(shares, 12, generator)
    members = [(group, (group + 1) % 12) for group in range(12)]
    chosen = generator.integers(0, 2, (12, 2000))
    seen = np.stack([np.where(pick, clients[b], clients[a]) for pick, (a, b) in zip(chosen, members, strict=True)])
    shared = np.array([[len({*one} & {*other}) / 2 for other in members] for one in members])
    assert worth(ballots(seen, truth)) == 1
    assert worth(ballots(seen, truth, shared=shared)) == pytest.approx(1 / 1.5, abs=0.04)  # two with correlation 1/4
    independent = votes(shares, 12, generator)
    assert worth(ballots(independent, truth, shared=shared)) > 0.97


def test_pilot_clients_are_dealt_out_once_before_anybody_is_used_again():
    sizes = np.array([4] * 30 + [5] * 10)
    members = deal(20, sizes, 8, "a test")
    assert sorted(map(len, members)) == [4] * 6 + [5] * 2
    first = np.concatenate(members[:4])
    assert len(np.unique(first)) == len(first)
    assert len(deal(20, np.ones(50, dtype=np.int64), 24, "single clients")) == 20
    again = deal(20, sizes, 8, "a test")
    assert [group.tolist() for group in members] == [group.tolist() for group in again]


def test_the_largest_level_needs_a_label_that_wins_every_tie():
    """All 10 groups agree: the level is 5 for label 0 and 4 for the others, because a tie goes to the smaller label."""
    truth, seen = np.zeros(400, dtype=np.int64), np.zeros((25, 400), dtype=np.int64)
    found = forecast(ballots(seen, truth), 10, 3000, certified)
    assert found.at(4) > 0.95
    assert found.at(5) == pytest.approx(1 / NUM_LABELS, abs=0.02)
