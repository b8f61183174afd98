"""A Flower deployment of the example on this machine: one superlink, several supernodes, all of them real processes."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.flower.conftest import EXAMPLE

TESTS = Path(__file__).parent


class Deployment:
    """Processes that this test started, each the leader of a group of its own, so that it can be ended alone."""

    def __init__(self, directory, num_clients):
        self.directory, self.num_clients = directory, num_clients
        self.app = faulty_app(directory)
        self.home = directory / "home"
        self.home.mkdir()
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {
            **os.environ,
            "PATH": programs,
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "OMP_NUM_THREADS": "1",
        }
        self.processes = {}

    def open(self):
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        (self.home / "config.toml").write_text(f'[superlink.lo]\naddress = "{self.address}"\ninsecure = true\n')
        options = ["--insecure", "--host", "127.0.0.1", "--port", str(port)]
        self.start("superlink", "flower-superlink", *options, "--disable-runtime-dependency-installation")
        wait_for(lambda: listens(port), 120, "the superlink")
        for partition in range(self.num_clients):
            self.start_node(partition)

    def start_node(self, partition):
        options = ["--insecure", "--superlink", self.address, "--host", "127.0.0.1", "--port", str(free_port())]
        self.start(partition, "flower-supernode", *options, "--node-config", f"partition-id={partition}")

    def start(self, name, *command):
        log = (self.directory / f"{name}.log").open("w")
        self.processes[name] = subprocess.Popen(
            command,
            cwd=self.directory,
            env=self.environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def kill(self, name):
        """End one process that we started, with its children."""
        process = self.processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=60)

    def close(self):
        for name in list(self.processes):
            self.kill(name)

    def begin(self, name, **settings):
        """Start a run; its directory, where the result will be."""
        target = self.directory / name
        given = {"num-clients": self.num_clients, "directory": str(target), **settings}
        text = " ".join(f"{key}={json.dumps(value)}" for key, value in given.items())
        command = ["flwr", "run", str(self.app), "lo", "--run-config", text]
        result = subprocess.run(
            command, cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=300
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return target

    def finish(self, target, seconds=900):
        """Wait for the manifest, which is written when all else is there."""
        wait_for((target / "report.html").exists, seconds, f"{target}; {self.tail()}")
        return target

    def tail(self):
        return (self.directory / "superlink.log").read_text()[-3000:]


def faulty_app(directory):
    """The example with a ClientApp that misbehaves on the node that the run's configuration names."""
    app = shutil.copytree(EXAMPLE, directory / "app", ignore=shutil.ignore_patterns("runs", "__pycache__"))
    shutil.copy(TESTS / "faulty_client.py", app / "digits_app")
    project = (app / "pyproject.toml").read_text()
    project = project.replace("digits_app.client_app:app", "digits_app.faulty_client:app")
    (app / "pyproject.toml").write_text(project + 'fault = ""\nfaulty = -1\nmarker = ""\n')
    return app


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no sign of {what} after {seconds} seconds")
        time.sleep(0.5)
