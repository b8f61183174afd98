"""The most valuable tests: corrupt one group any way you like, all other models keep their bytes."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from flcert.core.settings import Choice
from flcert.core.store import Store
from flcert.datasets import Federation
from flcert.engines import Inline, Processes, Workers
from flcert.errors import InputError
from flcert.grouping import hashed
from flcert.training import Recipe, train
from flcert.training.context import Context
from flcert.training.panel import panel
from flcert.training.train import train_groups
from flcert.training.votes import votes_on_test_set
from tests.saboteur import MODE, VICTIM_SIZE

RECIPE = Recipe(
    rounds=2,
    local_steps=2,
    model=Choice(name="tests.noisy_net:NoisyNet"),
    aggregator=Choice(name="tests.saboteur:aggregator"),
)
VICTIM = "user-03"
ENGINES = {"inline": Inline(), "one worker": Processes(1), "two workers": Processes(2)}


def build(victim_inputs=None):
    """Twelve clients with random data; what the victim holds can be replaced."""
    rng = np.random.default_rng(0)
    clients = {}
    for number in range(12):
        size = VICTIM_SIZE if f"user-{number:02d}" == VICTIM else 20
        inputs = rng.normal(size=(size, 16)).astype(np.float32)
        clients[f"user-{number:02d}"] = (inputs, rng.integers(0, 3, size))
    if victim_inputs is not None:
        inputs, labels = clients[VICTIM]
        clients[VICTIM] = (np.full_like(inputs, victim_inputs), labels[::-1].copy())
    test = (rng.normal(size=(10, 16)).astype(np.float32), rng.integers(0, 3, 10))
    return Federation.build("random", clients, test, num_labels=3)


FEDERATION = build()
GROUPING = hashed(FEDERATION.ids, num_groups=5)
VICTIM_GROUP = next(g for g, members in enumerate(GROUPING.members) if FEDERATION.ids.index(VICTIM) in members)


def model_files(federation, store, engine, grouping=GROUPING, recipe=RECIPE):
    """The bytes of every group's model file, None for a group without one; and the ensemble."""
    ensemble = train(federation, grouping, recipe, engine=engine, store=store)
    files = [store.path(keys[recipe.rounds]).read_bytes() if keys else None for keys in ensemble.keys]
    return files, ensemble


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    files, _ = model_files(FEDERATION, Store(tmp_path_factory.mktemp("untouched")), Inline())
    assert sum(file is not None for file in files) >= 4
    return files


def check_others(files, untouched):
    others = [g for g in range(len(GROUPING)) if g != VICTIM_GROUP]
    assert [files[g] for g in others] == [untouched[g] for g in others]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_trains_the_same_bytes(engine, store, untouched):
    assert model_files(FEDERATION, store, ENGINES[engine])[0] == untouched


@pytest.mark.parametrize(
    ("engine", "value"),
    [*(("inline", value) for value in (0.0, 1e38, -1e38, 1e-40)), ("two workers", 0.0), ("two workers", 1e38)],
)
def test_whatever_a_client_holds_other_groups_keep_their_bytes(engine, value, store, untouched):
    files, _ = model_files(build(victim_inputs=value), store, ENGINES[engine])
    assert files[VICTIM_GROUP] != untouched[VICTIM_GROUP]
    check_others(files, untouched)


@pytest.mark.parametrize(
    ("engine", "update"),
    [
        *(("inline", update) for update in ("nan", "inf", "-inf", "1e30")),
        ("one worker", "nan"),
        ("two workers", "nan"),
        ("two workers", "1e30"),
    ],
)
def test_whatever_a_group_is_sent_other_groups_keep_their_bytes(engine, update, store, untouched, monkeypatch):
    monkeypatch.setenv(MODE, update)
    files, ensemble = model_files(FEDERATION, store, ENGINES[engine])
    assert files[VICTIM_GROUP] != untouched[VICTIM_GROUP]
    assert not ensemble.failures
    check_others(files, untouched)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_group_that_raises_fails_alone(engine, store, untouched, monkeypatch):
    monkeypatch.setenv(MODE, "raise")
    files, ensemble = model_files(FEDERATION, store, ENGINES[engine])
    assert ensemble.failures == {VICTIM_GROUP: "RuntimeError: sabotage"}
    check_others(files, untouched)


@pytest.mark.parametrize("engine", [pytest.param("one worker", marks=pytest.mark.slow), "two workers"])
def test_a_group_that_kills_its_worker_fails_alone_and_is_trained_when_it_behaves(
    engine, store, untouched, monkeypatch
):
    monkeypatch.setenv(MODE, "crash")
    files, ensemble = model_files(FEDERATION, store, ENGINES[engine])
    assert ensemble.failures == {VICTIM_GROUP: "its worker process died 3 times"}
    check_others(files, untouched)
    monkeypatch.delenv(MODE)
    files, ensemble = model_files(FEDERATION, store, Inline())
    assert files == untouched
    assert (ensemble.trained, ensemble.failures) == (1, {})


def test_the_order_of_work_does_not_matter(store, untouched):
    backwards = replace(GROUPING, members=GROUPING.members[::-1])
    files, _ = model_files(FEDERATION, store, Inline(), backwards)
    assert files[::-1] == untouched


def test_a_warm_cache_does_not_matter(store, untouched):
    model_files(build(victim_inputs=5.0), store, Inline())
    files, ensemble = model_files(FEDERATION, store, Inline())
    assert files == untouched
    assert ensemble.trained == 1  # the victim's data changed, and nothing else


