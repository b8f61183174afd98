"""A model that raises when it should vote costs its own group the vote, and nobody else."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from flcert import certify
from flcert.core.store import Store
from flcert.datasets import load
from flcert.engines import Inline, Processes
from flcert.errors import InputError
from flcert.experiments import Options
from flcert.experiments.reproduce import Request, Site, reproduce
from flcert.pipeline.run import run
from flcert.runs.config import parse_config
from flcert.runs.directory import RunDirectory
from flcert.runs.ensemble import open_ensemble
from flcert.serve.service import Service
from flcert.training import Recipe
from flcert.training.panel import Voter
from flcert.training.start import initial_module, state_arrays
from flcert.training.tasks import VoteTask
from flcert.training.votes import vote_on_test_set

NEVER, ON_BRIGHT_INPUTS, ALWAYS = 1, 1e5, 1e9
REASON = "its model cannot vote: ValueError: weights beyond all measure"
DIM, BRIGHT = np.full((1, 64), 0.3, dtype=np.float32), np.ones((1, 64), dtype=np.float32)


def config(factor, model="tests.touchy:Touchy", **further):
    recipe = {"rounds": 2, "learning_rate": 0.1, "model": model}
    recipe["aggregator"] = {"name": "tests.touchy:boosted", "options": {"factor": factor}}
    data, grouping = {"name": "digits", "options": {"num_clients": 20}}, {"num_groups": 8}
    recipe |= further.pop("recipe", {})
    return parse_config({"data": data, "grouping": grouping, "recipe": recipe} | further)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run for each factor."""
    place = tmp_path_factory.mktemp("touchy")
    store = Store(place / "cache")
    made = {}
    for factor in (NEVER, ON_BRIGHT_INPUTS, ALWAYS):
        result = run(config(factor), place / str(factor), engine=Inline(), store=store)
        made[factor] = RunDirectory.open(result.directory)
    return made


def test_groups_whose_models_raise_on_the_test_inputs_have_failed(runs):
    directory = runs[ALWAYS]
    facts, votes = directory.manifest().groups, directory.array("votes")
    pairs = [group.clients == 2 for group in facts]
    assert sum(pairs) == 4
    assert [group.failure for group in facts] == [REASON if pair else None for pair in pairs]
    assert (votes[pairs] == -1).all()
    others = ~np.array(pairs)
    assert np.array_equal(votes[others], runs[NEVER].array("votes")[others])
    counts = directory.evidence().counts
    expected = certify.disjoint(counts, num_failed=4, num_groups=8, num_clients=20)
    assert directory.guarantee().num_failed == 4
    assert np.array_equal(directory.certificate().levels, expected.levels)
    assert not np.array_equal(expected.levels, certify.disjoint(counts, num_groups=8, num_clients=20).levels)


@pytest.mark.parametrize("engine", [Inline(), Processes(2)], ids=["inline", "processes"])
def test_such_a_run_goes_on_and_ends_with_the_same_bytes(runs, tmp_path, engine):
    settings = config(ALWAYS, certificate={"also": ["runoff"]}, recipe={"evaluate_at": [1]})
    first = run(settings, tmp_path / "first", engine=engine, store=Store(tmp_path / "cache"))
    again = run(settings, tmp_path / "again", engine=Inline(), store=Store(tmp_path / "cache"))
    for name in ("votes.npy", "manifest.json", "summary.json", "certificate.csv", "ranks.npz", "rounds.csv"):
        assert (first.directory / name).read_bytes() == (again.directory / name).read_bytes()
    assert np.array_equal(RunDirectory.open(again.directory).array("votes"), runs[ALWAYS].array("votes"))


