"""Flower's deployment runtime: a superlink and six supernodes on this machine, one of them malicious.

python -m pytest -m deploy tests/flower -s
"""

import pytest
from digits_app.task import federation, recipe

from flcert import training
from flcert.config import Hashed
from flcert.pipeline import open_ensemble
from flcert.rundir import RunDirectory
from tests.flower.deployment import Deployment, wait_for
from tests.flower.models import model_bytes

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1800)]

CLIENTS, GROUPS, VICTIM = 6, 3, 3  # groups {0, 1, 4}, {2} and {3, 5}
SETTINGS = {"num-rounds": 2, "local-steps": 2, "num-groups": GROUPS, "timeout": 300.0}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    running = None
    try:
        running = Deployment(tmp_path_factory.mktemp("deployment"), CLIENTS)
        yield running
    finally:
        if running:
            running.close()


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """The models of ``flcert run``."""
    from flcert.store import Store

    data, store = federation(CLIENTS), Store(tmp_path_factory.mktemp("store"))
    settings = {"learning-rate": 0.5, "batch-size": 16, "participation": 1.0, "seed": 0, **SETTINGS}
    return model_bytes(training.train(data, Hashed(num_groups=GROUPS).build(data.ids), recipe(settings), store=store))


def outcome(directory):
    """Models of a run, and why replies were dropped, by client."""
    run = RunDirectory.open(directory)
    dropped = {}
    for entry in run.manifest()["groups"]:
        for one in entry["dropped"]:
            dropped.setdefault(one["user"], []).append(one["reason"])
    return model_bytes(open_ensemble(run)), dropped


def check_others(models, honest):
    assert [models[0], models[1]] == [honest[0], honest[1]]
    assert models[2] != honest[2]


def test_a_deployment_trains_the_bytes_of_flcert_run(deployment, honest):
    models, dropped = outcome(deployment.finish(deployment.begin("honest", **SETTINGS)))
    assert dropped == {}
    assert models == honest


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("nan", "array 'layers.1.weight' is not finite"),
        ("wrong shape", "array 'layers.1.weight' must be float32 of shape (64, 64), got float32 of shape (1, 64)"),
        ("raises", "sabotage"),
        ("scaled", None),
        ("exits", ""),
    ],
)
def test_a_malicious_node_harms_its_own_group_only(fault, reason, deployment, honest):
    name = f"run-{fault.replace(' ', '-')}"
    limit = {"timeout": 60.0} if fault == "exits" else {}
    models, dropped = outcome(
        deployment.finish(deployment.begin(name, **SETTINGS, fault=fault, faulty=VICTIM, **limit))
    )
    check_others(models, honest)
    if reason is not None:
        assert set(dropped) == {"client-0003"}
        assert all(reason in told for told in dropped["client-0003"])
        assert len(dropped["client-0003"]) == SETTINGS["num-rounds"]


def test_a_node_that_is_killed_while_it_trains_harms_its_own_group_only(deployment, honest, tmp_path):
    marker = tmp_path / "training"
    run = deployment.begin("run-killed", **SETTINGS, fault="hangs", faulty=VICTIM, marker=str(marker))
    wait_for(marker.exists, 300, "the client that trains")
    deployment.kill(VICTIM)
    models, dropped = outcome(deployment.finish(run))
    check_others(models, honest)
    assert set(dropped) == {"client-0003"}
    deployment.start_node(VICTIM)


def test_a_node_that_hangs_is_dropped_at_the_timeout_and_harms_its_own_group_only(deployment, honest):
    settings = {**SETTINGS, "timeout": 90.0}
    models, dropped = outcome(
        deployment.finish(deployment.begin("run-hangs", **settings, fault="hangs", faulty=VICTIM))
    )
    check_others(models, honest)
    assert dropped == {"client-0003": ["no reply within 90 seconds"] * 2}
