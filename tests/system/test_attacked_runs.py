"""Attacks on real training: what they do is measured, and what is certified does not move."""

import json

import numpy as np
import pytest
import torch

from flcert import attacks, voting
from flcert.attacks import ATTACKS, triggers
from flcert.certify import Disjoint, Evidence, certified_accuracy, disjoint
from flcert.core.settings import Choice
from flcert.core.store import Store
from flcert.datasets import load
from flcert.engines import Inline, Workers
from flcert.grouping import hashed
from flcert.pipeline.attack import evaluate_attack
from flcert.pipeline.results import Certified
from flcert.training import Recipe
from flcert.training.context import Context
from flcert.training.train import train_groups

FEDERATION = load("digits", num_clients=45, num_test=150)
GROUPING = hashed(FEDERATION.ids, 9)
RULE_OF = {"krum": "krum", "trim": "trimmed-mean", "little-is-enough": "median"}
MALICIOUS = 3


def votes_of(rule, store, plan=None):
    recipe = Recipe(rounds=6, aggregator=Choice(name=rule))
    with Workers(Inline(), FEDERATION) as workers:
        ensemble = train_groups(Context(workers, store), GROUPING, recipe, plan)
    return ensemble.votes(FEDERATION.test_inputs), ensemble


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("attacked"))


@pytest.mark.parametrize("name", ATTACKS)
def test_no_certified_prediction_changes_and_only_attacked_groups_are_trained(name, shared_store):
    rule = RULE_OF.get(name, "fedavg")
    clean, _ = votes_of(rule, shared_store)
    certificate = disjoint(voting.count(clean, 10))
    for seed in range(3):
        plan = attacks.plan(Choice(name=name), MALICIOUS, FEDERATION.ids, seed)
        hit = {group for group, members in enumerate(GROUPING.members) if plan.malicious & set(members.tolist())}
        attacked, ensemble = votes_of(rule, shared_store, plan)
        assert ensemble.trained == len(hit)
        assert set(np.flatnonzero((attacked != clean).any(axis=1))) <= hit
        labels = voting.winners(voting.count(attacked, 10))
        kept = certificate.levels >= MALICIOUS
        assert kept.sum() > 20
        assert (labels == certificate.labels)[kept].all()


def test_the_attacks_do_harm_to_the_groups_they_reach(shared_store):
    clean, _ = votes_of("fedavg", shared_store)
    plan = attacks.plan(Choice(name="zero"), MALICIOUS, FEDERATION.ids)
    attacked, _ = votes_of("fedavg", shared_store, plan)
    right = [(table == FEDERATION.test_labels).mean(axis=1) for table in (clean, attacked)]
    hit = (clean != attacked).any(axis=1)
    assert right[0][hit].mean() - right[1][hit].mean() > 0.3


COMMON = ("--clients", 45, "--groups", 9, "--rounds", 4, "--engine", "inline", "--out", "run")


def test_a_run_reports_what_a_backdoor_did(flcert, tmp_path):
    result = flcert("run", *COMMON, "--attack", "backdoor", "--malicious", 3, "--set", "attack.options.target=5")
    assert result.code == 0, result.err
    assert "Simulated attack 'backdoor' by 3 clients" in result.out
    figures = json.loads((tmp_path / "run" / "summary.json").read_text())["attack"]
    assert figures["certified_changed"] == 0
    assert figures["certified"] > 0
    assert 0 <= figures["success_rate_without_attack"] <= figures["success_rate_under_attack"] <= 1
    assert figures["certified_accuracy_on_stamped_inputs"][0] > 0.5
    assert figures["success_rate_under_attack"] <= figures["success_rate_at_most"] < 1
    most = f"succeeds on more than {figures['success_rate_at_most']:.1%} of them."
    assert f"Proved: no backdoor with this trigger and target by as many clients {most}" in result.out
    before = (tmp_path / "run" / "summary.json").read_bytes()
    again = flcert("run", *COMMON, "--attack", "backdoor", "--malicious", 3, "--set", "attack.options.target=5")
    assert "(0 trained for it)" in again.out
    assert (tmp_path / "run" / "summary.json").read_bytes() == before


