"""Public knowledge: weights to start from, and features; what no client can influence, and what its key covers."""

import json
import re
import shutil
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from pydantic import ValidationError
from torch.nn import functional

from flcert import certify, models, public
from flcert.attacks import AttackPlan
from flcert.core.determinism import one_thread
from flcert.core.digest import digest_named
from flcert.core.settings import Choice
from flcert.core.store import Store
from flcert.datasets import Federation, load
from flcert.engines import Inline, Processes
from flcert.errors import InputError, IntegrityError
from flcert.experiments import Options
from flcert.experiments.reproduce import Request, Site, reproduce
from flcert.features import PublicFunction, one_by_one
from flcert.grouping import balanced
from flcert.pipeline.compress import compress
from flcert.pipeline.forget import forget
from flcert.pipeline.run import prepare, run, train_some
from flcert.public import Card, PublicModel
from flcert.public.overlap import fingerprints
from flcert.report.points import overlap_sentence
from flcert.runs.config import load_config, parse_config
from flcert.runs.directory import RunDirectory
from flcert.runs.ensemble import open_ensemble
from flcert.serve.service import Service
from flcert.training import Recipe, train
from flcert.training.device import array
from flcert.training.examples import FeaturesTask, client_features
from flcert.training.keys import features_entry
from flcert.training.public import public_of
from flcert.voting import predicted_labels
from tests.sealing import seal

FEDERATION = load("digits", num_clients=12, num_test=40)
GROUPING = balanced(FEDERATION.ids, 4)
NETWORK = Choice(name="mlp", options={"hidden": [16]})
COPIES = {"copies": 2, "augmentation": "tests.own_features:jitter"}
PARTS = ("weight", "bias")
QUICK = ("data.options.num_clients=12", "data.options.num_test=40", "grouping.kind=balanced", "grouping.num_groups=4")


def network(seed=0, hidden=(16,)):
    """A network that was trained a little on the server's own digits."""
    return deepcopy(_network(seed, hidden))


@cache
def _network(seed, hidden):
    module = models.build(Choice(name="mlp", options={"hidden": list(hidden)}), (64,), 10, seed)
    inputs, labels = torch.tensor(FEDERATION.test_inputs), torch.tensor(FEDERATION.test_labels)
    with one_thread():
        for _ in range(30):
            gradients = torch.autograd.grad(functional.cross_entropy(module(inputs), labels), list(module.parameters()))
            for parameter, gradient in zip(module.parameters(), gradients, strict=True):
                parameter.data -= 0.3 * gradient
    return module.eval()


def labels_of(module):
    with torch.no_grad():
        return predicted_labels(module(torch.tensor(FEDERATION.test_inputs)).numpy())


def written(path, module, with_card=True):
    arrays = {name: array(value) for name, value in module.state_dict().items()}
    card = Card(
        name="toy", model=NETWORK, input_shape=(64,), num_labels=10, sources=(), training={"seed": 0}, held_out=0
    )
    public.write(path, PublicModel("toy", arrays, card if with_card else None))
    return str(path)


@pytest.fixture
def start(tmp_path):
    return written(tmp_path / "toy.safetensors", network())


def recipe(start, **settings):
    return Recipe(
        **{"model": NETWORK, "initial": start, "rounds": 2, "local_steps": 2, "learning_rate": 0.1, **settings}
    )


def heads(start, **settings):
    features = {"name": "front", **settings.pop("features", {})}
    return recipe(start, **{"model": "linear", "features": features, **settings})


def model_files(federation, settings, store, engine=None):
    ensemble = train(federation, GROUPING, settings, engine=engine or Inline(), store=store)
    keys = [owned[settings.rounds] if owned else None for owned in ensemble.keys]
    return [store.path(key).read_bytes() if key else None for key in keys], ensemble


def changed_client(position, change):
    """The federation with another content of one client."""
    inputs = FEDERATION.inputs.copy()
    rows = slice(*FEDERATION.offsets[position : position + 2])
    inputs[rows] = change(inputs[rows])
    fields = {name: getattr(FEDERATION, name) for name in FEDERATION.__dataclass_fields__}
    return Federation(**{**fields, "inputs": inputs})


# A public start


def test_every_group_starts_from_the_public_weights(start, store):
    still, _ = model_files(FEDERATION, recipe(start, learning_rate=1e-30), store)
    plain, _ = model_files(FEDERATION, recipe(None, learning_rate=1e-30), store)
    expected = {name: array(value) for name, value in network().state_dict().items()}
    for owned, other in zip(still, plain, strict=True):
        assert digest_named(load_file(owned)) == digest_named(expected)
        assert digest_named(load_file(other)) != digest_named(expected)


def load_file(raw):
    return safetensors.numpy.load(raw)


def test_the_key_has_the_weights_and_not_their_path(start, store, tmp_path):
    first = train(FEDERATION, GROUPING, recipe(start), store=store)
    moved = str(shutil.copy(start, tmp_path / "elsewhere.safetensors"))
    assert train(FEDERATION, GROUPING, recipe(moved), store=store).keys == first.keys
    written(Path(start), network(seed=1))
    again = train(FEDERATION, GROUPING, recipe(start), store=store)
    assert again.reused == 0
    assert not {owned[2] for owned in again.keys} & {owned[2] for owned in first.keys}


