"""Each rule against a second, naive implementation, on updates where all rules give different answers."""

from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest
import torch

from flcert import aggregators
from flcert.aggregators import Round
from flcert.attacks import Attack, AttackPlan
from flcert.core.settings import Choice
from flcert.datasets import load
from flcert.errors import InputError
from flcert.grouping import hashed
from flcert.training import Recipe, train
from flcert.training.group import GroupTask, train_group
from flcert.training.keys import recipe_sources
from flcert.training.rounds import substitutes
from flcert.training.start import initial_module, state_arrays

PARAMETERS, BUFFERS = 30, 4
NAN = float("nan")
SERVER_OPTIMISERS = ["fedadam", "fedavgm", "fedyogi"]
ROBUST = [name for name in aggregators.AGGREGATORS if name not in ("fedavg", "fedsum", *SERVER_OPTIMISERS)]


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


def naive_fedsum(r):
    return sum(update.double() for update in r.updates).tolist()


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


def naive_step(name, deltas, eta=0.1, beta1=0.9, beta2=0.99, tau=1e-3):
    """The step of the last of these rounds, from their mean updates."""
    m, v = 0.0, tau**2
    for delta in deltas:
        m, d2 = beta1 * m + (1 - beta1) * delta, delta**2
        v = beta2 * v + (1 - beta2) * d2 if name == "fedadam" else v - (1 - beta2) * d2 * np.sign(v - d2)
    return eta * m / (np.sqrt(v) + tau)


def naive_first_round(name):
    def first_round(r):
        mean = np.array(naive_fedavg(r))
        return [*naive_step(name, [mean[:PARAMETERS]]), *mean[PARAMETERS:]]

    return first_round