def test_figures_of_an_attack_are_what_their_names_say(tmp_path):
    """Recomputed from the votes on clean and on stamped inputs of both ensembles."""
    store, target = Store(tmp_path / "store"), 5
    choice = Choice(name="backdoor", options={"target": target})
    plan = attacks.plan(choice, MALICIOUS, FEDERATION.ids)
    recipe = Recipe(rounds=6)
    with Workers(Inline(), FEDERATION) as workers:
        context = Context(workers, store)
        without = train_groups(context, GROUPING, recipe)
        evidence = Evidence.of_votes(without.votes(FEDERATION.test_inputs), 10)
        labels = voting.winners(evidence.counts)
        found = Certified(Disjoint(), evidence, labels, disjoint(evidence.counts), {})
        stages = set()
        context = Context(workers, store, lambda stage, *_: stages.add(stage))
        figures, under = evaluate_attack(context, without, plan, found)
    assert stages == {"attacked train", "attacked votes"}
    stamp = triggers.build(Choice(name="corner"))
    stamped = stamp(torch.from_numpy(FEDERATION.test_inputs)).numpy()
    clean, harmed = (voting.count(one.votes(FEDERATION.test_inputs), 10) for one in (without, under))
    truth, others = FEDERATION.test_labels, FEDERATION.test_labels != target
    certificate = disjoint(clean)
    changed = voting.winners(clean) != voting.winners(harmed)
    kept = certificate.levels >= MALICIOUS
    assert figures.changed == changed.sum() > 0
    assert (figures.certified, figures.certified_changed) == (kept.sum(), (changed & kept).sum())
    assert figures.certified != (disjoint(harmed).levels >= MALICIOUS).sum()
    on_stamped = [voting.count(one.votes(stamped), 10) for one in (without, under)]
    rates = [float((voting.winners(counts)[others] == target).mean()) for counts in on_stamped]
    assert [figures.success_rate_without_attack, figures.success_rate_under_attack] == rates
    everyone = float((voting.winners(on_stamped[1]) == target).mean())
    assert rates[1] != everyone  # inputs whose label is the target would count as successes
    reached = Disjoint().target_levels(Evidence(on_stamped[0]), target)[others] < MALICIOUS
    assert figures.success_rate_at_most == float(reached.mean())
    assert rates[1] <= figures.success_rate_at_most < 1
    proved = certified_accuracy(disjoint(on_stamped[0]), truth).tolist()
    assert list(figures.certified_accuracy_on_stamped_inputs) == proved
    assert proved != certified_accuracy(disjoint(on_stamped[1]), truth).tolist()


@pytest.mark.parametrize("baseline", [("single",), ("crfl", "--set", "recipe.smoothing.copies=20")])
def test_a_backdoor_takes_over_a_baseline(flcert, tmp_path, baseline):
    """One model for all clients: right until one client is malicious."""
    options = ("--clients", 20, "--rounds", 12, "--engine", "inline", "--out", "run")
    result = flcert("run", *options, "--attack", "backdoor", "--malicious", 3, "--baseline", *baseline)
    assert result.code == 0, result.err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["certified_accuracy"][0] == summary["accuracy"] > 0.85
    assert summary["certified_accuracy"][1:] == [0.0]
    assert summary["attack"]["success_rate_under_attack"] > 0.5 > summary["attack"]["success_rate_without_attack"]


BACKDOOR = ("--attack", "backdoor", "--malicious", 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--attack", "zeros", "--malicious", 3), "unknown attack 'zeros'; did you mean 'zero'?"),
        (("--baseline", "singel"), "unknown baseline 'singel'; did you mean 'single'?"),
        (("--baseline", "single"), "--baseline trains one model of all clients; leave out --grouping"),
        (("--attack", "zero"), "attack.malicious is needed, but was not given"),
        (("--malicious", 3), "attack.name is needed, but was not given"),
        (("--attack", "zero", "--malicious", 46), "malicious must be in [1, num_clients=45], got 46"),
        (("--attack", "zero", "--set", 'attack.malicious=["nobody"]'), "unknown malicious client 'nobody'"),
        (
            ("--attack", "backdoor", "--malicious", 1, "--set", "attack.options.target=10"),
            "target must be in [0, 9], got 10",
        ),
        (
            ("--attack", "backdoor", "--malicious", 1, "--set", "attack.options.trigger=conner"),
            "unknown trigger 'conner'",
        ),
    ],
)
def test_a_mistake_gives_a_message_and_code_2(flcert, options, message):
    result = flcert("run", *COMMON, *options)
    assert result.code == 2
    assert message in result.err