@pytest.mark.parametrize("settings", [recipe, heads])
def test_the_front_and_the_options_of_features_are_in_the_key(start, store, settings):
    known = {train(FEDERATION, GROUPING, settings(start), store=store).keys[0][2]}
    variants = [heads(start, features={**COPIES}), heads(start, features={**COPIES, "copies": 3})]
    variants += [heads(start, features={**COPIES, "seed": 1}), heads(start, model="linear", seed=1)]
    wider = {"name": "tests.own_features:jitter", "options": {"width": 0.2}}
    variants += [heads(start, features={**COPIES, "augmentation": wider})]
    for variant in variants:
        key = train(FEDERATION, GROUPING, variant, store=store).keys[0][2]
        assert key not in known
        known.add(key)


def test_weights_that_do_not_fit_are_refused(start, tmp_path):
    def told(settings):
        with pytest.raises(InputError) as failure:
            train(FEDERATION, GROUPING, settings, store=Store(tmp_path / "none"))
        return str(failure.value)

    other = written(tmp_path / "other.safetensors", network(hidden=(9,)), with_card=False)
    assert "'layers.1.bias', got shape (9,)" in told(recipe(other))
    deeper = written(tmp_path / "deeper.safetensors", network(hidden=(16, 10)), with_card=False)
    assert "has no such array for 'layers.5.bias', got shape (10,)" in told(recipe(deeper))
    arrays = {name: array(value) for name, value in network().state_dict().items() if name != "layers.3.bias"}
    public.write(tmp_path / "short.safetensors", PublicModel("short", arrays))
    assert "shape (10,) for 'layers.3.bias', got none" in told(recipe(str(tmp_path / "short.safetensors")))
    spoilt = network()
    spoilt.layers[1].bias.data[3] = float("nan")
    assert "finite as float32, got NaN, infinity or too large a number in 'layers.1.bias'" in told(
        recipe(written(tmp_path / "nan.safetensors", spoilt))
    )
    assert "there is no public model at" in told(recipe("gone.safetensors"))
    assert "unknown public model 'digit-28'; did you mean 'digits-28'?" in told(recipe("digit-28"))
    raw = bytearray(Path(start).read_bytes())
    raw[-1] ^= 1
    Path(start).write_bytes(raw)
    assert "was altered" in told(recipe(start))
    Path(start).write_bytes(raw[:100])
    assert "is not a safetensors file" in told(recipe(start))
    assert not (tmp_path / "none").exists()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("settings", [recipe, heads])
def test_weights_that_overflow_a_model_s_numbers_are_refused(settings, tmp_path):
    arrays = {name: array(value).astype(np.float64) for name, value in network().state_dict().items()}
    arrays["layers.1.bias"][3] = 1e39
    card = Card(name="toy", model=NETWORK, input_shape=(64,), num_labels=10, sources=(), training={}, held_out=0)
    public.write(tmp_path / "large.safetensors", PublicModel("large", arrays, card))
    with pytest.raises(InputError, match=r"finite as float32, got .* too large a number in 'layers\.1\.bias'$"):
        train(FEDERATION, GROUPING, settings(str(tmp_path / "large.safetensors")), store=Store(tmp_path / "none"))


def test_a_name_that_is_no_public_model_is_told_from_a_file(flcert, tmp_path, start):
    def told(*settings):
        done = flcert("run", *(part for one in settings for part in ("--set", one)), "-q")
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        return done.err

    shutil.copy(start, tmp_path / "p_ok.st")
    unknown = "error: unknown public model 'digit-28'; did you mean 'digits-28'? (known: "
    for file in ("p_ok.st", "./p_ok.st", "elsewhere/p"):
        assert f"a file of public weights must end in .safetensors, got '{file}'" in told(f"recipe.initial={file}")
    assert told("recipe.initial=digit-28").startswith(unknown)
    assert told("recipe.initial=digits-28").endswith("is not there yet; run: flcert pretrain digits-28\n")
    assert told("voting.trusted={model='digit-28',votes=1}").startswith(unknown)
    assert "did you mean 'initial'?" in told("voting.trusted={model='inital',votes=1}")
    assert told("recipe.initial=") == "error: recipe.initial must not be empty, got ''\n"


@pytest.mark.parametrize("at", [3, 20, 60, -1, "card", "fingerprints"])
def test_an_altered_file_is_one_line_with_what_to_do(flcert, tmp_path, start, at):
    known = public.read(Path(start))
    for path in (tmp_path / "mine.safetensors", tmp_path / "cache" / "public" / "digits-28.safetensors"):
        public.write(path, replace(known, fingerprints=fingerprints(FEDERATION.test_inputs)))
        raw = bytearray(path.read_bytes())
        places = {"card": raw.index(b"num_labels") + 16, "fingerprints": 8 + int.from_bytes(raw[:8], "little") + 40}
        raw[places.get(at, at)] ^= 1
        path.write_bytes(raw)
        ours = path.parent.name == "public"
        done = flcert("run", "--set", f"recipe.initial={'digits-28' if ours else path}", "-q")
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert done.err.startswith(f"error: {path} ")
        assert done.err.endswith(
            f"; {'delete it and run: flcert pretrain digits-28' if ours else 'get the file again'}\n"
        )
    again = flcert("pretrain", "--steps", 3, "-q")
    assert (again.code, again.out, again.err.count("\n")) == (2, "", 1)
    why = done.err.removeprefix(f"error: {path} ").rpartition("; ")[0]
    assert again.err.startswith(f"error: {path} is there, but {why}; delete it and run the same command again")