NAIVE = {
    "bulyan": naive_bulyan,
    "fedadam": naive_first_round("fedadam"),
    "fedavg": naive_fedavg,
    "fedavgm": naive_fedavg,  # as long as there is no momentum
    "fedsum": naive_fedsum,
    "fedyogi": naive_first_round("fedyogi"),
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


def second_update(chosen):
    """What a rule does in its second round; the updates of the first were much larger."""
    large = replace(given(seed=1), updates=given(seed=1).updates * 100)
    return chosen(replace(given(), memory=aggregators.remembered(chosen, large)))


def test_all_rules_differ_on_these_updates():
    bold = {"server_learning_rate": 1, "beta1": 0.5, "beta2": 0.5}
    results = {
        name: second_update(rule(name, **(bold if name in ("fedadam", "fedyogi") else {})))
        for name in aggregators.AGGREGATORS
    }
    for one, other in combinations(results, 2):
        assert (results[one] - results[other]).abs().max() > 0.05, (one, other)


def with_bad_rows(value, rows=(0, 3)):
    r = given(9)
    for row in rows:
        r.updates[row, 5] = value
    return r


@pytest.mark.parametrize("value", [NAN, float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ROBUST)
def test_a_robust_rule_drops_updates_that_are_not_finite(name, value):
    kept = [row for row in range(9) if row not in (0, 3)]
    clean = given(9)
    clean = Round(clean.updates[kept], clean.sizes[kept], PARAMETERS, clean.server)
    assert torch.equal(rule(name)(with_bad_rows(value)), rule(name)(clean))


@pytest.mark.parametrize("name", ROBUST)
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
    assert [aggregators.substitute(rule(name), 1) for name in SERVER_OPTIMISERS] == [None] * 3


def test_groups_too_small_for_a_new_rule_are_named():
    sizes = [0, 1, 3, 4, 6, 7]
    small = {name: list(substitutes(Recipe(aggregator=Choice(name=name)), sizes)) for name in aggregators.AGGREGATORS}
    assert (small["multi-krum"], small["bulyan"]) == ([1, 2], [1, 2, 3, 4])
    assert [small[name] for name in SERVER_OPTIMISERS] == [[]] * 3
    halves = Recipe(aggregator=Choice(name="bulyan"), participation=0.5)
    assert substitutes(halves, [12, 14]) == {0: "median"}


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


SERVER_OPTIONS = [
    ("fedadam", {}),
    ("fedadam", {"server_learning_rate": 0.3, "beta1": 0.5, "beta2": 0.8, "tau": 0.1}),
    ("fedyogi", {}),
    ("fedyogi", {"server_learning_rate": 0.3, "beta1": 0.5, "beta2": 0.8, "tau": 0.1}),
    ("fedavgm", {}),
    ("fedavgm", {"server_learning_rate": 0.3, "momentum": 0.5}),
]


@pytest.mark.parametrize(("name", "options"), SERVER_OPTIONS)
def test_three_rounds_of_a_server_optimiser_follow_its_formula(name, options):
    chosen, memory, means = rule(name, **options), (), []
    for seed, size in enumerate([1, 3, 0.1]):  # Yogi's v grows, and falls
        r = replace(given(seed=seed), memory=memory)
        r.updates[:] *= size
        means.append(np.array(naive_fedavg(r)))
        found, memory = chosen(r), aggregators.remembered(chosen, r)
        deltas = [mean[:PARAMETERS] for mean in means]
        if name == "fedavgm":
            eta, beta = options.get("server_learning_rate", 1), options.get("momentum", 0.9)
            expected = eta * sum(beta**age * delta for age, delta in enumerate(reversed(deltas)))
        else:
            values = zip(("eta", "beta1", "beta2", "tau"), options.values(), strict=False)
            expected = naive_step(name, deltas, **dict(values))
        np.testing.assert_allclose(found[:PARAMETERS].numpy(), expected, rtol=1e-3, atol=1e-6)
        assert torch.equal(found[PARAMETERS:], rule("fedavg")(r)[PARAMETERS:])  # buffers are averaged, in every round


def test_without_momentum_fedavgm_is_fedavg():
    chosen = rule("fedavgm", momentum=0)
    for seed in range(2):
        r = replace(given(seed=seed), memory=aggregators.remembered(chosen, given(seed=5)))
        assert torch.equal(chosen(r), rule("fedavg")(r))


@pytest.mark.parametrize("value", [NAN, float("inf")])
@pytest.mark.parametrize("name", SERVER_OPTIMISERS)
def test_a_server_optimiser_does_not_hide_an_update_that_is_not_finite(name, value):
    chosen, bad = rule(name), with_bad_rows(value)
    spoilt = ~chosen(bad).isfinite()
    assert spoilt.nonzero().tolist() == [[5]]
    after = replace(given(), memory=aggregators.remembered(chosen, bad))
    assert torch.equal(~chosen(after).isfinite(), spoilt)


@pytest.mark.parametrize(
    ("name", "option", "value", "limit"),
    [
        ("fedavgm", "momentum", 1, "less than 1"),
        ("fedavgm", "server_learning_rate", 0, "greater than 0"),
        ("fedadam", "server_learning_rate", float("inf"), "finite"),
        ("fedadam", "beta1", -0.1, "greater than or equal to 0"),
        ("fedyogi", "beta2", 1.0, "less than 1"),
        ("fedyogi", "tau", 0.0, "greater than 0"),
    ],
)
def test_an_option_of_a_server_optimiser_out_of_range_is_refused(name, option, value, limit):
    with pytest.raises(InputError, match=f"option '{option}' of aggregator '{name}' must be .*{limit}.*, got {value}"):
        rule(name, **{option: value})


class Nosy(Attack):
    """Tries the rule on what the clients would send, and on nonsense; then everybody sends what they would."""

    def __init__(self):
        self.expected = None

    def forge(self, scene):
        if self.expected is not None and not torch.equal(self.expected, scene.state):
            raise AssertionError("the rule did something else than what the attacker saw")
        for factor in (-3, 7, 1):
            tried = replace(scene.brought, updates=factor * scene.brought.updates)
            self.expected = scene.state + scene.aggregator(tried)
        return Round(scene.brought.updates, scene.brought.sizes, scene.brought.num_parameters, scene.brought.server)


class Spoiler(Attack):
    """Sends what is not a number."""

    def forge(self, scene):
        return scene.forged(torch.full_like(scene.state, NAN))


def trained(members, name, attack=None):
    federation, recipe = load("digits", num_clients=8), Recipe(rounds=3, local_steps=2, aggregator=Choice(name=name))
    plan = AttackPlan(Choice(name=f"{__name__}:{attack}"), frozenset({1})) if attack else None
    task = GroupTask(members, recipe, sources=recipe_sources(recipe, plan), attack=plan)
    return {key: array.tobytes() for key, array in train_group(federation, task)[3].items()}


@pytest.mark.parametrize("name", SERVER_OPTIMISERS)
def test_an_attacker_who_tries_the_rule_sees_what_it_will_do_and_changes_nothing(name):
    assert trained((0, 1, 2), name, "Nosy") == trained((0, 1, 2), name)


@pytest.mark.parametrize("name", SERVER_OPTIMISERS)
def test_what_a_rule_remembers_of_a_group_reaches_no_other(name):
    groups = {(0, 1, 2): None, (3, 4): None, (1, 5): "Spoiler"}
    alone = {members: trained(members, name, attack) for members, attack in groups.items()}
    for order in permutations(groups):
        assert {members: trained(members, name, groups[members]) for members in order} == alone
    assert all(np.isnan(np.frombuffer(array, np.float32)).all() for array in alone[1, 5].values())
    assert len({str(one) for one in alone.values()}) == 3


def test_a_group_s_second_round_has_the_momentum_of_its_first():
    federation = load("digits", num_clients=4)

    def models(name):
        recipe = Recipe(rounds=2, evaluate_at=(1,), aggregator=Choice(name=name))
        kept = train_group(federation, GroupTask((0, 1, 2, 3), recipe))
        start = state_arrays(initial_module(recipe, federation.input_shape, federation.num_labels))
        return [np.concatenate([arrays[key].ravel() for key in sorted(start)]) for arrays in (start, kept[1], kept[2])]

    (start, first, second), (_, same, faster) = models("fedavg"), models("fedavgm")
    assert np.array_equal(first, same)
    np.testing.assert_allclose(faster, second + 0.9 * (first - start), atol=1e-6)


class Sulking:
    """A rule of a user's own that cannot work with what it remembers."""

    def __call__(self, given):
        return given.updates[0] if not given.memory else given.memory[0]

    def remember(self, given):
        return (given.updates,)


def test_a_rule_that_cannot_use_what_it_remembers_is_refused_before_training(store):
    federation, recipe = load("digits", num_clients=4), Recipe(aggregator=Choice(name=f"{__name__}:Sulking"))
    with pytest.raises(InputError, match=r"Sulking' must give torch.float32 of shape \(4810,\), got .* \(3, 4810\)"):
        train(federation, hashed(federation.ids, 2), recipe, store=store)
    assert not list(store.entries())
