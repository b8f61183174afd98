"""A real Dask scheduler and real workers on loopback, each a process of its own."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
PATIENCE = 100


def wait_until(condition, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


def set_variable(name, value):
    """Runs in a worker: the child processes that it starts will see this."""
    os.environ[name] = value


@dataclass
class Cluster:
    """The scheduler's process and address, and the processes of the workers."""

    directory: Path
    scheduler: subprocess.Popen
    address: str
    workers: list[subprocess.Popen] = field(default_factory=list)

    def add_worker(self, **environment):
        """A worker that a nanny starts again if it dies, in a directory of its own."""
        directory = self.directory / f"worker-{len(self.workers)}"
        directory.mkdir()
        options = ("--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard", "--local-directory", str(directory))
        self.workers.append(start("worker", self.address, *options, cwd=directory, **environment))

    def scratch(self):
        """The workers' copies of data that flcert gave them."""
        return list(self.directory.glob("worker-*/**/flcert-*"))

    def worker_process(self, number):
        """The worker itself, which its nanny started."""
        (worker,) = (
            child
            for child in psutil.Process(self.workers[number].pid).children()
            if any("spawn_main" in word for word in child.cmdline())
        )
        return worker


def start(*arguments, cwd, **environment):
    settings = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
    with (cwd / f"{arguments[0]}.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments],
            cwd=cwd,
            env={**os.environ, **settings, **environment},
            stdout=log,
            stderr=log,
        )


@contextmanager
def running(directory, num_workers):
    """A cluster; every process of it is stopped at the end."""
    directory.mkdir(exist_ok=True)
    contact = directory / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--dashboard-address", "127.0.0.1:0")
    scheduler = start("scheduler", *options, "--scheduler-file", str(contact), cwd=directory)
    cluster = Cluster(directory, scheduler, "")
    try:
        wait_until(contact.exists)
        wait_until(lambda: contact.read_text().endswith("}"))
        cluster.address = json.loads(contact.read_text())["address"]
        for _ in range(num_workers):
            cluster.add_worker()
        yield cluster
    finally:
        for process in [*cluster.workers, scheduler]:
            stop(process)


def stop(process):
    """End a process and its children."""
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.kill()
    process.wait()
    for child in family:
        if child.is_running():
            child.kill()