def test_the_command_line_says_in_one_line_what_is_wrong(flcert, tmp_path):
    done = flcert("run", "--set", "recipe.initial=gone.safetensors", "-q")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: there is no public model at {tmp_path / 'gone.safetensors'}\n"
    assert not (tmp_path / "runs").exists()


def test_a_path_is_relative_to_the_configuration(flcert, tmp_path):
    (tmp_path / "here").mkdir()
    written(tmp_path / "here" / "toy.safetensors", network())
    text = 'recipe.model = {options = {hidden = [16]}}\nrecipe.initial = "toy.safetensors"'
    (tmp_path / "here" / "config.toml").write_text(text)
    config = load_config(tmp_path / "here" / "config.toml")
    assert config.recipe.initial == str(tmp_path / "here" / "toy.safetensors")


# Public features


def test_the_head_on_the_front_is_the_public_model(start, store):
    for layers, model in ((1, "linear"), (2, NETWORK)):
        still = heads(start, model=model, learning_rate=1e-30, features={"options": {"layers": layers}})
        votes = train(FEDERATION, GROUPING, still, store=store).votes(FEDERATION.test_inputs)
        assert (votes == labels_of(network())).all()


@pytest.mark.parametrize("shape", [(28, 28), (561,)], ids=["rows at multiples of 64 bytes", "rows anywhere"])
def test_features_of_an_input_do_not_depend_on_the_inputs_beside_it(shape):
    torch.manual_seed(0)
    dense = torch.nn.Sequential(torch.nn.Linear(561, 50), torch.nn.ReLU())
    module = dense if shape == (561,) else models.build(Choice(name="cnn"), shape, 10, 0).eval()
    inputs = torch.rand(40, *shape, generator=torch.Generator().manual_seed(0))
    together = one_by_one(module, inputs)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    assert torch.equal(one_by_one(module, inputs[order]), together[order])
    assert torch.equal(one_by_one(module, inputs[7:8]), together[7:8])
    spoilt = inputs.clone()
    spoilt[3] = float("nan")
    kept = torch.arange(40) != 3
    assert torch.equal(one_by_one(module, spoilt)[kept], together[kept])


@pytest.mark.parametrize("engine", [Inline(), Processes(2)], ids=["inline", "two workers"])
def test_whatever_one_client_holds_the_other_groups_keep_their_bytes(start, engine, tmp_path):
    settings = heads(start, features=COPIES)
    untouched, _ = model_files(FEDERATION, settings, Store(tmp_path / "a"))
    victim = next(group for group, members in enumerate(GROUPING.members) if 5 in members)
    for change in (lambda rows: rows * 0, lambda rows: np.full_like(rows, 3e38), lambda rows: rows[::-1]):
        files, _ = model_files(changed_client(5, change), settings, Store(tmp_path / "b"), engine)
        assert [file == other for file, other in zip(files, untouched, strict=True)] == [
            group != victim for group in range(4)
        ]


def test_a_client_that_breaks_the_function_fails_only_its_own_groups(tmp_path):
    own = {"name": "tests.own_features:Doubled"}
    settings = Recipe(model="linear", rounds=1, features=own)
    untouched, _ = model_files(FEDERATION, settings, Store(tmp_path / "a"))
    broken = changed_client(5, lambda rows: rows + 2000)
    files, ensemble = model_files(broken, settings, Store(tmp_path / "b"), Processes(2))
    victim = next(group for group, members in enumerate(GROUPING.members) if 5 in members)
    assert list(ensemble.failures) == [victim]
    assert "too large" in ensemble.failures[victim]
    assert [file == other for file, other in zip(files, untouched, strict=True)] == [g != victim for g in range(4)]


def test_copies_come_from_a_stream_of_the_client_and_features_are_computed_once(start, store):
    settings = heads(start, features=COPIES)
    train(FEDERATION, GROUPING, settings, store=store)
    there = {path: path.stat().st_mtime_ns for path in store.entries()}
    again = train(FEDERATION, GROUPING, settings.model_copy(update={"rounds": 1}), store=store)
    assert again.trained == 4
    new = {path for path in store.entries() if path not in there}
    assert len(new) == 4  # four models, and no features
    assert len(there) == 4 + 12


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("rows", "a row of float32 for each of 3 inputs, got torch.float32 of shape (1, 5)"),
        ("nan", "must be finite, got NaN or infinity"),
        ("calls", "must be the same at each call"),
        ("neighbours", "must not depend on the inputs beside it"),
        ("float64", "got torch.float64 of shape (3, 5)"),
        ("shape", "got torch.float32 of shape (5,)"),
    ],
)
def test_a_wrong_function_is_refused(how, message):
    choice = Choice(name="tests.own_features:Wrong", options={"how": how})
    with pytest.raises(InputError, match=r"features 'tests\.own_features:Wrong'") as failure:
        PublicFunction.of(choice, FEDERATION.test_inputs[:3], None)
    assert message in str(failure.value)