def test_models_that_are_asked_together_do_not_pay_for_each_other(runs, tmp_path):
    model = "tests.touchy:TouchyTogether"
    made = [
        run(config(factor, model), tmp_path / str(factor), engine=Inline(), store=Store(tmp_path / "cache"))
        for factor in (ON_BRIGHT_INPUTS, ALWAYS)
    ]
    bright, always = (RunDirectory.open(result.directory) for result in made)
    assert [group.failure for group in always.manifest().groups] == [
        group.failure for group in runs[ALWAYS].manifest().groups
    ]
    votes = open_ensemble(bright).votes(np.concatenate([DIM, BRIGHT]))
    pairs = [group.clients == 2 for group in bright.manifest().groups]
    assert (votes[:, 0] >= 0).all()
    assert ((votes[:, 1] == -1) == pairs).all()
    assert (open_ensemble(bright).votes(BRIGHT)[:, 0] == votes[:, 1]).all()


@pytest.mark.parametrize("how", ["wide", "short", "leaves", "refuses"])
def test_whatever_a_model_does_with_its_weights_only_its_group_fails(runs, tmp_path, how):
    model = {"name": "tests.touchy:Odd", "options": {"how": how}}
    made = run(config(ALWAYS, model), tmp_path / "run", engine=Inline(), store=Store(tmp_path / "cache"))
    facts = RunDirectory.open(made.directory).manifest().groups
    assert [group.failure is None for group in facts] == [group.clients != 2 for group in facts]
    every = replace(made.ensemble, keys=open_ensemble(runs[NEVER]).keys, load=Huge(open_ensemble(runs[NEVER])))
    votes = every.votes(DIM)
    assert ((votes[:, 0] == -1) == (every.grouping.sizes == 2)).all()


class Huge:
    """Loads the models of an ensemble, those of groups of two blown up."""

    def __init__(self, ensemble):
        owners = ensemble.owners()
        self.large = {key for key, group in owners.items() if ensemble.grouping.sizes[group] == 2}
        self.ensemble = ensemble

    def __call__(self, key):
        arrays = self.ensemble.load(key)
        return {name: array * np.float32(1e9) for name, array in arrays.items()} if key in self.large else arrays


def test_groups_that_cannot_vote_on_stamped_inputs_count_as_failed_in_an_attack_s_figures(runs, tmp_path):
    attack = {"name": "backdoor", "malicious": 3, "options": {"trigger": "tests.touchy:blaze", "target": 0}}
    made = run(config(ON_BRIGHT_INPUTS, attack=attack), tmp_path / "run", engine=Inline(), store=Store(tmp_path / "c"))
    figures, truth = made.summary.attack, RunDirectory.open(made.directory).array("truth")
    stamped = np.ones((len(truth), 64), dtype=np.float32)
    evidence = open_ensemble(runs[ON_BRIGHT_INPUTS]).evidence(stamped)
    assert (evidence.votes == -1).sum() == 4 * len(truth)
    spared, charged = (
        certify.disjoint(evidence.counts, num_failed=number, num_groups=8, num_clients=20) for number in (0, 4)
    )
    assert figures.certified_accuracy_on_stamped_inputs == tuple(certify.certified_accuracy(charged, truth))
    assert figures.certified_accuracy_on_stamped_inputs != tuple(certify.certified_accuracy(spared, truth))
    assert figures.certified_changed == 0


def test_a_figure_of_the_paper_charges_them_as_a_run_does(runs, tmp_path):
    data = {"name": "digits", "options": {"num_clients": 28}}  # the groups of FLCert-P have four clients, none two
    settings = config(ALWAYS, data=data, grouping={"kind": "hashed", "num_groups": 8})
    made = run(settings, tmp_path / "run", engine=Inline(), store=Store(tmp_path / "cache"))
    facts = [group.failure for group in RunDirectory.open(made.directory).manifest().groups]
    assert any(facts)
    request = Request("groups", settings, "touchy", Options(groups=(8,)))
    figure = reproduce(request, Site(tmp_path / "figure", Inline(), Store(tmp_path / "cache")))
    with figure.table.open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["method"] == "FLCert-D"]
    assert [float(row["certified_accuracy"]) for row in rows] == pytest.approx(made.summary.certified_accuracy)
    failed = [group for group, reason in enumerate(facts) if reason]
    assert f"FLCert-D: {len(failed)} of 8 groups failed; group {failed[0]}: {REASON}" in figure.failed


