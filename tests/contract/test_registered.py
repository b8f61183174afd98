"""What holds for everything in a registry: a new entry is tested by being registered and given a row here."""

import inspect
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from flcert import aggregators, attacks, datasets, engines, models
from flcert.aggregators import Round
from flcert.core.plugins import build
from flcert.core.settings import Choice
from flcert.datasets import Federation
from flcert.errors import InputError
from flcert.training import Recipe, optimisers, schedules
from flcert.training.group import GroupTask, train_group
from flcert.training.local import Client, Replica, train_locally
from flcert.training.optimisers import OPTIMISERS
from flcert.training.schedules import SCHEDULES
from tests import tinydata

ROOT = Path(__file__).parents[2]
IMAGES = {"num_clients": 10, "num_root": 5, "check": False}
TEXT = {"num_words": 9, "context": 4, "num_test": 3}
DATA_OPTIONS = {  # a fixture writes the files and adds where they are
    "digits": {"num_clients": 7},
    "folder": {},
    "mnist": IMAGES,
    "fashion-mnist": IMAGES,
    "cifar10": IMAGES,
    "har": {"num_root": 5, "check": False},
    "chitchat": {**TEXT, "check": False},
    "reddit": TEXT,
}
MODEL_SHAPES = {
    "cnn": (28, 28),
    "linear": (8, 8),
    "lstm": (6,),
    "mlp": (8, 8),
    "ngram": (6,),
    "resnet20": (3, 32, 32),
    "small-cnn": (28, 28),
}
OF_TEXT = ("lstm", "ngram")
PARAMETERS = {
    "cnn": 139_960,
    "linear": 64 * 10 + 10,
    "lstm": 2 * 4 * (200 * 200 * 2 + 200 * 2) + 10 * 200 + 10,  # with 10 words
    "mlp": 64 * 64 + 64 + 64 * 10 + 10,
    "ngram": 10 + 10 * 10 + 2 * 2**19,
    "resnet20": 269_722,
    "small-cnn": 16 * 26 + 32 * (16 * 25 + 1) + 64 * (512 + 1) + 10 * 65,
}

FAMILIES = [
    *(("aggregator", aggregators.AGGREGATORS, name, {}) for name in aggregators.AGGREGATORS),
    *(("optimiser", OPTIMISERS, name, {}) for name in OPTIMISERS),
    *(("schedule", SCHEDULES, name, {}) for name in SCHEDULES),
    *(("model", models.MODELS, name, {"input_shape": MODEL_SHAPES[name], "num_labels": 10}) for name in models.MODELS),
]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "clients").mkdir()
    for name in ("ann", "bob", "cem"):
        np.savez(tmp_path / "clients" / f"{name}.npz", inputs=rng.random((4, 3)), labels=rng.integers(0, 3, 4))
    np.savez(tmp_path / "test.npz", inputs=rng.random((5, 3)), labels=rng.integers(0, 3, 5))
    return tmp_path


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    return tinydata.write_all(tmp_path_factory.mktemp("data"))


@pytest.fixture
def options(folder, files):
    text = {"vocabulary": files / "words.txt"}
    places = {
        "folder": {"path": folder},
        **{name: {"data_dir": files} for name in ("mnist", "fashion-mnist", "cifar10", "har")},
        "chitchat": {**text, "data_dir": files},
        "reddit": {**text, "path": files / "texts.jsonl"},
    }
    return {name: {**DATA_OPTIONS.get(name, {}), **places.get(name, {})} for name in datasets.DATASETS}


@pytest.mark.parametrize(("family", "entries", "name", "context"), FAMILIES, ids=lambda value: str(value)[:20])
def test_an_unknown_option_is_refused_by_name(family, entries, name, context):
    with pytest.raises(InputError, match=f"unknown option of {family} '{name}': 'colour'"):
        build(family, entries, Choice(name=name, options={"colour": "red"}), **context)