def test_wrong_settings_of_features_are_refused(start, tmp_path):
    def told(**settings):
        with pytest.raises((InputError, ValidationError)) as failure:
            train(FEDERATION, GROUPING, heads(**{"start": start, **settings}), store=Store(tmp_path / "none"))
        return str(failure.value)

    plain = written(tmp_path / "plain.safetensors", network(), with_card=False)
    assert "has no card that names its network" in told(start=plain)
    assert "set recipe.initial" in told(start=None)
    assert "must be in [1, the network's dense layers=2], got 3" in told(features={"options": {"layers": 3}})
    assert "unknown option" in told(features={"options": {"layer": 3}})
    assert "copies needs recipe.features.augmentation" in told(features={"copies": 3})
    assert "augmentation needs recipe.features.copies" in told(features={"augmentation": "affine"})
    assert "use recipe.features.augmentation, got 'affine'" in told(augmentation="affine")
    assert "weights of recipe.initial" in told(features={"weights": start})
    assert "which has shape (16,) for 'layers.1.bias', got shape (10,)" in told(model=NETWORK)
    assert "must be a torch.nn.Module, got str" in told(start=None, features={"name": "tests.own_features:no_module"})
    assert "unknown features" in told(features={"name": "frnt"})


def test_a_users_function_takes_weights_from_a_file(tmp_path, store):
    function = {"name": "tests.own_features:Doubled", "weights": str(tmp_path / "w.safetensors")}
    keys = set()
    for seed in (0, 1):
        torch.manual_seed(seed)
        layer = torch.nn.Linear(64, 8)
        weights = {f"dense.{name}": array(value) for name, value in layer.state_dict().items()}
        public.write(tmp_path / "w.safetensors", PublicModel("w", weights))
        settings = Recipe(model="linear", rounds=1, features=function)
        keys.add(train(FEDERATION, GROUPING, settings, store=store).keys[0][1])
    assert len(keys) == 2
    public.write(tmp_path / "w.safetensors", PublicModel("w", {"dense.bias": weights["dense.bias"]}))
    with pytest.raises(InputError, match=r"weights do not fit features 'tests\.own_features:Doubled'"):
        train(FEDERATION, GROUPING, settings, store=store)


# Whole runs


@pytest.fixture
def config(start):
    settings = ["recipe.model=linear", f"recipe.initial={start}", "recipe.features=front", "recipe.rounds=2"]
    return load_config(None, [*QUICK, *settings])


def test_a_run_shows_the_public_model_alone_and_keeps_what_it_needs(config, store, tmp_path, start):
    result = run(config, tmp_path / "run", engine=Inline(), store=store)
    alone = labels_of(network())
    figures = result.summary.public
    assert figures.accuracy == pytest.approx(np.mean(alone == FEDERATION.test_labels))
    curve = result.summary.certified_accuracy
    above = [m for m, share in enumerate(curve) if share > figures.accuracy]
    assert figures.above_until == (above[-1] if above else None)
    facts = RunDirectory.open(result.directory).manifest().public
    assert (facts.name, facts.card.name, facts.function.width) == ("toy", "toy", 16)
    assert facts.bytes_a_round == 4 * (16 * 10 + 10)
    assert facts.bytes_stored == 4 * facts.bytes_a_round
    assert facts.bytes_without == (4 * (64 * 16 + 16 + 170), 16 * (64 * 16 + 16 + 170))
    Path(start).unlink()  # everything that answers need is in the run directory
    opened = open_ensemble(RunDirectory.open(result.directory))
    votes = RunDirectory.open(result.directory).array("votes")
    assert np.array_equal(opened.votes(FEDERATION.test_inputs), votes)
    damaged = bytearray((result.directory / "public.safetensors").read_bytes())
    damaged[-3] ^= 4
    (result.directory / "public.safetensors").write_bytes(damaged)
    with pytest.raises(IntegrityError, match=r"public\.safetensors is not as the run wrote it"):
        RunDirectory.open(result.directory)
    seal(result.directory)
    with pytest.raises(IntegrityError, match=r"public\.safetensors is missing, altered or cut short"):
        open_ensemble(RunDirectory.open(result.directory))


def test_certify_and_json_tell_of_the_public_model(flcert, start):
    settings = [*QUICK, "recipe.model=linear", f"recipe.initial={start}", "recipe.features=front", "recipe.rounds=1"]
    given = [part for one in settings for part in ("--set", one)]
    done = flcert("run", *given, "--engine", "inline", "-q", "--out", "run")
    assert done.code == 0, done.err
    assert "The public model 'toy' alone gets" in done.out
    assert "public model alone" in done.out
    again = flcert("certify", "run")
    assert "The public model 'toy' alone gets" in again.out
    assert json.loads(flcert("certify", "run", "--json").out)["public"]["name"] == "toy"
    assert "The public model &#39;toy&#39; alone" in Path("run/report.html").read_text()


def test_forgetting_a_client_deletes_its_features(config, store, tmp_path):
    result = run(config, tmp_path / "run", engine=Inline(), store=store)
    before = len(list(store.entries()))
    done = forget(result.directory, ["client-0003"], engine=Inline(), store=store)
    assert done.groups == 1
    fresh = config.model_copy(update={"forget": ("client-0003",)})
    never = run(fresh, tmp_path / "never", engine=Inline(), store=Store(tmp_path / "other"))
    for name in ("votes.npy", "manifest.json", "summary.json", "public.safetensors"):
        assert (done.result.directory / name).read_bytes() == (never.directory / name).read_bytes()
    assert done.deleted == 3  # its features, its group's model, and that model's votes
    assert len(list(store.entries())) == before - 3 + 2


def contents(*places):
    """All files under these directories, with their bytes."""
    return {path: path.read_bytes() for place in places for path in Path(place).rglob("*") if path.is_file()}