def test_a_group_that_raises_on_an_input_is_counted_as_failed_there_and_nowhere_else(runs, flcert, tmp_path):
    directory = runs[ON_BRIGHT_INPUTS]
    assert directory.guarantee().num_failed == 0
    np.save(tmp_path / "inputs.npy", np.concatenate([DIM, BRIGHT, DIM]))
    told = json.loads(flcert("predict", directory.path, "inputs.npy", "--json").out)
    assert [sum(votes.values()) for votes in told["votes"]] == [8, 4, 8]
    counts = [[votes.get(str(label), 0) for label in range(10)] for votes in told["votes"]]
    plain, charged = (certify.disjoint(counts, num_failed=f, num_groups=8, num_clients=20) for f in (0, 4))
    assert told["levels"] == [plain.levels[0], charged.levels[1], plain.levels[2]]
    assert told["abstained"] == [plain.abstained[0], charged.abstained[1], plain.abstained[2]]
    for row, inputs in enumerate((DIM, BRIGHT)):
        np.save(tmp_path / "inputs.npy", inputs)
        alone = json.loads(flcert("predict", directory.path, "inputs.npy", "--json").out)
        assert [told[name][row] for name in ("labels", "levels", "votes")] == [
            alone[name][0] for name in ("labels", "levels", "votes")
        ]


def test_the_service_counts_it_as_failed_there_too(runs):
    service = Service(runs[ON_BRIGHT_INPUTS])
    dim, bright = service.predict(np.concatenate([DIM, BRIGHT]))["predictions"]
    assert (sum(dim["votes"].values()), sum(bright["votes"].values())) == (8, 4)
    (counts,) = [[bright["votes"].get(str(label), 0) for label in range(10)]]
    expected = certify.disjoint([counts], num_failed=4, num_groups=8, num_clients=20)
    assert (bright["level"], bright["abstained"]) == (expected.levels[0], expected.abstained[0])
    evidence = open_ensemble(runs[ON_BRIGHT_INPUTS]).evidence(BRIGHT)
    spared, charged = (service.guarantee.with_failed(number).takeover(evidence, 0) for number in (0, 4))
    assert bright["takeover"] == charged != spared


def test_an_input_that_no_model_can_read_is_the_input_s_fault(runs, tmp_path):
    ensemble = open_ensemble(runs[ALWAYS])
    mute = ensemble.without({group: "failed" for group, key in ensemble.model_keys().items() if group != 0})
    assert mute.votes(DIM).shape == (8, 1)
    every = open_ensemble(runs[ON_BRIGHT_INPUTS])
    sizes = every.grouping.sizes
    large = every.without({group: "failed" for group in every.model_keys() if sizes[group] != 2})
    with pytest.raises(InputError, match=r"the models cannot read these inputs \(row 1\): ValueError"):
        large.votes(np.concatenate([DIM, BRIGHT]))


def test_what_a_model_draws_when_it_votes_depends_on_no_other_model():
    federation = load("digits", num_clients=14, num_test=60)
    recipe = Recipe(model="tests.touchy:Tossing")
    arrays = {**state_arrays(initial_module(recipe, (64,), 10)), "learnt": np.full(1, 100, dtype=np.float32)}
    tables = []
    for before in (1, 2):
        torch.manual_seed(before)
        voters = (Voter(recipe, arrays), Voter(recipe, arrays))
        tables.append([answer["votes"] for answer in vote_on_test_set(federation, VoteTask(voters)).values()])
    assert len(np.unique(tables[0][0])) > 5
    assert all(np.array_equal(votes, tables[0][0]) for table in tables for votes in table)