@pytest.mark.parametrize("name", datasets.DATASETS)
def test_an_unknown_option_of_a_data_set_is_refused_by_name(name):
    with pytest.raises(InputError, match=f"unknown option of data set '{name}': 'colour'"):
        datasets.load(name, colour="red")


@pytest.mark.parametrize("name", datasets.DATASETS)
def test_a_data_set_s_record_is_complete(name):
    record = datasets.DATASETS[name]
    assert record.title
    assert (record.input_shape is None) == (record.num_labels is None) == (name == "folder")
    if record.files:
        assert record.files.name == name
        assert record.files.licence
        assert (record.users is None) != (record.train_examples is None)
    if record.train_examples:
        assert "num_train" in record.options.model_fields


@pytest.mark.parametrize("name", datasets.DATASETS)
def test_every_option_of_a_data_set_is_explained(name):
    explained = "\n".join(known.__doc__ or "" for known in datasets.DATASETS[name].options.__mro__)
    options = datasets.DATASETS[name].options.model_fields
    assert [option for option in options if f"\n        {option}: " not in explained] == []


@pytest.fixture(scope="session")
def long_vocabulary(tmp_path_factory):
    """As many words as the text sets take by default."""
    return tinydata.write_words(tmp_path_factory.mktemp("words") / "words.txt", tinydata.many_words(50_000))


@pytest.fixture
def usual_options(options, long_vocabulary):
    """Options that leave the shape of an input and the number of labels as they are by default."""
    for name in ("chitchat", "reddit"):
        kept = {option: value for option, value in options[name].items() if option not in ("num_words", "context")}
        options[name] = {**kept, "vocabulary": long_vocabulary}
    return options


@pytest.mark.parametrize("name", [name for name in datasets.DATASETS if name != "folder"])
def test_shape_and_labels_are_those_of_the_record(name, usual_options):
    record, federation = datasets.DATASETS[name], datasets.load(name, **usual_options[name])
    assert (federation.input_shape, federation.num_labels) == (record.input_shape, record.num_labels)


@pytest.mark.parametrize("name", [name for name, record in datasets.DATASETS.items() if record.backdoor])
def test_a_data_set_s_backdoor_builds_and_stamps_an_input(name, usual_options):
    record = datasets.DATASETS[name]
    attack = attacks.build(Choice(name="backdoor", options=datasets.backdoor(name, usual_options[name])))
    is_text = "vocabulary" in record.options.model_fields
    inputs = torch.full((2, *record.input_shape), 1 if is_text else 0.5)
    poisoned, labels = attack.poison(inputs, torch.tensor([3, 4]), record.num_labels)
    assert torch.equal(poisoned[:2], inputs)
    assert (poisoned[2:] != inputs).any(dim=tuple(range(1, inputs.ndim))).all()
    assert labels.tolist() == [3, 4, attack.target, attack.target]


def test_the_documented_data_sets_are_the_recorded_ones():
    """Names, clients, inputs, labels and licences in the first table of docs/data.md."""
    lines = (ROOT / "docs" / "data.md").read_text().partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    assert sorted(row[0].strip("`") for row in rows) == sorted(datasets.DATASETS)
    for name, clients, _, inputs, labels, licence in rows:
        record = datasets.DATASETS[name.strip("`")]
        number = record.users or getattr(record.options.model_fields.get("num_clients"), "default", None)
        assert numbers_in(clients) == ([number] if number else []), name
        assert numbers_in(inputs) == list(record.input_shape or []), name
        assert numbers_in(labels) == ([record.num_labels] if record.num_labels else []), name
        assert licence.startswith(record.licence), name


def numbers_in(text):
    return [int(number.replace(",", "")) for number in re.findall(r"[\d,]+", text)]