def test_a_finished_run_does_not_move_to_another_public_model(flcert, start, tmp_path):
    settings = [*QUICK, "recipe.model=linear", "recipe.initial=digits-28", "recipe.features=front", "recipe.rounds=1"]
    given = [part for one in settings for part in ("--set", one)]
    place = tmp_path / "cache" / "public" / "digits-28.safetensors"
    place.parent.mkdir(parents=True)
    written(place, network())
    make = ("run", *given, "--engine", "inline", "-q", "--out", "runs/heads")
    assert flcert(*make).code == 0
    assert flcert("compress", "runs/heads", "--dtype", "int8", "-q").code == 0
    before = contents("runs", "cache/store")
    written(place, network(seed=1))
    for command in (make, ("forget", "runs/heads", "client-0003", "--engine", "inline", "-q")):
        refused = flcert(*command)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err == (
            "error: runs/heads: the weights of public model 'digits-28' are not those that this run was made with; "
            "put those back, or make a new run in another directory\n"
        )
        assert contents("runs", "cache/store") == before
    assert flcert("run", *given, "--engine", "inline", "-q", "--out", "runs/other").code == 0
    mixed = flcert("compress", "runs/other", "--dtype", "int8", "--out", "runs/heads-int8", "-q")
    assert mixed.err.startswith("error: runs/heads-int8: the weights of public model 'digits-28' are not those")
    written(place, network())
    assert flcert("forget", "runs/heads", "client-0003", "--engine", "inline", "-q").code == 0
    (tmp_path / "runs" / "other" / "manifest.json").unlink()  # a run that is not finished goes on with what there is
    assert flcert("run", *given, "--engine", "inline", "-q", "--out", "runs/other").code == 0


def test_a_finished_run_does_not_move_to_another_function_or_trusted_model(config, store, tmp_path):
    def weights(file, layer):
        public.write(tmp_path / file, PublicModel(file, {name: array(value) for name, value in layer.items()}))
        return str(tmp_path / file)

    def function(seed):
        torch.manual_seed(seed)
        return weights("w.safetensors", torch.nn.ModuleDict({"dense": torch.nn.Linear(64, 8)}).state_dict())

    def head(seed):
        return weights("h.safetensors", {f"layers.1.{part}": getattr(network(seed).layers[3], part) for part in PARTS})

    own = {"model": "linear", "rounds": 1, "features": {"name": "tests.own_features:Doubled", "weights": function(0)}}
    features = parse_config({**config.canonical(), "recipe": own})
    trusted = trusting(config, model=head(0), votes=2)
    for place, settings, change in (("f", features, function), ("t", trusted, head)):
        run(settings, tmp_path / place, engine=Inline(), store=store)
        run(settings, tmp_path / place, engine=Inline(), store=store)
        before = contents(tmp_path / place)
        change(5)
        with pytest.raises(InputError, match=rf"/{place}: the .* are not those that this run was made with"):
            run(settings, tmp_path / place, engine=Inline(), store=store)
        assert contents(tmp_path / place) == before


def test_compressed_heads_and_groups_trained_apart_go_on_from_the_same_features(config, store, tmp_path):
    prepare(config, tmp_path / "begun")
    train_some(tmp_path / "begun", [0, 2], store=store)
    result = run(config, tmp_path / "begun", engine=Processes(2), store=store)
    assert (result.ensemble.reused, result.ensemble.trained) == (2, 2)
    small = compress(result.directory, "float16", tmp_path / "small", engine=Inline(), store=store)
    assert small.result.summary.public == result.summary.public
    assert small.after < small.before


@pytest.mark.parametrize("attack", ["backdoor", "label-flip", "mpaf"])
def test_an_attacker_poisons_its_examples_before_they_pass_the_function(config, store, tmp_path, attack):
    attacked = load_config(None, [*QUICK, f"attack.name={attack}", "attack.malicious=2"])
    both = config.model_copy(update={"attack": attacked.attack})
    result = run(both, tmp_path / attack, engine=Inline(), store=store)
    assert result.attacked.trained == result.summary.attack.groups_attacked
    assert result.summary.attack.certified_changed == 0
    if attack == "backdoor":
        assert result.summary.attack.success_rate_under_attack is not None


def test_a_rule_with_a_root_set_gets_its_features(start, store, tmp_path):
    settings = [*QUICK, "recipe.model=linear", f"recipe.initial={start}", "recipe.features=front"]
    rule = ["recipe.aggregator=fltrust", "data.options.num_root=20", "recipe.rounds=1"]
    result = run(load_config(None, [*settings, *rule]), tmp_path / "run", engine=Inline(), store=store)
    assert result.ensemble.trained == 4


# Several models a group


def test_several_models_of_a_group_add_up_their_scores(store):
    several = Recipe(rounds=1, local_steps=1, models_per_group=3)
    ensemble = train(FEDERATION, GROUPING, several, store=store)
    scores = np.zeros((4, 40, 10), np.float32)
    for number in range(3):
        alone = train(FEDERATION, GROUPING, several.of_model(number), store=store)
        for group in range(4):
            with torch.no_grad():
                scores[group] += alone.module(group)(torch.tensor(FEDERATION.test_inputs)).numpy()
    agree = ensemble.votes(FEDERATION.test_inputs) == predicted_labels(scores)
    assert agree.mean() > 0.99  # single and stacked models may round differently
    one = train(FEDERATION, GROUPING, several.of_model(0), store=store).votes(FEDERATION.test_inputs)
    assert (one != predicted_labels(scores)).any()


