"""Real processes, really killed: nothing finished is lost, and the result has the same bytes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from flcert.engines.processes import without_interrupts

COMMAND = [
    *(sys.executable, "-c", "from flcert.cli.main import main; main()"),
    *("run", "--clients", "40", "--groups", "12", "--rounds", "25", "--workers", "2", "--json", "--out", "run"),
]


def start(directory):
    environment = {**os.environ, "FLCERT_CACHE": str(directory / "cache")}
    return subprocess.Popen(
        COMMAND, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(directory):
    process = start(directory)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    return json.loads(out)


def stored(directory):
    return len(list((directory / "cache" / "store").glob("*/*.safetensors")))


def wait_until(condition, seconds=200):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def contents(directory):
    return {
        str(file.relative_to(directory)): file.read_bytes() for file in sorted(directory.rglob("*")) if file.is_file()
    }


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    directory = tmp_path_factory.mktemp("uninterrupted")
    result = finish(directory)
    return result, contents(directory / "run")


def test_a_run_killed_in_the_middle_of_training_goes_on_to_the_same_bytes(tmp_path, uninterrupted):
    process = start(tmp_path)
    wait_until(lambda: stored(tmp_path) >= 2)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not any(worker.is_running() and worker.status() != "zombie" for worker in workers), 20)
    kept = stored(tmp_path)
    assert 2 <= kept < uninterrupted[0]["groups"]["trained"]
    result = finish(tmp_path)
    assert result["groups"]["reused"] == kept
    assert result["groups"]["trained"] + kept == uninterrupted[0]["groups"]["trained"]
    assert contents(tmp_path / "run") == uninterrupted[1]


def test_ctrl_c_stops_at_once_keeps_what_is_finished_and_says_so(tmp_path, uninterrupted):
    process = start(tmp_path)
    wait_until(lambda: stored(tmp_path) >= 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on from there" in err
    assert "Traceback" not in err
    assert finish(tmp_path)["groups"]["reused"] >= 2
    assert contents(tmp_path / "run") == uninterrupted[1]


def test_a_worker_that_is_killed_is_replaced(tmp_path, uninterrupted):
    process = start(tmp_path)
    wait_until(lambda: stored(tmp_path) >= 1)
    busiest = max(psutil.Process(process.pid).children(), key=lambda child: child.cpu_times().user)
    busiest.kill()
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    assert json.loads(out)["groups"]["trained"] == uninterrupted[0]["groups"]["trained"]
    assert contents(tmp_path / "run") == uninterrupted[1]


def test_ctrl_c_is_held_back_although_another_thread_takes_it():
    finished, steps = threading.Event(), []
    other = threading.Thread(target=finished.wait)
    other.start()

    def interrupted():
        with without_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)
            steps.append("after")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    finished.set()
    other.join()
    assert steps == ["after"]


def test_ctrl_c_while_workers_start_reaches_the_command_alone(tmp_path):
    """The terminal sends it to the whole process group; workers that import torch must not print tracebacks."""
    environment = {**os.environ, "FLCERT_CACHE": str(tmp_path / "cache")}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(COMMAND, cwd=tmp_path, env=environment, start_new_session=True, **streams)
    wait_until(lambda: len(psutil.Process(process.pid).children()) >= 3)  # two workers and a resource tracker
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "stopped; what was finished is kept" in err
