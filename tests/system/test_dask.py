"""The Dask engine on a real scheduler with real workers on loopback, some of which are killed."""

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from distributed import Client

from flcert.core.store import Store
from flcert.dask_worker.child import Child, UnfitWorkerError
from flcert.dask_worker.facts import facts
from flcert.dask_worker.holder import Holder
from flcert.engines import Dask, Processes, Workers
from flcert.errors import RunError
from flcert.training import Recipe
from tests.dask_cluster import running, set_variable, wait_until
from tests.saboteur import MODE
from tests.system.test_interruption import contents
from tests.system.test_isolation import FEDERATION, VICTIM_GROUP, build, check_others, model_files

FLCERT = (sys.executable, "-c", "from flcert.cli.main import main; main()")
SETTING = ("--clients", "40", "--groups", "12", "--rounds", "15", "--json", "--out", "run")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with running(tmp_path_factory.mktemp("cluster"), num_workers=2) as cluster:
        with Client(cluster.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=100)
        yield cluster


@pytest.fixture
def engine(cluster):
    return Dask(scheduler=cluster.address)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    return model_files(FEDERATION, Store(tmp_path_factory.mktemp("untouched")), Processes(2))[0]


@contextmanager
def sabotage(cluster, mode):
    """Have the workers' aggregator turn on one group."""
    with Client(cluster.address, set_as_default=False) as client:
        client.run(set_variable, MODE, mode)
        yield
        client.run(set_variable, MODE, "")


def test_the_models_are_the_same_bytes_as_from_processes(engine, store, untouched):
    assert model_files(FEDERATION, store, engine)[0] == untouched


@pytest.mark.parametrize("value", [0.0, 1e38])
def test_whatever_a_client_holds_other_groups_keep_their_bytes(engine, value, store, untouched):
    files, _ = model_files(build(victim_inputs=value), store, engine)
    assert files[VICTIM_GROUP] != untouched[VICTIM_GROUP]
    check_others(files, untouched)


@pytest.mark.parametrize("value", [None, 0.0, 1e38])
def test_heads_on_public_features_are_the_same_bytes(engine, value, tmp_path):
    function = {"name": "tests.own_features:Doubled", "copies": 2, "augmentation": "tests.own_features:jitter"}
    recipe = Recipe(model="linear", rounds=2, features=function)
    here, _ = model_files(FEDERATION, Store(tmp_path / "here"), Processes(2), recipe=recipe)
    there, _ = model_files(build(victim_inputs=value), Store(tmp_path / "there"), engine, recipe=recipe)
    assert (there[VICTIM_GROUP] == here[VICTIM_GROUP]) == (value is None)
    check_others(there, here)


@pytest.mark.parametrize("update", ["nan", "1e30"])
def test_whatever_a_group_is_sent_other_groups_keep_their_bytes(cluster, engine, update, store, untouched):
    with sabotage(cluster, update):
        files, ensemble = model_files(FEDERATION, store, engine)
    assert not ensemble.failures
    assert files[VICTIM_GROUP] != untouched[VICTIM_GROUP]
    check_others(files, untouched)


def test_a_group_that_raises_fails_alone(cluster, engine, store, untouched):
    with sabotage(cluster, "raise"):
        files, ensemble = model_files(FEDERATION, store, engine)
    assert ensemble.failures == {VICTIM_GROUP: "RuntimeError: sabotage"}
    check_others(files, untouched)


def test_a_group_that_kills_its_process_fails_alone_and_is_trained_when_it_behaves(cluster, engine, store, untouched):
    with sabotage(cluster, "crash"):
        files, ensemble = model_files(FEDERATION, store, engine)
    assert ensemble.failures == {VICTIM_GROUP: "its worker process died 3 times"}
    check_others(files, untouched)
    files, ensemble = model_files(FEDERATION, store, engine)
    assert files == untouched
    assert (ensemble.trained, ensemble.failures) == (1, {})


def look_around(federation, task):
    """Runs in a worker: who it is, and which file its data is mapped from."""
    time.sleep(0.05)
    status = Path(federation.inputs.filename).stat()
    return os.getpid(), federation.inputs.filename, status.st_ino, status.st_mtime_ns


def test_data_goes_to_each_worker_once_and_is_deleted_at_the_end(cluster, engine):
    with Workers(engine, FEDERATION) as workers:
        seen = {result for _, result in workers.completed(look_around, [lambda: None] * 30)}
        assert len(seen) == len({pid for pid, *_ in seen}) == 2
        assert all(Path(name).is_relative_to(cluster.directory) for _, name, *_ in seen)
        assert cluster.scratch()
    wait_until(lambda: not cluster.scratch())


