"""Each rule against a second, naive implementation, on updates where all rules give different answers."""

from itertools import combinations

import numpy as np
import pytest
import torch

from flcert import aggregators
from flcert.aggregators import Round
from flcert.core.settings import Choice
from flcert.datasets import load
from flcert.errors import InputError
from flcert.grouping import hashed
from flcert.training import Recipe, train

PARAMETERS, BUFFERS = 30, 4
NAN = float("nan")


def given(num_clients=7, seed=0):
    rng = np.random.default_rng(seed)
    updates = rng.normal(size=(num_clients, PARAMETERS + BUFFERS)) + np.linspace(-1, 2, PARAMETERS + BUFFERS)
    updates[-1] *= 8
    return Round(
        updates=torch.tensor(updates, dtype=torch.float32),
        sizes=torch.tensor(rng.integers(1, 30, num_clients)),
        num_parameters=PARAMETERS,
        server=torch.tensor(rng.normal(size=PARAMETERS + BUFFERS) + np.linspace(-1, 2, PARAMETERS + BUFFERS)).float(),
    )


def rule(name, **options):
    return aggregators.build(Choice(name=name, options=options))


def naive_fedavg(r):
    weighted = [float(size) * update.double() for size, update in zip(r.sizes, r.updates, strict=True)]
    return (sum(weighted) / float(r.sizes.sum())).tolist()


def naive_median(r):
    return [float(np.median([float(u[i]) for u in r.updates])) for i in range(PARAMETERS + BUFFERS)]


def naive_trimmed(r, b=1):
    columns = ([float(u[i]) for u in r.updates] for i in range(PARAMETERS + BUFFERS))
    return [float(np.mean(sorted(column)[b:-b])) for column in columns]


def naive_score(i, rows, f):
    distances = sorted(float(((row.double() - rows[i].double()) ** 2).sum()) for j, row in enumerate(rows) if j != i)
    return sum(distances[: max(1, len(rows) - f - 2)])


def naive_krum(r, f=1):
    return r.updates[min(range(len(r.updates)), key=lambda i: naive_score(i, r.updates, f))].tolist()


def naive_multi_krum(r, f=1, kept=None):
    order = sorted(range(len(r.updates)), key=lambda i: naive_score(i, r.updates, f))
    chosen = [r.updates[i].double().numpy() for i in order[: kept or len(order) - f]]
    return np.mean(chosen, axis=0).tolist()


def naive_bulyan(r, f=1):
    rows, selected, n = list(r.updates), [], len(r.updates)
    if n < 4 * f + 3:
        return naive_median(r)
    for _ in range(n - 2 * f):
        selected.append(rows.pop(min(range(len(rows)), key=lambda i: naive_score(i, rows, f))))
    result = []
    for i in range(PARAMETERS + BUFFERS):
        values = np.array([float(row[i]) for row in selected])
        nearest = np.argsort(np.abs(values - np.median(values)))[: n - 4 * f]
        result.append(float(values[nearest].mean()))
    return result


def naive_fltrust(r):
    g0 = r.server[:PARAMETERS].double()
    total, weights = torch.zeros(PARAMETERS + BUFFERS, dtype=torch.float64), 0.0
    for update in r.updates.double():
        g = update[:PARAMETERS]
        trust = max(0.0, float(g0 @ g) / (float(g0.norm()) * float(g.norm())))
        scaled = torch.cat([g * g0.norm() / g.norm(), update[PARAMETERS:]])
        total, weights = total + trust * scaled, weights + trust
    return (total / weights).tolist()


NAIVE = {
    "bulyan": naive_bulyan,
    "fedavg": naive_fedavg,
    "fltrust": naive_fltrust,
    "krum": naive_krum,
    "median": naive_median,
    "multi-krum": naive_multi_krum,
    "trimmed-mean": naive_trimmed,
}