def test_one_model_of_a_group_is_the_same_as_none_said(store):
    one = train(FEDERATION, GROUPING, Recipe(rounds=1, local_steps=1, models_per_group=1), store=store)
    none = train(FEDERATION, GROUPING, Recipe(rounds=1, local_steps=1), store=store)
    assert (one.keys, none.reused) == (none.keys, 4)
    with pytest.raises(InputError, match="models_per_group must be greater than or equal to 1, got 0"):
        Recipe(models_per_group=0)


# Trusted votes


def trusting(config, **trusted):
    return parse_config({**config.canonical(), "voting": {"trusted": trusted}})


@pytest.mark.parametrize("model", ["initial", "root", "file"])
def test_a_trusted_model_votes_beside_the_groups(config, store, tmp_path, model, start):
    options = {**config.data.options, "num_root": 30}
    config = config.model_copy(update={"data": Choice(name="digits", options=options)})
    if model == "file":  # a head of the server's own
        head = network(seed=3)
        weights = {f"layers.1.{part}": array(getattr(head.layers[3], part)) for part in ("weight", "bias")}
        public.write(tmp_path / "head.safetensors", PublicModel("head", weights))
        model = str(tmp_path / "head.safetensors")
    plain = run(config, tmp_path / "plain", engine=Inline(), store=store)
    result = run(trusting(config, model=model, votes=3), tmp_path / "run", engine=Inline(), store=store)
    assert result.ensemble.trained == 0
    assert result.guarantee.trusted == 3
    directory = RunDirectory.open(result.directory)
    own = directory.array("trusted")
    votes = directory.array("votes")
    assert np.array_equal(votes, RunDirectory.open(plain.directory).array("votes"))
    expected = certify.Disjoint(num_clients=12, num_groups=4, trusted=3)
    again = expected.certify(certify.Evidence.of_votes(votes, 10, trusted=own))
    assert np.array_equal(again.levels, result.certificate.levels)
    assert np.array_equal(again.labels, result.certificate.labels)
    if model != str(tmp_path / "head.safetensors"):  # the others know the digits
        assert (result.certificate.levels > 2).any()  # half of the groups
    if model == "initial":
        assert np.array_equal(own, labels_of(network()))
    federation = load("digits", **options)
    Path(start).unlink()
    opened = open_ensemble(directory).evidence(federation.test_inputs)
    assert np.array_equal(opened.trusted, own)
    assert np.array_equal(opened.votes, votes)


def test_trusted_votes_are_shown_wherever_labels_are(flcert, start, tmp_path):
    trusted = "voting.trusted={model='initial',votes=3}"
    settings = [*QUICK, "recipe.model=linear", f"recipe.initial={start}", "recipe.features=front", "recipe.rounds=1"]
    given = [part for one in [*settings, "recipe.learning_rate=9", trusted] for part in ("--set", one)]
    sentence = "3 of the votes are those of a model of the server's own, which no client can change."
    made = flcert("run", *given, "--engine", "inline", "-q", "--out", "run")
    assert made.out.count(sentence) == flcert("certify", "run").out.count(sentence) == 1, made.err
    directory = RunDirectory.open(Path("run"))
    groups, own = directory.evidence().counts, directory.array("trusted")
    counts = groups + 3 * np.eye(10, dtype=int)[own]
    labels = counts.argmax(axis=1)
    assert (labels != groups.argmax(axis=1)).any()  # without the trusted votes, some label would look wrong
    expected = [{label: int(row[label]) for label in np.flatnonzero(row)} for row in counts]
    np.save("inputs.npy", FEDERATION.test_inputs)
    shown = flcert("predict", "run", "inputs.npy")
    assert sentence in shown.err
    rows = [line.split(",") for line in shown.out.splitlines()[1:]]
    told = [{int(label): int(votes) for label, votes in (one.split(":") for one in row[-1].split())} for row in rows]
    assert ([int(row[1]) for row in rows], told) == (labels.tolist(), expected)
    answer = json.loads(flcert("predict", "run", "inputs.npy", "--json").out)
    assert [{int(label): votes for label, votes in one.items()} for one in answer["votes"]] == expected
    assert answer["trusted"] == [{"label": label, "votes": 3} for label in own.tolist()]
    served = Service(directory).predict(FEDERATION.test_inputs)["predictions"]
    assert [{int(label): votes for label, votes in one["votes"].items()} for one in served] == expected
    assert [one["trusted"] for one in served] == answer["trusted"]
    for one in directory.samples().inputs:
        assert dict(one.votes) == expected[one.position]


@pytest.mark.parametrize("name", ["groups", "backdoor"])
def test_a_figure_says_up_to_which_m_the_federation_is_above_the_public_model(name, start, store, tmp_path):
    settings = ["recipe.model.options.hidden=[16]", f"recipe.initial={start}", "recipe.rounds=1", "recipe.seeds=shared"]
    data = ["data.options.num_test=40", "grouping.num_groups=4", "certificate.alpha=0.5"]
    config = load_config(preset="digits", scale=0.1, overrides=[*settings, *data])
    request = Request(name, config, "tiny", Options(groups=(2, 4)) if name == "groups" else Options())
    made = reproduce(request, Site(tmp_path / "figures", Inline(), store))
    alone = np.mean(labels_of(network()) == FEDERATION.test_labels)
    curves = {}
    for method, setting, m, share, *_ in made.outcome.rows:
        if setting != "with trigger":
            above = curves.setdefault((method, 4 if setting == "clean" else setting), [None])
            above[0] = m if share > alone else above[0]
    words = {key: "never" if m is None else f"up to m = {m}" for key, (m,) in curves.items()}
    told = "; ".join(f"{method} with N = {number} {words[method, number]}" for method, number in words)
    assert f"The certified accuracy is above that: {told}." in made.outcome.note
    assert len(words) == (4 if name == "groups" else 2)


