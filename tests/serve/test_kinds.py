"""Runs of every kind are served with the votes and levels that they recorded."""

import numpy as np
import pytest

from flcert import certify
from flcert.core.store import Store
from flcert.datasets import load
from flcert.engines import Inline
from flcert.errors import InputError
from flcert.pipeline.run import run
from flcert.runs.config import load_config
from flcert.runs.directory import RunDirectory
from flcert.runs.guarantees import guarantee_of_run
from flcert.serve.ledger import Ledger
from flcert.serve.service import Service
from tests.theory.exact import sampled

KINDS = {
    "finite aggregation": ["grouping.kind=finite-aggregation", "grouping.num_groups=8"],
    "enumerated": ["grouping.kind=enumerated", "grouping.group_size=2", "data.options.num_clients=7"],
    "compressed": ["grouping.num_groups=8", "compression=int8"],
    "smoothed": ["grouping.num_groups=4", "recipe.smoothing.copies=3", "recipe.smoothing.sigma=0.3"],
    "a model of one's own": ["grouping.num_groups=4", "recipe.model=tests.noisy_net:NoisyNet"],
    "a failed group": ["grouping.num_groups=8", "recipe.aggregator=tests.serve.grumpy:rule"],
}
INPUTS = load("digits", num_clients=20).test_inputs


def served(place, settings):
    config = load_config(None, ["data.options.num_clients=20", "recipe.rounds=2", *settings])
    done = run(config, place / "run", engine=Inline(), store=Store(place / "cache"))
    return RunDirectory.open(done.directory)


@pytest.mark.parametrize("kind", KINDS)
def test_the_service_answers_as_the_run_did(kind, tmp_path):
    directory = served(tmp_path, KINDS[kind])
    expected, votes = directory.certificate(), directory.array("votes")
    inputs = load("digits", **directory.config().data.options).test_inputs
    answer = Service(directory).predict(inputs)["predictions"]
    assert [one["level"] for one in answer] == expected.levels.tolist()
    assert [one["abstained"] for one in answer] == expected.abstained.tolist()
    assert [one["certified"] for one in answer] == (~expected.abstained).tolist()
    certain = ~expected.abstained
    assert np.array_equal(np.array([one["label"] for one in answer])[certain], expected.labels[certain])
    for position, one in enumerate(answer):
        cast = votes[:, position][votes[:, position] >= 0]
        assert one["votes"] == {str(label): int((cast == label).sum()) for label in np.unique(cast)}
    if kind == "a failed group":
        assert directory.guarantee().num_failed > 0
        for one in answer:
            assert one["abstained"] or one["level"] == min(one["takeover"].values()) - 1


def test_the_test_set_is_shown_under_the_certificate_that_is_served(sampled_directory):
    directory = RunDirectory.open(sampled_directory)
    own, other = Service(directory), Service(directory, guarantee_of_run(directory, "overlapping"))
    expected = certify.overlapping(directory.array("votes"), directory.members(), num_clients=60)
    curve = certify.certified_accuracy(expected, directory.truth())
    assert other.info()["test"]["certified_accuracy"] == curve.tolist()
    assert own.info()["test"]["certified_accuracy"] == list(directory.summary().certified_accuracy)
    for one in other.chosen_inputs():
        assert one["level"] == expected.levels[one["position"]]


def test_the_label_of_a_tie_does_not_depend_on_the_other_inputs(sampled_directory):
    service = Service(RunDirectory.open(sampled_directory))
    together = [one["label"] for one in service.predict(INPUTS)["predictions"]]
    assert together == [service.predict(one[None])["predictions"][0]["label"] for one in INPUTS]


@pytest.mark.parametrize("smoothing", [[], ["recipe.smoothing.copies=3", "recipe.smoothing.sigma=0.3"]], ids=str)
def test_inputs_that_a_model_cannot_read_change_nothing(smoothing, tmp_path):
    settings = [
        "data=tests.serve.words:load",
        "recipe.model=lstm",
        "recipe.model.options.width=8",
        "grouping.num_groups=3",
    ]
    config = load_config(None, [*settings, "recipe.rounds=1", *smoothing])
    done = run(config, tmp_path / "run", engine=Inline(), store=Store(tmp_path / "cache"))
    service = Service(RunDirectory.open(done.directory))
    before = service.predict(np.array([[1, 2, 3], [3, 2, 1]]))
    for wrong in (40, -1):
        with pytest.raises(InputError, match="cannot read these inputs"):
            service.predict(np.array([[1, 2, wrong]]))
    assert service.predict(np.array([[1, 2, 3], [3, 2, 1]])) == before


def test_a_run_off_is_served_with_the_labels_and_levels_of_the_run(tmp_path):
    directory = served(tmp_path, ["grouping.num_groups=8", "certificate.also=['runoff']"])
    expected = certify.runoff(directory.ranks())
    service = Service(directory, guarantee_of_run(directory, "runoff"))
    answer = service.predict(INPUTS)["predictions"]
    assert [one["label"] for one in answer] == expected.labels.tolist()
    assert [one["level"] for one in answer] == expected.levels.tolist()
    assert service.info()["test"]["accuracy"] == directory.summary().also["runoff"].accuracy


def test_a_certificate_of_a_whole_test_set_cannot_be_served(tmp_path):
    directory = served(tmp_path, ["grouping.num_groups=8"])
    with pytest.raises(InputError, match="'collective' certifies a test set as a whole, not an answer"):
        Service(directory, guarantee_of_run(directory, "collective"))


def test_all_predictions_that_alpha_covers_share_it(sampled_directory, tmp_path):
    """The more it covers, the lower the levels: each answer gets its part of alpha, however few are asked."""
    directory = RunDirectory.open(sampled_directory)
    levels = []
    for predictions in (len(INPUTS), 10**9):
        ledger = Ledger(tmp_path / f"{predictions}.json", "these", 0.5, predictions)
        answers = Service(directory, None, ledger).predict(INPUTS)["predictions"]
        levels.append([-1 if one["abstained"] else one["level"] for one in answers])
        counts = directory.evidence().counts
        expected = sampled(counts, num_clients=60, group_size=4, alpha=0.5, num_inputs=predictions, num_groups=80)
        assert levels[-1] == np.where(expected.abstained, -1, expected.levels).tolist()
    assert levels[0] != levels[1]
