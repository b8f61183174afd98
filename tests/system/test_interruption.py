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

from flcert.datasets import load
from flcert.engines import Processes, Workers
from flcert.engines.processes import without_interrupts
from flcert.engines.scratch import scratch_directory

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


def start_with_scratch(directory, *options, **more):
    """The command, with a temporary directory of its own."""
    (directory / "scratch").mkdir(exist_ok=True)
    environment = {**os.environ, "FLCERT_CACHE": str(directory / "cache"), "TMPDIR": str(directory / "scratch")}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [*COMMAND, *options], cwd=directory, env=environment, start_new_session=True, **streams, **more
    )


def copies(directory):
    """The copies of the clients' data."""
    return [path for path in (directory / "scratch").rglob("*") if path.name == "inputs.npy"]


def alive(process):
    return process.is_running() and process.status() != "zombie"


@pytest.mark.parametrize("whom", ["the command", "the whole group"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_stop_the_command_as_ctrl_c_does(tmp_path, number, whom):
    """A scheduler of jobs, or a terminal that hangs up, also tells the workers."""
    process = start_with_scratch(tmp_path)
    wait_until(lambda: stored(tmp_path) >= 1)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(copies(tmp_path)) == 1
    (os.kill if whom == "the command" else os.killpg)(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert [line for line in err.splitlines() if line.strip()][-1].startswith("stopped; what was finished is kept")
    assert "Traceback" not in err
    assert "resource_tracker" not in err
    assert list((tmp_path / "scratch").iterdir()) == []
    wait_until(lambda: not any(alive(worker) for worker in workers), 20)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_a_local_cluster_leaves_no_data_either(tmp_path, number):
    process = start_with_scratch(tmp_path, "--engine", "dask")
    wait_until(lambda: stored(tmp_path) >= 1)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(copies(tmp_path)) == 2
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in err
    assert copies(tmp_path) == []
    wait_until(lambda: not any(alive(worker) for worker in workers), 20)


def test_a_signal_that_is_ignored_as_with_nohup_stays_so(tmp_path):
    ignored = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    process = start_with_scratch(tmp_path, **ignored)
    wait_until(lambda: stored(tmp_path) >= 1)
    os.killpg(process.pid, signal.SIGHUP)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 0, err


def test_a_second_signal_does_not_disturb_the_cleaning_up_after_the_first(tmp_path):
    process = start_with_scratch(tmp_path)
    wait_until(lambda: stored(tmp_path) >= 1)
    while process.poll() is None:  # until the last moment of the process
        process.send_signal(signal.SIGTERM)
        time.sleep(0.003)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert copies(tmp_path) == []


def test_the_copy_of_the_data_is_for_its_owner_only(tmp_path):
    process = start_with_scratch(tmp_path)
    wait_until(lambda: copies(tmp_path))
    assert copies(tmp_path)[0].parent.stat().st_mode & 0o777 == 0o700
    process.terminate()
    process.communicate(timeout=60)


def test_workers_delete_the_data_of_a_command_that_was_killed(tmp_path):
    process = start_with_scratch(tmp_path)
    wait_until(lambda: stored(tmp_path) >= 1)
    process.kill()
    process.communicate()
    wait_until(lambda: not copies(tmp_path), 20)


@pytest.mark.parametrize("engine", ["processes", pytest.param("dask", marks=pytest.mark.slow)])
def test_the_next_command_deletes_the_data_of_one_that_was_killed_with_its_workers(tmp_path, engine):
    process = start_with_scratch(tmp_path, "--engine", engine)
    wait_until(lambda: stored(tmp_path) >= 1)
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for one in family:
        one.suspend()  # so that none can act on the death of another
    for one in family:
        one.kill()
    process.communicate()
    assert copies(tmp_path)
    with Workers(Processes(1), load("digits", num_clients=4)) as workers, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
        assert [result for _, result in workers.completed(num_clients, [lambda: None])] == [4]
        assert len(copies(tmp_path)) == 1
    assert copies(tmp_path) == []


def num_clients(federation, _):
    return len(federation.ids)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_are_held_back_too_while_workers_start(number):
    steps = []

    def handler(*_):
        raise KeyboardInterrupt

    def interrupted():
        with without_interrupts():
            os.kill(os.getpid(), number)
            time.sleep(0.2)
            steps.append("after")

    before = signal.signal(number, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(number, before)
    assert steps == ["after"]


def test_a_copy_in_use_shows_signs_of_life(tmp_path, monkeypatch):
    """Another machine that shares the temporary directory takes old ones for left over."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("flcert.engines.scratch.FRESH", 0.05)
    with scratch_directory() as directory:
        os.utime(directory, (0, 0))
        wait_until(lambda: directory.stat().st_mtime > 0, 20)
