"""Public knowledge over Flower: the same bytes as ``flcert run``, and clients still reach their own group only."""

import shutil

import numpy as np
import pytest
import torch
from digits_app.task import federation, recipe

from flcert import certify, flower, models, public, training
from flcert.core.settings import Choice
from flcert.core.store import Store
from flcert.errors import InputError, RunError
from flcert.features import Features
from flcert.grouping import Hashed
from flcert.public import Card, PublicModel
from flcert.public.overlap import fingerprints
from flcert.runs.directory import RunDirectory
from flcert.runs.ensemble import open_ensemble
from flcert.training.device import array
from flcert.training.trusted import TrustedModel
from tests.flower.conftest import NUM_CLIENTS, NUM_GROUPS
from tests.flower.models import group_of, model_bytes

DATA = federation(NUM_CLIENTS)
INPUTS, LABELS = DATA.test_inputs[:60], DATA.test_labels[:60]
MLP, COUNTING = Choice(name="mlp"), Choice(name="tests.flower.test_same_bytes:Counting")
COPIES = {"copies": 2, "augmentation": Choice(name="tests.own_features:jitter"), "seed": 4}
ELSEWHERE = np.random.default_rng(0).random((50, 64), dtype=np.float32)  # inputs of nobody here
VICTIM = 3


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Where clients keep their features."""
    monkeypatch.setenv("FLCERT_CACHE", str(tmp_path / "cache"))


def weights(model=MLP, seed=5):
    arrays = {name: array(value) for name, value in models.build(model, (64,), 10, seed).state_dict().items()}
    counters = {name: np.full_like(value, 7) for name, value in arrays.items() if value.dtype == np.int64}
    return arrays | counters


def written(path, model=MLP, seed=5, seen=ELSEWHERE):
    card = Card(name="toy", model=model, input_shape=(64,), num_labels=10, sources=(), training={}, held_out=0)
    public.write(path, PublicModel("toy", weights(model, seed), card, fingerprints(seen)))
    return str(path)


def dense(path, value=0.1):
    """Weights of the user's function."""
    arrays = {"dense.weight": np.full((8, 64), value, np.float32), "dense.bias": np.arange(8, dtype=np.float32)}
    public.write(path, PublicModel("dense", arrays))
    return str(path)


@pytest.fixture
def start(tmp_path):
    return written(tmp_path / "toy.safetensors")


@pytest.fixture
def given(start, settings, monkeypatch, tmp_path):
    """A recipe by its name, which the clients have too."""
    front = {"initial": start, "model": Choice(name="linear"), "features": Features(name="front", **COPIES)}
    own = Features(name="tests.own_features:Doubled", weights=dense(tmp_path / "dense.safetensors"), **COPIES)
    changes = {
        "start": {"initial": start},
        "start, seeds of groups": {"initial": start, "seeds": "per-group", "participation": 0.5},
        "start with counters": {"initial": written(tmp_path / "counting.safetensors", COUNTING), "model": COUNTING},
        "front": front,
        "own features": {"features": own},
    }

    def named(name, **more):
        made = training.Recipe.model_validate(recipe(settings).model_dump() | changes[name] | more)
        monkeypatch.setattr("digits_app.client_app.recipe", lambda _: made)
        return made

    return named


def by_flcert(given, store):
    return training.train(DATA, Hashed(num_groups=NUM_GROUPS).build(DATA.ids), given, store=store)


NAMES = ["start", "start, seeds of groups", "start with counters", "front", "own features"]


@pytest.mark.parametrize("name", NAMES)
def test_public_knowledge_means_the_same_over_flower(name, given, network, train, store):
    result, local = train(network(), recipe=given(name)), by_flcert(given(name), store)
    assert model_bytes(result.ensemble) == model_bytes(local)
    assert not result.ensemble.failures
    directory = RunDirectory.open(result.directory)
    votes = local.votes(INPUTS)
    assert (directory.array("votes") == votes).all()
    assert (open_ensemble(directory).votes(INPUTS) == votes).all()
    if name == "start with counters":
        assert result.ensemble.load(result.ensemble.model_keys()[0])["normalise.num_batches_tracked"] == 7