def test_a_run_without_a_trade_says_why(flcert, start, tmp_path):
    def told(*settings):
        given = [part for one in (*QUICK, "recipe.rounds=1", *settings) for part in ("--set", one)]
        directory = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        assert flcert("run", *given, "--engine", "inline", "-q", "--out", directory).code == 0
        refused = flcert("plan", "--run", directory)
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
        return refused.err

    public_start = ("recipe.model.options.hidden=[16]", f"recipe.initial={start}")
    assert "has no public or trusted model whose votes" in told()
    sampled = ("grouping={kind='sampled',num_groups=40,group_size=2}",)
    assert "certificate 'sampled', which is probabilistic" in told(*public_start, *sampled)


def test_an_attack_does_not_reach_the_trusted_model(config, store, tmp_path):
    attack = load_config(None, [*QUICK, "attack.name=label-flip", "attack.malicious=12"]).attack
    trusted = trusting(config.model_copy(update={"attack": attack}), model="initial", votes=9)
    result = run(trusted, tmp_path / "run", engine=Inline(), store=store)
    assert result.summary.attack.changed == 0  # nine votes against four groups
    assert result.summary.certified_accuracy[12] == pytest.approx(result.summary.public.accuracy)


def test_trusted_models_that_there_are_not_are_refused(flcert, start):
    def told(*settings):
        given = [part for one in (*QUICK, *settings) for part in ("--set", one)]
        done = flcert("run", *given, "--engine", "inline", "-q")
        assert (done.code, done.out) == (2, "")
        assert done.err.count("\n") == 1
        return done.err

    assert "set recipe.initial" in told('voting.trusted={model="initial",votes=3}')
    assert "data.options.num_root" in told('voting.trusted={model="root",votes=3}')
    assert "greater than or equal to 0, got -1" in told('voting.trusted={model="initial",votes=-1}')
    assert "voting.trusted.votes is needed" in told("voting.trusted.model=root")
    assert "there is no public model at" in told('voting.trusted={model="x.safetensors",votes=3}')
    assert "must fit the model" in told(f'voting.trusted={{model="{start}",votes=3}}')
    assert "certificate 'runoff' cannot take trusted votes" in told(
        'voting.trusted={model="initial",votes=3}', 'certificate.also=["runoff"]'
    )


# The overlap check


@pytest.mark.parametrize("whose", ["test inputs", "inputs of clients"])
def test_a_public_model_that_has_seen_the_inputs_is_refused(flcert, start, tmp_path, whose):
    seen = FEDERATION.test_inputs if whose == "test inputs" else FEDERATION.client(3)[0]
    known = public.read(Path(start))
    public.write(Path(start), replace(known, fingerprints=fingerprints(seen)))
    settings = [*QUICK, "recipe.model=linear", f"recipe.initial={start}", "recipe.features=front", "recipe.rounds=1"]
    given = [part for one in settings for part in ("--set", one)]
    refused = flcert("run", *given, "--engine", "inline", "-q", "--out", "run")
    assert (refused.code, refused.out) == (2, "")
    examined = 40 if whose == "test inputs" else len(FEDERATION.labels)
    told = re.search(rf"was trained on (\d+) of the {examined:,} {whose} or on near-duplicates", refused.err)
    assert int(told[1]) >= len(seen)  # small digits look alike, so a few more
    assert not (tmp_path / "run").exists()
    allowed = flcert("run", *given, "--set", "public.allow_overlap=true", "--engine", "inline", "-q", "--out", "run")
    assert allowed.code == 0, allowed.err
    assert f"{told[1]} of {examined:,} {whose}" in allowed.out
    facts = RunDirectory.open(tmp_path / "run").manifest().public.overlap
    assert (facts.test_inputs if whose == "test inputs" else facts.clients) == (examined, int(told[1]))


def test_a_model_without_fingerprints_could_not_be_checked(config, store, tmp_path):
    result = run(config, tmp_path / "run", engine=Inline(), store=store)
    assert result.overlap.test_inputs == (40, None)
    assert "could not be checked" in overlap_sentence(result.overlap)


# What reviewers found


@pytest.mark.parametrize("order", [0, -1], ids=["the first group", "the last group"])
def test_a_network_of_a_users_own_in_a_front_carries_nothing_from_client_to_client(tmp_path, order):
    network = Choice(name="tests.own_features:Sticky")
    module = models.build(network, (64,), 10, 0)
    arrays = {name: array(value) for name, value in module.state_dict().items()}
    card = Card(name="s", model=network, input_shape=(64,), num_labels=10, sources=(), training={}, held_out=0)
    public.write(tmp_path / "s.safetensors", PublicModel("s", arrays, card))
    settings = heads(str(tmp_path / "s.safetensors"))
    client = int(GROUPING.members[order][0])
    untouched, before = model_files(FEDERATION, settings, Store(tmp_path / "a"))
    odd = changed_client(client, lambda rows: rows + 100)
    files, after = model_files(odd, settings, Store(tmp_path / "b"))
    victim = range(4)[order]
    assert [file == other for file, other in zip(files, untouched, strict=True)] == [g != victim for g in range(4)]
    votes = [one.votes(FEDERATION.test_inputs) for one in (before, after)]
    assert [np.array_equal(*pair) for pair in zip(*votes, strict=True)][:victim] == [True] * victim


