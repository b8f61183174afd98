"""A run to serve, and ``flcert serve`` as a process of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from flcert.core.store import Store
from flcert.engines import Inline
from flcert.pipeline.run import run
from flcert.runs.config import load_config

DIGITS = ("data.options.num_clients=60", "grouping.num_groups=15", "recipe.rounds=8")
SAMPLED = (
    "data.options.num_clients=60",
    "grouping.kind=sampled",
    "grouping.num_groups=80",
    "grouping.group_size=4",
    "recipe.rounds=4",
)


def made(place, settings):
    """A run directory, made in this process."""
    return run(load_config(None, settings), place / "run", engine=Inline(), store=Store(place / "cache")).directory


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory):
    """Digits in disjoint groups."""
    return made(tmp_path_factory.mktemp("served"), DIGITS)


@pytest.fixture(scope="session")
def sampled_directory(tmp_path_factory):
    """Digits in sampled groups."""
    return made(tmp_path_factory.mktemp("sampled"), SAMPLED)


class Served:
    """A service that this test started."""

    def __init__(self, process, address, log):
        self.process, self.address, self.log = process, address, log

    def token(self):
        """The token that it made."""
        return re.search(r"a token, this time (\S+)", self.log.read_text()).group(1)

    def stop(self):
        """End it as a supervisor would; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


@pytest.fixture
def serving(tmp_path):
    """Start ``flcert serve`` with these arguments on a free port; it ends with the block."""

    @contextmanager
    def start(*arguments, **environment):
        log = tmp_path / f"serve-{time.monotonic_ns()}.log"
        code = "import sys; from flcert.cli.main import main; main()"
        command = [sys.executable, "-c", code, "serve", *map(str, arguments), "--port", "0"]
        environment = {**os.environ, "COLUMNS": "200", **environment}
        with log.open("w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            yield Served(process, _address(process, log), log)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(timeout=60)

    return start


def _address(process, log):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = re.search(r"on (http://\S+)", log.read_text())
        if found:
            return found.group(1)
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    raise TimeoutError(log.read_text())
