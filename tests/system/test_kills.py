"""A command that was killed before any one of its file operations ends with the same bytes when it is run again."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flcert.core.store import Store
from flcert.engines import Inline
from flcert.pipeline.run import run
from flcert.runs.config import load_config
from flcert.runs.directory import RunDirectory

SETTINGS = ("data.options.num_clients=6", "data.options.num_test=20", "grouping.num_groups=2", "recipe.rounds=1")
COMMANDS = {
    "run": f"run {' '.join(f'--set {one}' for one in SETTINGS)} --engine inline -q --out run",
    "forget": "forget run client-0001 --engine inline -q",
    "compress": "compress run --dtype float16 --engine inline -q",
}


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """The directory that each command starts in."""
    place = tmp_path_factory.mktemp("states")
    (place / "empty").mkdir()
    run(load_config(None, SETTINGS), place / "done" / "run", engine=Inline(), store=Store(place / "done" / "cache"))
    return {"run": place / "empty", "forget": place / "done", "compress": place / "done"}


def check(states, name, *options):
    command = [sys.executable, "-m", "tests.system.killing", states[name], COMMANDS[name], *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert len(outcomes) > 50
    for at, outcome in enumerate(outcomes):
        assert outcome == {**outcome, "killed": True, "code": 0, "different": [], "left": []}, at


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_before_any_file_operation_and_run_again_it_ends_with_the_same_bytes(states, name):
    check(states, name)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_with_the_pictures_drawn(states, name):
    check(states, name, "--draw")


def test_commands_that_start_at_once_in_one_directory_do_not_refuse_each_other(tmp_path):
    config = load_config(None, SETTINGS)
    with ThreadPoolExecutor(8) as pool:
        for number in range(50):
            claims = [pool.submit(RunDirectory.claim, tmp_path / str(number), config) for _ in range(8)]
            assert all(claim.result().holds(config) for claim in claims)


def test_of_two_configurations_that_claim_a_directory_at_once_one_is_refused(tmp_path):
    configs = [load_config(None, [*SETTINGS, f"recipe.seed={seed}"]) for seed in range(2)]
    with ThreadPoolExecutor(2) as pool:
        for number in range(50):
            claims = [pool.submit(RunDirectory.claim, tmp_path / str(number), config) for config in configs]
            kept = [claim.exception() is None for claim in claims]
            assert sorted(kept) == [False, True]
            assert RunDirectory(tmp_path / str(number)).holds(configs[kept.index(True)])


def test_what_a_killed_command_left_in_a_directory_does_not_make_it_somebody_else_s(tmp_path):
    config = load_config(None, SETTINGS)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / f".config.json.{'0' * 12}-1-{'0' * 32}.tmp").write_text("{")
    assert RunDirectory.claim(tmp_path / "run", config).holds(config)
