"""Groups that fail are charged to every certificate, wherever it is asked for."""

import json

import pytest

from flcert import certify
from flcert.core.store import Store
from flcert.datasets import load
from flcert.engines import Inline
from flcert.pipeline.run import run
from flcert.runs.config import load_config
from flcert.runs.directory import RunDirectory
from flcert.runs.guarantees import guarantee_of_run
from flcert.serve.service import Service

SETTINGS = [
    "data.options.num_clients=20",
    "grouping.num_groups=8",
    "recipe.rounds=3",
    "recipe.aggregator=tests.serve.grumpy:rule",
    "certificate.also=['runoff', 'overlapping', 'collective']",
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    place = tmp_path_factory.mktemp("failed")
    done = run(load_config(None, SETTINGS), place / "run", engine=Inline(), store=Store(place / "cache"))
    return RunDirectory.open(done.directory)


def test_further_certificates_of_a_run_charge_its_failed_groups(directory, flcert):
    failed = directory.guarantee().num_failed
    assert failed > 0
    evidence, truth, summary = directory.evidence("ranks"), directory.truth(), directory.summary()
    runoff = certify.runoff(evidence.ranks, num_failed=failed)
    expected = certify.certified_accuracy(runoff, truth).tolist()
    spared = certify.certified_accuracy(certify.runoff(evidence.ranks), truth).tolist()
    assert expected != spared
    assert list(summary.also["runoff"].certified_accuracy) == expected
    asked = json.loads(flcert("certify", directory.path, "--also", "runoff", "--json").out)
    assert asked["certified_accuracy"] == expected
    assert guarantee_of_run(directory, "runoff").num_failed == failed
    for m, inputs in summary.also["collective"].inputs.items():
        kept = certify.collective(evidence.counts, evidence.votes, truth, m, num_failed=failed)
        assert inputs == kept
    assert any(
        certify.collective(evidence.counts, evidence.votes, truth, m) != inputs
        for m, inputs in summary.also["collective"].inputs.items()
    )


def test_the_service_charges_failed_groups_under_any_certificate(directory):
    inputs = load("digits", num_clients=20).test_inputs
    evidence, failed = directory.evidence("ranks"), directory.guarantee().num_failed
    answers = Service(directory, guarantee_of_run(directory, "runoff")).predict(inputs)["predictions"]
    expected = certify.runoff(evidence.ranks, num_failed=failed)
    assert [one["level"] for one in answers] == expected.levels.tolist()
    assert [one["abstained"] for one in answers] == expected.abstained.tolist()