@pytest.mark.parametrize("name", datasets.DATASETS)
def test_a_data_set_is_the_same_each_time_and_well_formed(name, options):
    first, second = (datasets.load(name, **options[name]) for _ in range(2))
    assert first.digest() == second.digest()
    assert len(set(first.ids)) == first.num_clients
    assert all(len(first.client(i)[1]) for i in range(first.num_clients))
    assert first.inputs.dtype in (np.float32, np.int64)


@pytest.mark.parametrize("name", datasets.DATASETS)
def test_a_data_set_survives_being_mapped_from_disk(name, options, tmp_path):
    federation = datasets.load(name, **options[name])
    federation.save(tmp_path)
    mapped = Federation.map(tmp_path)
    assert mapped.digest() == federation.digest()
    assert isinstance(mapped.inputs, np.memmap)


def batch_for(name, size):
    """Inputs of the kind that the model reads: tokens below 10 for text, numbers in [0, 1) for the others."""
    shape = (size, *MODEL_SHAPES[name])
    generator = torch.Generator().manual_seed(0)
    return torch.randint(10, shape, generator=generator) if name in OF_TEXT else torch.rand(shape, generator=generator)


@pytest.mark.parametrize("name", models.MODELS)
def test_a_model_has_its_parameters_and_gives_one_score_a_label(name):
    model = models.build(Choice(name=name), MODEL_SHAPES[name], 10, seed=0)
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]
    models.check_output(model, batch_for(name, 1)[0], 10)
    assert model(batch_for(name, 3)).shape == (3, 10)


@pytest.mark.parametrize("name", models.MODELS)
def test_a_model_starts_from_its_seed_alone(name):
    def start(seed):
        torch.rand(seed + 1)  # what was drawn before must not matter
        model = models.build(Choice(name=name), MODEL_SHAPES[name], 10, seed)
        return torch.cat([parameter.reshape(-1) for parameter in model.parameters()])

    assert torch.equal(start(1), start(1))
    assert torch.equal(start(1), start(2)) == (name == "ngram")  # which starts from counts of zero


@pytest.mark.parametrize("name", models.MODELS)
def test_a_model_s_score_of_an_input_does_not_depend_on_the_rest_of_the_batch(name):
    model = models.build(Choice(name=name), MODEL_SHAPES[name], 10, seed=0).eval()
    batch = batch_for(name, 6)
    changed = batch.clone()
    changed[1:] = 0 if name in OF_TEXT else float("nan")
    assert torch.equal(model(batch)[0], model(changed)[0])


@pytest.mark.parametrize("name", models.MODELS)
def test_a_model_trains_to_the_same_bytes_and_to_a_lower_loss(name):
    rng = np.random.default_rng(0)
    inputs, labels = batch_for(name, 40).numpy(), rng.integers(0, 10, 40)
    federation = Federation.build(
        "random",
        {"ann": (inputs[:15], labels[:15]), "bob": (inputs[15:], labels[15:])},
        (inputs[:2], labels[:2]),
        num_labels=10,
    )
    recipe = Recipe(model=Choice(name=name), rounds=6, local_steps=4, learning_rate=0.1, batch_size=10, seed=3)
    first, second = (train_group(federation, GroupTask((0, 1), recipe)) for _ in range(2))
    assert all(np.array_equal(first[6][key], second[6][key]) for key in first[6])
    model = models.build(recipe.model, federation.input_shape, 10, seed=3)  # batch statistics settle slowly: no eval()

    def loss():
        torch.manual_seed(0)
        with torch.no_grad():
            return float(functional.cross_entropy(model(torch.tensor(inputs)), torch.tensor(labels)))

    before = loss()
    model.load_state_dict({key: torch.from_numpy(value) for key, value in first[6].items()})
    assert loss() < before


def test_statistics_of_batch_normalisation_travel_with_the_model():
    inputs = batch_for("resnet20", 8).numpy()
    labels = np.zeros(8, dtype=int)
    federation = Federation.build("one", {"ann": (inputs, labels)}, (inputs, labels), num_labels=10)
    arrays = train_group(federation, GroupTask((0,), Recipe(model=Choice(name="resnet20"), rounds=2)))[2]
    assert not np.allclose(arrays["norm.running_mean"], 0)
    assert arrays["norm.num_batches_tracked"] == 0  # integer buffers keep their initial value