@pytest.mark.parametrize("name", aggregators.AGGREGATORS)
@pytest.mark.parametrize("num_clients", [5, 6, 7])
def test_a_rule_equals_its_naive_twin(name, num_clients):
    for seed in range(5):
        r = given(num_clients, seed)
        np.testing.assert_allclose(rule(name)(r).numpy(), NAIVE[name](r), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("num_clients", [11, 12, 15])
@pytest.mark.parametrize("f", [0, 1, 2])
def test_multi_krum_and_bulyan_follow_their_options(f, num_clients):
    for seed in range(6):
        r = given(num_clients, seed)
        r.updates[:] = r.updates.flip(0) if seed % 2 else r.updates  # the outlier comes first, or last
        for kept in (None, 1, 3, num_clients - f):
            found = rule("multi-krum", assumed_malicious=f, kept=kept)(r)
            np.testing.assert_allclose(found.numpy(), naive_multi_krum(r, f, kept), rtol=1e-4, atol=1e-5)
        found = rule("bulyan", assumed_malicious=f)(r)
        np.testing.assert_allclose(found.numpy(), naive_bulyan(r, f), rtol=1e-4, atol=1e-5)
    assert torch.equal(rule("multi-krum", assumed_malicious=f, kept=1)(r), rule("krum", assumed_malicious=f)(r))


@pytest.mark.parametrize("name", ["multi-krum", "bulyan"])
def test_far_updates_within_the_assumed_number_hardly_count(name):
    r = given(11)
    r.updates[-1] /= 8  # the test's own outlier
    benign = r.updates[2:]
    low, high = benign.min(dim=0).values, benign.max(dim=0).values
    for size in (1e3, 1e30):
        r.updates[:2] = size
        found = rule(name, assumed_malicious=2)(r)
        assert ((low <= found) & (found <= high)).all()
        assert not (rule(name, assumed_malicious=0)(r) <= high).any()


def test_bulyan_takes_the_smaller_of_two_equally_near_values():
    updates = torch.tensor([1.0, -1.0, 0.0, -1.0, 50.0, 1000.0, 3000.0]).reshape(-1, 1)
    assert rule("bulyan")(Round(updates, torch.ones(7), 1)).tolist() == pytest.approx([-2 / 3])


def test_all_rules_differ_on_these_updates():
    results = {name: rule(name)(given()) for name in aggregators.AGGREGATORS}
    for one, other in combinations(results, 2):
        assert (results[one] - results[other]).abs().max() > 0.05, (one, other)


def with_bad_rows(value, rows=(0, 3)):
    r = given(9)
    for row in rows:
        r.updates[row, 5] = value
    return r


@pytest.mark.parametrize("value", [NAN, float("inf"), -float("inf")])
@pytest.mark.parametrize("name", [name for name in aggregators.AGGREGATORS if name != "fedavg"])
def test_a_robust_rule_drops_updates_that_are_not_finite(name, value):
    kept = [row for row in range(9) if row not in (0, 3)]
    clean = given(9)
    clean = Round(clean.updates[kept], clean.sizes[kept], PARAMETERS, clean.server)
    assert torch.equal(rule(name)(with_bad_rows(value)), rule(name)(clean))


@pytest.mark.parametrize("name", [name for name in aggregators.AGGREGATORS if name != "fedavg"])
def test_a_robust_rule_leaves_the_model_alone_when_no_update_is_finite(name):
    assert torch.equal(rule(name)(with_bad_rows(NAN, range(9))), torch.zeros(PARAMETERS + BUFFERS))


@pytest.mark.parametrize(
    ("name", "options", "least"),
    [
        ("krum", {}, 4),
        ("krum", {"assumed_malicious": 3}, 6),
        ("trimmed-mean", {}, 3),
        ("trimmed-mean", {"assumed_malicious": 2}, 5),
        ("multi-krum", {}, 4),
        ("multi-krum", {"assumed_malicious": 2}, 5),
        ("multi-krum", {"assumed_malicious": 2, "kept": 1}, 5),
        ("multi-krum", {"assumed_malicious": 2, "kept": 4}, 6),
        ("bulyan", {}, 7),
        ("bulyan", {"assumed_malicious": 0}, 3),
        ("median", {}, 1),
    ],
)
def test_a_group_too_small_for_its_rule_is_aggregated_by_the_median(name, options, least):
    chosen = rule(name, **options)
    for num_clients in range(1, 8):
        r = given(num_clients)
        substitute = aggregators.substitute(chosen, num_clients)
        assert substitute == ("median" if num_clients < least else None)
        if substitute:
            assert torch.equal(chosen(r), rule("median")(r))
    enough = given(least + 2)
    assert name == "median" or not torch.equal(chosen(enough), rule("median")(enough))


def test_rules_without_a_least_number_have_no_substitute():
    assert aggregators.substitute(rule("fedavg"), 1) is None
    assert aggregators.substitute(rule("fltrust"), 1) is None


def test_krum_tells_close_updates_apart():
    base = torch.full((1, 1000), 1000.0)
    updates = base + torch.tensor([0.0, 0.001, 0.002, 0.5, 0.5]).reshape(-1, 1)
    r = Round(updates, torch.ones(5), 1000)
    assert torch.equal(rule("krum")(r), updates[1])


def test_fltrust_ignores_who_points_the_other_way_and_everyone_if_all_do():
    server = torch.ones(4)
    r = Round(torch.stack([-torch.ones(4), 3 * torch.ones(4), torch.zeros(4)]), torch.ones(3), 4, server)
    torch.testing.assert_close(rule("fltrust")(r), torch.ones(4))
    against = Round(-torch.rand(3, 4) - 0.1, torch.ones(3), 4, server)
    assert torch.equal(rule("fltrust")(against), torch.zeros(4))


def test_fltrust_needs_a_root_set_and_depends_on_it(store):
    plain = load("digits", num_clients=8)
    recipe = Recipe(rounds=2, aggregator=Choice(name="fltrust"))
    with pytest.raises(InputError, match="aggregator 'fltrust' needs a root set of the server"):
        train(plain, hashed(plain.ids, 2), recipe, store=store)
    trained = []
    for num_root in (50, 51):
        federation = load("digits", num_clients=8, num_root=num_root)
        ensemble = train(federation, hashed(federation.ids, 2), recipe, store=store)
        trained.append(ensemble.trained)
        assert not ensemble.failures
    assert trained == [2, 2]


@pytest.mark.parametrize("name", ["bulyan", "krum", "multi-krum", "trimmed-mean"])
def test_a_negative_number_of_malicious_clients_is_refused(name):
    with pytest.raises(InputError, match=r"option 'assumed_malicious' .* must be greater than or equal to 0, got -1"):
        rule(name, assumed_malicious=-1)


def test_a_mean_over_no_update_is_refused():
    with pytest.raises(InputError, match=r"option 'kept.*' of aggregator 'multi-krum' must be .* equal to 1, got 0"):
        rule("multi-krum", kept=0)
