"""The commands of the example's README run as they are printed, on other ports.

python -m pytest -m deploy -n 0 tests/flower/test_example.py
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from digits_app.task import federation

from flcert import Recipe, training
from flcert.grouping import Hashed
from flcert.runs.directory import RunDirectory
from flcert.runs.ensemble import open_ensemble
from tests.flower.conftest import EXAMPLE
from tests.flower.deployment import free_port
from tests.flower.models import model_bytes

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(1800)]

README = (EXAMPLE / "README.md").read_text()
PARTS = {
    "Simulation": "runs/flower",
    "Deployment on this machine": "runs/deployment",
    "TLS and node authentication": "runs/tls",
}


def commands(title):
    """What is printed under a heading, with ports that nobody uses."""
    part = README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    text = "".join(re.findall(r"```sh\n(.*?)```", part, flags=re.DOTALL))
    assert "18000" in text
    return text.replace("18000", str(free_port())).replace("18010", str(free_port()))


def checks(directory):
    """The commands for a run directory."""
    assert "flcert certify runs/flower\nflcert report runs/flower\n" in README
    return f"flcert certify {directory}\nflcert report {directory}\n"


def call(script, directory):
    """Run a script in a shell with jobs; none of them outlives it."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "PATH": programs}
    script = f"trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n{script}"
    options = {"cwd": directory, "env": {**os.environ, **quiet}, "stdin": subprocess.DEVNULL}
    with subprocess.Popen(["bash", "-ec", script], **options) as shell:
        try:
            assert shell.wait(900) == 0
        finally:
            if shell.poll() is None:
                for process in [*psutil.Process(shell.pid).children(recursive=True), shell]:
                    process.kill()


@pytest.mark.parametrize("title", PARTS)
def test_the_commands_of_the_example_end_in_the_models_of_flcert_run(title, tmp_path, store):
    if title == "Simulation":
        pytest.importorskip("ray")
    left_behind = shutil.ignore_patterns("runs", ".*", "__pycache__", "node*", "state.db*")
    app = shutil.copytree(EXAMPLE, tmp_path / "flower", ignore=left_behind)
    call(commands(title) + checks(PARTS[title]), app)
    data = federation(6)
    honest = training.train(data, Hashed(num_groups=3).build(data.ids), Recipe(rounds=3), store=store)
    assert model_bytes(open_ensemble(RunDirectory.open(app / PARTS[title]))) == model_bytes(honest)