@pytest.mark.parametrize("fault", ["nan", "scaled", "reversed"])
@pytest.mark.parametrize("name", ["start", "front"])
def test_a_lying_client_changes_its_own_group_only(name, fault, given, network, train, tmp_path):
    honest = train(network(), recipe=given(name), directory=tmp_path / "honest").ensemble
    attacked = train(network({VICTIM: fault}), recipe=given(name)).ensemble
    before, after = model_bytes(honest), model_bytes(attacked)
    assert len([model for model in before if model]) > 2
    changed = [group for group in range(NUM_GROUPS) if before[group] != after[group]]
    assert changed == [group_of(honest, VICTIM)]


def test_the_server_computes_the_features_of_the_test_inputs_once(given, network, train, monkeypatch):
    made, asked = given("front"), []
    features = training.ensemble.features
    monkeypatch.setattr(
        "flcert.training.ensemble.features", lambda *given: asked.append(len(given[1])) or features(*given)
    )
    train(network(), recipe=made, trusted=TrustedModel(votes=2))
    assert sum(asked) == len(INPUTS)


def public_labels(seed=5):
    module = models.build(MLP, (64,), 10, 0)
    module.load_state_dict({name: torch.tensor(values) for name, values in weights(seed=seed).items()})
    with torch.no_grad():
        return module(torch.tensor(INPUTS)).argmax(dim=1).numpy()


@pytest.mark.parametrize("name", ["start", "front", "arrays"])
def test_a_run_shows_what_the_public_model_reaches_alone(name, given, network, train):
    arrays = name == "arrays"
    result = train(network(), **({"initial": weights()} if arrays else {"recipe": given(name)}))
    directory = RunDirectory.open(result.directory)
    assert (directory.array("public") == public_labels()).all()
    assert result.summary.public.name == ("initial arrays" if arrays else "toy")
    assert result.summary.public.accuracy == np.mean(public_labels() == LABELS)
    facts = directory.manifest().public
    assert facts.overlap == result.overlap
    assert result.overlap.test_inputs == (60, None if arrays else 0)
    assert result.overlap.clients is None
    assert (facts.card is None) == arrays
    assert (facts.function is None) == (name != "front")


def test_without_public_knowledge_nothing_is_said_of_it(network, train):
    result = train(network())
    assert RunDirectory.open(result.directory).manifest().public is None
    assert (result.summary.public, result.overlap) == (None, None)


def test_a_public_model_that_has_seen_the_test_set_is_refused(given, start, network, train, tmp_path):
    written(tmp_path / "toy.safetensors", seen=DATA.test_inputs)
    grid, message = network(), "'toy' was trained on 60 of the 60 test inputs .* or set allow_overlap=True"
    with pytest.raises(InputError, match=message):
        train(grid, recipe=given("start"))
    assert not any(kind == "train" for _, kind in grid.log)
    allowed = train(network(), recipe=given("start"), allow_overlap=True)
    assert allowed.overlap.test_inputs == (60, 60)


def test_a_trusted_model_that_has_seen_the_test_set_is_refused(given, network, train, tmp_path):
    written(tmp_path / "own.safetensors", seen=DATA.test_inputs)
    trusted = TrustedModel(model=str(tmp_path / "own.safetensors"), votes=3)
    with pytest.raises(InputError, match="'own' was trained on 60 of the 60 test inputs"):
        train(network(), recipe=given("start"), trusted=trusted)


@pytest.mark.parametrize("model", ["initial", "file"])
def test_a_trusted_model_votes_beside_the_groups(model, given, network, train, tmp_path):
    seed = 5 if model == "initial" else 6
    name = model if model == "initial" else written(tmp_path / "other.safetensors", seed=seed)
    result = train(network(), recipe=given("start"), trusted=TrustedModel(model=name, votes=3))
    directory, own = RunDirectory.open(result.directory), public_labels(seed)
    assert (directory.array("trusted") == own).all()
    assert directory.config().voting.trusted.votes == result.guarantee.trusted == 3
    evidence = certify.Evidence.of_votes(directory.array("votes"), 10, directory.members(), trusted=own)
    expected = result.guarantee.certify(evidence)
    assert (directory.certificate().levels == expected.levels).all()
    assert (open_ensemble(directory).evidence(INPUTS).trusted == own).all()