@pytest.mark.parametrize("how", ["attribute", "buffer", "list", "dict"])
@pytest.mark.parametrize("use", ["features", "model"])
def test_numbers_outside_a_modules_state_are_in_the_key(tmp_path, store, how, use):
    own = {"name": "tests.own_features:Hidden", "options": {"path": str(tmp_path / "n.npy"), "how": how}}
    settings = Recipe(model="linear", features=own, rounds=1) if use == "features" else Recipe(model=own, rounds=1)
    np.save(tmp_path / "n.npy", np.array([0.5, 1.0], np.float32))
    first = train(FEDERATION, GROUPING, settings, store=store)
    assert train(FEDERATION, GROUPING, settings, store=store).reused == 4
    np.save(tmp_path / "n.npy", np.array([0.5, -1.0], np.float32))
    again = train(FEDERATION, GROUPING, settings, store=store)
    assert again.trained == 4
    assert again.keys != first.keys


def test_labels_of_the_servers_model_belong_to_the_seed_it_is_built_from(config, store, tmp_path):
    first = run(trusting(config, model="initial", votes=2), tmp_path / "a", engine=Inline(), store=store)
    before = {path.stem for path in store.entries()}
    seeded = parse_config({**config.canonical(), "recipe": {**config.canonical()["recipe"], "seed": 1}})
    run(trusting(seeded, model="initial", votes=2), tmp_path / "b", engine=Inline(), store=store)
    new = {path.stem for path in store.entries()} - before
    assert len(new) == 4 + 4 + 1  # models, their votes, and the labels of the server's model
    assert first.guarantee.trusted == 2


def test_a_trusted_model_that_has_seen_the_test_set_is_refused(config, store, tmp_path, start):
    head = network().layers[3]
    weights = {f"layers.1.{part}": array(getattr(head, part)) for part in ("weight", "bias")}
    seen = fingerprints(FEDERATION.test_inputs)
    public.write(tmp_path / "head.safetensors", PublicModel("head", weights, fingerprints=seen))
    trusted = trusting(config, model=str(tmp_path / "head.safetensors"), votes=3)
    with pytest.raises(InputError, match="public model 'head' was trained on 40 of the 40 test inputs"):
        run(trusted, tmp_path / "run", engine=Inline(), store=store)


def test_a_card_or_fingerprints_that_were_altered_are_noticed(start):
    known = public.read(Path(start))
    public.write(Path(start), replace(known, fingerprints=fingerprints(FEDERATION.test_inputs)))
    raw = Path(start).read_bytes()
    for old, new in ((b'\\"num_labels\\": 10', b'\\"num_labels\\": 11'), (b"toy", b"tow")):
        Path(start).write_bytes(raw.replace(old, new, 1))
        with pytest.raises(InputError, match="card or its fingerprints"):
            public.read(Path(start))
    public.write(Path(start), replace(known, fingerprints=fingerprints(FEDERATION.test_inputs[::-1])))
    other = Path(start).read_bytes()
    header = 8 + int.from_bytes(raw[:8], "little")
    Path(start).write_bytes(raw[:header] + other[header:])
    with pytest.raises(InputError, match="card or its fingerprints"):
        public.read(Path(start))


def test_poisoned_examples_are_what_pass_the_function(start, store):
    plan = AttackPlan(Choice(name="label-flip"), frozenset({5}))
    settings = heads(start)
    function = public_of(settings, FEDERATION.test_inputs, 10).function
    clean = client_features(FEDERATION, FeaturesTask(5, function, settings.features))[0]
    poisoned = client_features(FEDERATION, FeaturesTask(5, function, settings.features, plan))[0]
    assert not np.array_equal(clean["labels"], poisoned["labels"])
    entries = [features_entry(FEDERATION, 5, function, settings.features, one).key for one in (None, plan)]
    assert entries[0] != entries[1]


def test_copies_of_two_clients_with_the_same_examples_differ(start):
    same = changed_client(5, lambda rows: np.resize(FEDERATION.client(4)[0], rows.shape))
    settings = heads(start, features=COPIES)
    function = public_of(settings, FEDERATION.test_inputs, 10).function
    first, second = (client_features(same, FeaturesTask(who, function, settings.features))[0] for who in (4, 5))
    rows = min(len(same.client(4)[1]), len(same.client(5)[1]))
    assert np.allclose(first["inputs"][:rows], second["inputs"][:rows], atol=1e-5)
    at = len(same.client(4)[1]), len(same.client(5)[1])
    assert not np.allclose(first["inputs"][at[0] : at[0] + rows], second["inputs"][at[1] : at[1] + rows], atol=1e-3)


def test_another_root_set_is_another_trusted_model(config, store, tmp_path):
    labels = []
    for number in (20, 30):
        data = Choice(name="digits", options={**config.data.options, "num_root": number})
        own = trusting(config.model_copy(update={"data": data}), model="root", votes=1)
        labels.append(run(own, tmp_path / str(number), engine=Inline(), store=store).ensemble.trusted)
    assert digest_named(labels[0]) != digest_named(labels[1])
