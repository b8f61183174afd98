"""Flower's deployment runtime: a superlink and six supernodes on this machine, one of them malicious.

python -m pytest -m deploy -n 0 tests/flower
"""

import pytest
from digits_app.task import federation, recipe

from flcert import training
from flcert.grouping import Hashed
from flcert.runs.directory import RunDirectory
from flcert.runs.ensemble import open_ensemble
from tests.flower.deployment import Deployment, wait_for
from tests.flower.models import model_bytes

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1800)]

CLIENTS, GROUPS, VICTIM = 6, 3, 3  # groups {0, 1, 4}, {2} and {3, 5}
SETTINGS = {"num-rounds": 2, "local-steps": 2, "num-groups": GROUPS, "timeout": 300.0}
QUICK = {**SETTINGS, "num-rounds": 1, "timeout": 240.0}  # too short a timeout drops honest clients of a busy machine


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    running = Deployment(tmp_path_factory.mktemp("deployment"), CLIENTS)
    try:
        running.open()
        yield running
    finally:
        running.close()


@pytest.fixture
def honest(store):
    """The models of ``flcert run`` after a number of rounds."""

    def trained(rounds):
        data = federation(CLIENTS)
        grouping = Hashed(num_groups=GROUPS).build(data.ids)
        settings = {"learning-rate": 0.5, "batch-size": 16, "participation": 1.0, "seed": 0, **SETTINGS}
        given = recipe({**settings, "num-rounds": rounds})
        return model_bytes(training.train(data, grouping, given, store=store))

    return trained


def outcome(directory):
    """Models of a run, and why replies were dropped, by client."""
    run = RunDirectory.open(directory)
    dropped = {}
    for entry in run.manifest().groups:
        for one in entry.dropped:
            dropped.setdefault(one.user, []).append(one.reason)
    return model_bytes(open_ensemble(run)), dropped


def check_others(models, honest):
    assert [models[0], models[1]] == [honest[0], honest[1]]
    assert models[2] != honest[2]


def test_a_deployment_trains_the_bytes_of_flcert_run(deployment, honest):
    models, dropped = outcome(deployment.finish(deployment.begin("honest", **SETTINGS)))
    assert dropped == {}
    assert models == honest(2)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("nan", "array 'layers.1.weight' is not finite"),
        ("wrong shape", "array 'layers.1.weight' must be float32 of shape (64, 64), got float32 of shape (1, 64)"),
        ("raises", "sabotage"),
        ("scaled", None),
    ],
)
def test_a_malicious_node_harms_its_own_group_only(fault, reason, deployment, honest):
    run = deployment.begin(f"run-{fault.replace(' ', '-')}", **SETTINGS, fault=fault, faulty=VICTIM)
    models, dropped = outcome(deployment.finish(run))
    check_others(models, honest(2))
    if reason is not None:
        assert set(dropped) == {"client-0003"}
        assert [reason in told for told in dropped["client-0003"]] == [True, True]


@pytest.mark.parametrize("fault", ["exits", "hangs"])
def test_a_client_that_dies_or_hangs_harms_its_own_group_only(fault, deployment, honest):
    run = deployment.begin(f"run-{fault}", **QUICK, fault=fault, faulty=VICTIM)
    models, dropped = outcome(deployment.finish(run))
    check_others(models, honest(1))
    assert list(dropped) == ["client-0003"]
    if fault == "hangs":
        assert dropped["client-0003"] == ["no reply within 240 seconds"]


def test_a_node_that_is_killed_while_it_trains_harms_its_own_group_only(deployment, honest, tmp_path):
    deployment.kill(VICTIM)  # the one that still hangs
    deployment.start_node(VICTIM)
    marker = tmp_path / "training"
    run = deployment.begin("run-killed", **QUICK, fault="hangs", faulty=VICTIM, marker=str(marker))
    wait_for(marker.exists, 600, "the client that trains")
    deployment.kill(VICTIM)
    models, dropped = outcome(deployment.finish(run))
    check_others(models, honest(1))
    assert set(dropped) == {"client-0003"}