def test_a_trusted_model_that_does_not_fit_is_refused(given, network, train, tmp_path):
    other = written(tmp_path / "other.safetensors", COUNTING)
    with pytest.raises(InputError, match="the weights of 'other' must fit the model"):
        train(network(), recipe=given("start"), trusted=TrustedModel(model=other, votes=3))


def test_keys_have_the_content_of_what_is_public_and_not_its_path(given, start, network, train, tmp_path):
    def keys(number, name="front", **more):
        result = train(network(), recipe=given(name, **more), directory=tmp_path / f"run-{number}")
        return set(result.ensemble.model_keys().values())

    first = keys(0)
    assert keys(1, initial=str(shutil.copy(start, tmp_path / "moved.safetensors"))) == first
    others = [
        keys(2, features=Features(name="front", **COPIES | {"seed": 5})),
        keys(3, features=Features(name="front", **COPIES | {"copies": 3})),
        keys(4, features=Features(name="front")),
        keys(5, initial=written(tmp_path / "toy-6.safetensors", seed=6)),
        keys(6, "start"),
    ]
    assert len(first.union(*others)) == 6 * len(first)


@pytest.mark.parametrize("name", ["start", "front", "own features"])
def test_other_public_weights_do_not_take_over_a_directory(name, given, start, network, train, tmp_path):
    made = given(name)
    train(network(), recipe=made)
    written(tmp_path / "toy.safetensors", seed=6)
    dense(tmp_path / "dense.safetensors", 0.2)
    with pytest.raises(InputError, match="holds a run of another configuration"):
        train(network(), recipe=made)


# What a client calls


def test_a_client_trains_on_features_and_reports_its_own_examples(given):
    made, (inputs, labels) = given("own features"), DATA.client(VICTIM)
    state = torch.get_rng_state()
    owned = flower.examples(made, "ann", inputs, labels)
    assert torch.equal(torch.get_rng_state(), state)
    assert (owned.id, owned.reported, len(owned)) == ("ann", len(labels), 3 * len(labels))
    assert owned.inputs.shape == (3 * len(labels), 8)
    assert owned.labels.tolist() == labels.tolist() * 3
    assert not torch.equal(owned.inputs, flower.examples(made, "bob", inputs, labels).inputs)


def test_without_features_a_client_trains_on_its_own_examples(settings):
    inputs, labels = DATA.client(VICTIM)
    owned = flower.examples(recipe(settings), "ann", inputs.tolist(), labels.tolist(), told={})
    assert (owned.inputs.numpy() == inputs).all()
    assert (owned.labels.numpy() == labels).all()
    assert (owned.reported, owned.inputs.dtype) == (len(labels), torch.float32)


def test_a_client_computes_its_features_once(given, store):
    made, own = given("own features"), DATA.client(VICTIM)
    first = flower.examples(made, "ann", *own, store=store)
    (entry,) = store.directory.rglob("*.safetensors")
    file = entry.stat().st_ino
    again = flower.examples(made, "ann", *own, store=Store(store.directory))
    assert torch.equal(first.inputs, again.inputs)
    assert entry.stat().st_ino == file


def test_a_client_with_other_features_than_the_server_is_told(given, tmp_path):
    made, own = given("front"), DATA.client(VICTIM)
    identity = training.public.public_of(made, INPUTS, 10).function.identity
    assert flower.examples(made, "ann", *own, told={"flcert-features": identity}).reported
    written(tmp_path / "toy.safetensors", seed=6)
    for told in ({"flcert-features": identity}, {}):
        with pytest.raises(InputError, match=r"recipe\.features must be those of the server, "):
            flower.examples(made, "ann", *own, told=told)


def test_clients_with_other_features_than_the_server_do_not_train(given, network, train, tmp_path):
    made = given("front")
    given("front", initial=written(tmp_path / "other.safetensors", seed=6))  # what the clients have
    with pytest.raises(RunError, match=r"was dropped: error 2: recipe\.features must be those of the server"):
        train(network(), recipe=made)


def test_examples_that_break_the_function_are_the_client_s_own_failure(given):
    inputs, labels = DATA.client(VICTIM)
    with pytest.raises(InputError, match=r"features 'tests\.own_features:Doubled' raised ValueError: too large"):
        flower.examples(given("own features"), "ann", inputs + 2000, labels)
