"""A small federation of the example's app in this process, with malicious clients where a test wants them."""

import logging
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
NUM_CLIENTS, NUM_GROUPS = 9, 4

sys.path.insert(0, str(EXAMPLE))


@pytest.fixture(autouse=True)
def quick(request, monkeypatch):
    """No figures, except where they are tested: they take longer than all the training."""
    logging.getLogger("flwr").setLevel(logging.WARNING)
    if not request.module.__name__.endswith("test_commands"):
        monkeypatch.setattr("flcert.report.page.write_report", lambda _: None)


@pytest.fixture
def settings():
    """The run configuration of the example, made small."""
    example = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    return {**example, "num-clients": NUM_CLIENTS, "num-groups": NUM_GROUPS, "num-rounds": 3, "local-steps": 2}


@pytest.fixture
def network(settings):
    """A grid of the example's clients; ``faults`` names what the client of a partition does."""
    from tests.flower.faulty_client import app
    from tests.flower.local_grid import LocalGrid

    def build(faults=None, kind=LocalGrid, **options):
        nodes = [{"partition-id": part, "fault": (faults or {}).get(part, "")} for part in range(NUM_CLIENTS)]
        return kind(app, settings, nodes, **options)

    return build


@pytest.fixture
def train(settings, tmp_path):
    """``flcert.flower.train`` on such a grid, with the example's settings."""
    from digits_app.task import federation, recipe

    from flcert import flower

    data = federation(NUM_CLIENTS)
    standard = {
        "registered": NUM_CLIENTS,
        "users": flower.by_query(),
        "recipe": recipe(settings),
        "inputs": data.test_inputs[:60],
        "labels": data.test_labels[:60],
        "num_labels": data.num_labels,
        "groups": NUM_GROUPS,
        "directory": tmp_path / "run",
        "timeout": 0.3,
        "wait": 0.0,
        "poll": 0.01,
    }

    def call(grid, **changes):
        """Each setting goes into the object that has it."""
        given = {**standard, **changes}
        unused = set(given)

        def made(kind, **others):
            known = {field.name for field in fields(kind)} & set(given)
            unused.difference_update(known)
            return kind(**{name: given[name] for name in known}, **others)

        clients, test, learning = made(flower.Clients), made(flower.TestSet), made(flower.Learning)
        options = made(flower.Options, timing=made(flower.Timing))
        assert unused == {"groups", "directory"}
        groups, directory = given["groups"], given["directory"]
        return flower.train(
            grid, clients, groups=groups, test=test, directory=directory, learning=learning, options=options
        )

    return call