def build_with_defaults(victim):
    """Clients and test set as a user would hand them over, with nothing said about labels or types."""
    rng = np.random.default_rng(0)
    clients = {f"user-{i:02d}": (rng.normal(size=(20, 16)), rng.integers(0, 3, 20)) for i in range(12)}
    test = (rng.normal(size=(10, 16)), np.array([0, 1, 2] * 3 + [0]))
    return Federation.build("defaults", {**clients, VICTIM: victim(*clients[VICTIM])}, test)


@pytest.mark.parametrize(
    "victim",
    [
        lambda inputs, labels: (inputs, np.zeros_like(labels)),
        lambda inputs, labels: (inputs[:1], labels[:1]),
        lambda inputs, labels: (np.vstack([inputs] * 9), np.concatenate([labels] * 9)),
        lambda inputs, labels: (inputs.astype(np.float16), labels.astype(np.uint8)),
        lambda inputs, labels: (inputs.astype(np.longdouble), labels.astype(np.uint64)),
    ],
    ids=["one label", "one example", "many examples", "narrow types", "wide types"],
)
def test_labels_sizes_and_types_of_a_client_do_not_reach_other_groups(victim, store):
    honest, _ = model_files(build_with_defaults(lambda *data: data), store, Inline())
    files, _ = model_files(build_with_defaults(victim), store, Inline())
    others = [g for g in range(len(GROUPING)) if g != VICTIM_GROUP]
    assert [files[g] for g in others] == [honest[g] for g in others]


def test_a_label_that_the_test_set_does_not_know_is_refused_instead_of_widening_every_model():
    with pytest.raises(InputError, match=r"labels must be in \[0, 2\], got 7 from client 'user-03'"):
        build_with_defaults(lambda inputs, labels: (inputs, np.full_like(labels, 7)))


@pytest.mark.parametrize("engine", [Inline(), Processes(1)], ids=lambda engine: type(engine).__name__)
def test_the_memory_layout_of_a_client_s_arrays_reaches_nobody(engine, tmp_path):
    """Convolutions round differently for pictures whose channels come last in memory."""

    def models(*, victim_contiguous):
        rng = np.random.default_rng(0)
        clients = {}
        for i in range(6):
            images = rng.random((20, 16, 16, 3), dtype=np.float32).transpose(0, 3, 1, 2)
            contiguous = np.ascontiguousarray(images) if victim_contiguous and i == 3 else images
            clients[f"user-{i}"] = (contiguous, rng.integers(0, 3, 20))
        federation = Federation.build("pictures", clients, clients["user-0"])
        recipe = Recipe(rounds=2, model=Choice(name="tests.noisy_net:plain_convolutions"))
        store = Store(tmp_path / f"{victim_contiguous}-{type(engine).__name__}")
        ensemble = train(federation, hashed(federation.ids, 3), recipe, engine=engine, store=store)
        assert not ensemble.failures
        return {group: store.path(key).read_bytes() for group, key in ensemble.model_keys().items()}

    assert models(victim_contiguous=False) == models(victim_contiguous=True)


def test_tokens_of_one_client_do_not_change_the_type_of_another_s():
    tokens = {"ann": (np.array([[2**24 + 1]]), np.array([0])), "bob": (np.array([[1]], dtype=np.uint64), np.array([1]))}
    federation = Federation.build("tokens", tokens, (np.array([[3]]), np.array([1])))
    assert federation.inputs.dtype == np.int64
    assert federation.client(0)[0][0, 0] == 2**24 + 1


def test_votes_do_not_depend_on_the_engine_the_order_or_what_voted_before(store):
    with Workers(Processes(1), FEDERATION) as workers:
        ensemble = train_groups(Context(workers, store), GROUPING, RECIPE)
        voted = votes_on_test_set(Context(workers, store), ensemble)
    assert np.array_equal(voted, ensemble.votes(FEDERATION.test_inputs))
    assert np.array_equal(voted, ensemble.votes(FEDERATION.test_inputs))
    for group, key in ensemble.model_keys().items():
        alone = panel([ensemble.voter(group, key)], FEDERATION.input_shape, FEDERATION.num_labels)
        assert np.array_equal(voted[group], alone.votes(FEDERATION.test_inputs)[0])


def test_votes_on_one_test_set_are_not_taken_for_those_on_another(store):
    other = replace(FEDERATION, test_inputs=-FEDERATION.test_inputs)
    for federation in (FEDERATION, other):
        with Workers(Inline(), federation) as workers:
            ensemble = train_groups(Context(workers, store), GROUPING, RECIPE)
            voted = votes_on_test_set(Context(workers, store), ensemble)
        assert np.array_equal(voted, ensemble.votes(federation.test_inputs))


def test_a_task_that_ran_out_of_memory_beside_another_gets_another_chance(tmp_path):
    marker = tmp_path / "failed once"
    with Workers(Inline(), FEDERATION) as workers:
        (result,) = workers.completed(fails_the_first_time, [lambda: marker])
    assert result == (0, "done")


def fails_the_first_time(federation, marker):
    if not marker.exists():
        marker.touch()
        raise MemoryError
    return "done"


def test_a_change_that_does_cross_groups_is_noticed_by_these_tests(untouched, store):
    files, _ = model_files(FEDERATION, store, Inline(), recipe=RECIPE.model_copy(update={"seed": 1}))
    with pytest.raises(AssertionError):
        check_others(files, untouched)


def test_training_leaves_the_caller_s_random_generators_alone(store):
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    model_files(FEDERATION, store, Inline())
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_told_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import flcert\nflcert.run(flcert.Config())\n")
    result = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={**os.environ, "FLCERT_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 1
    assert "must do so under `if __name__ == '__main__':`" in result.stderr.splitlines()[-1]