def test_data_of_a_client_that_was_killed_is_deleted_by_the_next(cluster, engine, store):
    with Client(cluster.address, set_as_default=False) as client:
        client.register_plugin(Holder("left", FEDERATION, facts()), name="flcert-Client-that-was-killed")
        assert cluster.scratch()
    model_files(FEDERATION, store, engine)
    wait_until(lambda: not cluster.scratch())


def start_run(directory, *options):
    environment = {**os.environ, "FLCERT_CACHE": str(directory / "cache")}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*FLCERT, "run", *SETTING, *options], cwd=directory, env=environment, **streams)


def finished(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    return json.loads(out)


def alive(process):
    return process.is_running() and process.status() != "zombie"


def kill(pid):
    process = psutil.Process(pid)
    process.kill()
    process.wait(10)


def stored(directory):
    return len(list((directory / "cache" / "store").glob("*/*.safetensors")))


@pytest.fixture(scope="module")
def with_processes(tmp_path_factory):
    directory = tmp_path_factory.mktemp("with_processes")
    finished(start_run(directory, "--engine", "processes"))
    return contents(directory / "run")


def test_a_worker_killed_in_the_middle_is_survived_and_the_run_has_the_same_bytes(cluster, tmp_path, with_processes):
    process = start_run(tmp_path, "--engine", "dask", "--scheduler", cluster.address)
    wait_until(lambda: stored(tmp_path) >= 1)
    victim = cluster.worker_process(0)
    family = [victim, *victim.children()]
    assert len(family) == 2  # with the child that trains
    victim.kill()
    killed_after = stored(tmp_path)
    result = finished(process)
    assert killed_after < result["groups"]["trained"]
    wait_until(lambda: not any(alive(one) for one in family), 10)
    assert contents(tmp_path / "run") == with_processes


def test_processes_killed_in_the_middle_are_started_again_and_the_run_has_the_same_bytes(
    cluster, tmp_path, with_processes
):
    process = start_run(tmp_path, "--engine", "dask", "--scheduler", cluster.address)
    wait_until(lambda: stored(tmp_path) >= 1)
    children = [child for number in (0, 1) for child in cluster.worker_process(number).children()]
    assert len(children) == 2
    for child in children:
        child.kill()
    assert stored(tmp_path) < finished(process)["groups"]["trained"]
    assert contents(tmp_path / "run") == with_processes


def test_a_process_that_is_started_again_must_be_like_the_one_that_died(tmp_path):
    FEDERATION.save(tmp_path)
    child, work = Child(tmp_path), pickle.dumps((look_around, None))
    try:
        (first, *_), _ = pickle.loads(child.run(work))
        kill(first)
        (second, *_), _ = pickle.loads(child.run(work))
        assert second != first
        kill(second)
        child.facts = {**child.facts, "torch": "1.0"}
        with pytest.raises(
            UnfitWorkerError, match=r"changed since it was given the data: torch 2\.13.* there, 1\.0 here"
        ):
            child.run(work)
    finally:
        child.stop()


@pytest.mark.slow
def test_a_scheduler_killed_in_the_middle_is_an_error_and_the_same_command_goes_on(tmp_path, with_processes):
    with running(tmp_path / "first", num_workers=1) as cluster:
        process = start_run(tmp_path, "--engine", "dask", "--scheduler", cluster.address, "--timeout", "5", "--quiet")
        try:
            wait_until(lambda: stored(tmp_path) >= 2)
            cluster.scheduler.kill()
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 1
    assert err.startswith(f"error: cannot reach the scheduler {cluster.address} in 5 s: ")
    assert err.count("\n") == 1
    kept = stored(tmp_path)
    result = finished(start_run(tmp_path, "--engine", "processes"))
    assert result["groups"]["reused"] == kept >= 2
    assert contents(tmp_path / "run") == with_processes


def test_workers_need_neither_the_data_nor_the_code_that_reads_it(cluster, tmp_path):
    (tmp_path / "secret_data.py").write_text(
        "from pathlib import Path\n"
        "import numpy as np\n"
        "from flcert import Federation\n"
        "def load():\n"
        "    data = (np.load(Path(__file__).with_name('secret.npy')), np.array([0, 1] * 3))\n"
        "    return Federation.build('secret', {f'user-{i}': data for i in range(6)}, data)\n"
    )
    (tmp_path / "make.py").write_text("import numpy as np; np.save('secret.npy', np.eye(6, 4))")
    subprocess.run([sys.executable, "make.py"], cwd=tmp_path, check=True)
    setting = ("--set", "data=secret_data:load", "--set", "data.options={}", "--groups", "3", "--rounds", "2")
    command = [*FLCERT, "run", *setting, "--json", "--engine", "dask", "--scheduler", cluster.address]
    environment = {**os.environ, "FLCERT_CACHE": str(tmp_path / "cache")}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["groups"]["trained"] == 3


def test_a_worker_whose_processor_rounds_otherwise_is_refused(tmp_path, store):
    with running(tmp_path / "cluster", num_workers=0) as cluster:
        cluster.add_worker(ATEN_CPU_CAPABILITY="default")
        with pytest.raises(
            RunError, match=r"cannot take the data: tcp://127.0.0.1:\d+ differs: kernels \w+ DEFAULT there"
        ):
            model_files(FEDERATION, store, Dask(scheduler=cluster.address))


@pytest.mark.slow
def test_ctrl_c_stops_a_local_cluster_and_keeps_what_is_finished(tmp_path):
    environment = {**os.environ, "FLCERT_CACHE": str(tmp_path / "cache")}
    command = [*FLCERT, "run", *SETTING, "--rounds", "60", "--engine", "dask", "--workers", "2"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True, **streams)
    wait_until(lambda: stored(tmp_path) >= 2)
    family = psutil.Process(process.pid).children(recursive=True)
    listening = [one.laddr.ip for own in [psutil.Process(process.pid), *family] for one in own.net_connections()]
    assert set(listening) == {"127.0.0.1"}
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "the same command goes on from there" in err
    assert "Traceback" not in err
    wait_until(lambda: not any(alive(child) for child in family), 20)


def test_an_unreachable_scheduler_is_one_line_and_code_1(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"  # bound, but nobody listens
        start = time.monotonic()
        process = start_run(tmp_path, "--engine", "dask", "--scheduler", address, "--timeout", "2", "--quiet")
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.startswith(f"error: cannot reach the scheduler {address} in 2 s: ")
    assert err.count("\n") == 1
    assert time.monotonic() - start < 40


def test_a_cluster_with_encryption_that_is_not_configured_is_one_line(tmp_path):
    process = start_run(tmp_path, "--engine", "dask", "--scheduler", "tls://127.0.0.1:1", "--timeout", "1", "--quiet")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.startswith("error: cannot reach the scheduler tls://127.0.0.1:1 in 1 s: TLS expects")
    assert err.count("\n") == 1


def test_a_scheduler_without_workers_is_an_error(tmp_path, store):
    with running(tmp_path / "cluster", num_workers=0) as cluster:
        engine = Dask(scheduler=cluster.address, timeout=1)
        with pytest.raises(RunError, match=f"the scheduler {cluster.address} has had no worker for 1 s"):
            model_files(FEDERATION, store, engine)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scheduler", "tcp://127.0.0.1:1"), "scheduler goes with engine 'dask', got 'tcp://127.0.0.1:1' with"),
        (("--timeout", 3), "timeout goes with engine 'dask', got 3.0 with engine 'processes'"),
        (("--engine", "dask", "--timeout", 0), "timeout must be a positive number of seconds, got 0.0"),
        (("--engine", "dask", "--scheduler", "tcp://h:1", "--workers", 2), "leave out workers=2"),
        (("--engine", "dask", "--scheduler", ""), "scheduler must be an address such as tcp://host:8786, got ''"),
        (
            ("--engine", "dask", "--scheduler", "tcp://host"),
            "scheduler must be an address such as tcp://host:8786, got",
        ),
        (
            ("--engine", "dask", "--scheduler", "tcp://host:99999"),
            "scheduler must be an address such as tcp://host:8786",
        ),
        (("--engine", "dask", "--scheduler", "host:8786"), "scheduler must be an address such as tcp://host:8786, got"),
    ],
)
def test_a_mistake_gives_a_message_and_code_2(flcert, tmp_path, options, message):
    result = flcert("run", "--out", "run", *options)
    assert result.code == 2
    assert message in result.err
    assert not (tmp_path / "run").exists()


def test_a_missing_extra_is_named(flcert, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = flcert("run", "--engine", "dask")
    assert result.code == 2
    assert result.err.strip() == "error: engine 'dask' needs an extra: pip install 'flcert[dask]'"