def test_the_lstm_learns_its_tied_weights_as_input_and_as_output():
    model = models.build(Choice(name="lstm"), (6,), 10, seed=0)
    functional.cross_entropy(model(torch.zeros(2, 6, dtype=torch.int64)), torch.tensor([3, 3])).backward()
    gradient = model.embedding.weight.grad
    assert (gradient.abs().sum(dim=1) > 0).all()  # every word is scored; only word 0 was read
    assert not hasattr(model, "scores")


def some_round():
    updates = torch.rand(5, 40, generator=torch.Generator().manual_seed(0))
    return Round(updates, torch.tensor([1, 2, 3, 4, 5]), num_parameters=36, server=updates[0])


@pytest.mark.parametrize("name", aggregators.AGGREGATORS)
def test_an_aggregator_is_a_pure_function_of_the_round(name):
    rule, given = aggregators.build(Choice(name=name)), some_round()
    for _ in range(3):
        before, memory = given.updates.clone(), [part.clone() for part in given.memory]
        first, remembered = rule(given), aggregators.remembered(rule, given)
        rule(replace(given, updates=-given.updates))  # somebody tries something out
        assert torch.equal(rule(given), first)
        assert equal(aggregators.remembered(rule, given), remembered)
        assert equal(given.memory, memory)
        assert torch.equal(given.updates, before)
        assert (first.shape, first.dtype) == ((40,), torch.float32)
        given = replace(given, memory=remembered)


def equal(one, other):
    return len(one) == len(other) and all(torch.equal(*pair) for pair in zip(one, other, strict=True))


@pytest.mark.parametrize("name", aggregators.AGGREGATORS)
def test_the_only_client_of_a_round_leads_the_way(name):
    rule, alone = aggregators.build(Choice(name=name)), some_round().updates[0]
    found = rule(Round(alone[None], torch.tensor([3]), 36, alone))
    if name not in ("fedadam", "fedyogi"):  # their steps have a size of their own
        torch.testing.assert_close(found, alone)
    assert torch.equal(found.sign(), alone.sign())
    torch.testing.assert_close(found[36:], alone[36:])


@pytest.mark.parametrize("name", aggregators.AGGREGATORS)
def test_the_first_rounds_of_a_long_training_are_those_of_a_short_one(name):
    federation = datasets.load("digits", num_clients=8, num_root=20)
    recipe = Recipe(aggregator=Choice(name=name), rounds=4, evaluate_at=(2,), local_steps=1)
    long = train_group(federation, GroupTask(tuple(range(8)), recipe))
    short = train_group(federation, GroupTask(tuple(range(8)), recipe.model_copy(update={"rounds": 2})))
    assert all(np.array_equal(long[2][key], short[2][key]) for key in short[2])
    assert not all(np.array_equal(long[4][key], short[2][key]) for key in short[2])


def test_fedavg_is_the_mean_weighted_by_size():
    rule = aggregators.build(Choice(name="fedavg"))
    assert rule(Round(torch.tensor([[0.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 3]), 2)).tolist() == [3.0, 1.0]


def test_fedavg_passes_on_what_is_not_a_number():
    rule = aggregators.build(Choice(name="fedavg"))
    assert torch.isnan(rule(Round(torch.tensor([[float("nan")], [1.0]]), torch.tensor([1, 1]), 1))).all()


@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_optimiser_goes_downhill_and_starts_anew_for_each_client_and_round(name):
    """The last client ends where it ends alone: no state of an optimiser reaches another client or round."""
    recipe = Recipe(optimiser=name, learning_rate=0.01)
    generator = torch.Generator().manual_seed(0)
    inputs, labels = torch.rand(2, 20, 8, 8, generator=generator), torch.arange(20) % 10
    ann, bob = (Client(user, own, labels, 20) for user, own in zip(("ann", "bob"), inputs, strict=True))
    replica = Replica(models.build(recipe.model, (8, 8), 10, seed=0))
    start, loss = replica.read(), functional.cross_entropy(replica.module(bob.inputs), labels)
    train_locally(replica, bob, recipe, seed=0, round_number=1)
    alone = replica.read()
    assert functional.cross_entropy(replica.module(bob.inputs), labels) < loss
    replica.write(start)
    train_locally(replica, ann, recipe, seed=0, round_number=1)
    replica.write(start)
    train_locally(replica, bob, recipe, seed=0, round_number=1)
    assert torch.equal(replica.read(), alone)
    assert all(parameter.grad is None for parameter in replica.trained)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_optimiser_follows_the_learning_rate_that_each_step_is_given(name):
    moved = []
    for rate in (0.5, 0.0):
        parameter = nn.Parameter(torch.ones(3))
        optimiser = optimisers.build(Choice(name=name))
        with torch.no_grad():
            optimiser.step([parameter], (torch.ones(3),), 0.5)
            before = parameter.clone()
            optimiser.step([parameter], (torch.ones(3),), rate)
        moved.append(not torch.equal(parameter, before))
    assert moved == [True, False]


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_a_pure_function_to_shares_of_the_rate(name):
    factor = schedules.build(Choice(name=name))
    factors = [factor(step / 100) for step in range(100)]
    assert factors == [schedules.build(Choice(name=name))(step / 100) for step in range(100)]
    assert min(factors) > 0  # no step is wasted
    assert max(factors) == 1


@pytest.mark.parametrize("name", [*OPTIMISERS, *SCHEDULES])
def test_optimisers_and_schedules_are_in_the_documentation_with_their_options(name):
    rows = [line for line in (ROOT / "docs" / "recipe.md").read_text().splitlines() if line.startswith(f"| `{name}` |")]
    factory = {**OPTIMISERS, **SCHEDULES}[name]
    assert len(rows) == 1
    assert [option for option in inspect.signature(factory).parameters if f"`{option}`" not in rows[0]] == []


def test_every_setting_of_a_recipe_is_in_the_documentation():
    page = (ROOT / "docs" / "recipe.md").read_text()
    assert [name for name in Recipe.model_fields if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize("name", engines.ENGINES)
def test_an_engine_takes_a_number_of_workers(name):
    assert engines.build(name, 3).workers == 3
    assert engines.build(name).workers >= 1
    with pytest.raises(InputError, match="workers must be at least 1, got 0"):
        engines.build(name, 0)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *(("cnn", shape) for shape in [(28, 28), (3, 32, 32), (1, 29, 30), (10, 11)]),
        *(("small-cnn", shape) for shape in [(28, 28), (3, 32, 32), (1, 29, 30), (16, 17)]),
    ],
)
def test_a_cnn_is_the_function_that_its_docstring_describes(name, shape):
    model = models.build(Choice(name=name), shape, 10, seed=0)
    layers = [model.conv1, nn.ReLU(), nn.MaxPool2d(2), model.conv2, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    described = nn.Sequential(*layers, model.dense1, nn.ReLU(), model.dense2)
    images = torch.rand(4, *model.image_shape, generator=torch.Generator().manual_seed(0)) - 0.5
    labels = torch.tensor([0, 1, 2, 3])
    scores = {}
    gradients = {}
    for way, output in {"ours": model(images.reshape(4, *shape)), "described": described(images)}.items():
        scores[way] = output
        gradients[way] = torch.autograd.grad(functional.cross_entropy(output, labels), list(model.parameters()))
    torch.testing.assert_close(scores["ours"], scores["described"])
    torch.testing.assert_close(gradients["ours"], gradients["described"])
