"""What holds for everything in a registry: a new entry is tested by being registered and given a row here."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from flcert import aggregators, datasets, engines, models
from flcert.datasets import Federation
from flcert.errors import InputError
from flcert.registry import Choice, build

DATA_OPTIONS = {"digits": {"num_clients": 7}, "folder": {"path": "written by a fixture"}}
MODEL_SHAPES = {"mlp": (8, 8), "cnn": (28, 28)}
PARAMETERS = {"mlp": 64 * 64 + 64 + 64 * 10 + 10, "cnn": 139_960}

FAMILIES = [
    *(("aggregator", aggregators.AGGREGATORS, name, {}) for name in aggregators.AGGREGATORS),
    *(("data set", datasets.DATASETS, name, {}) for name in datasets.DATASETS),
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


@pytest.fixture
def options(folder):
    return {**DATA_OPTIONS, "folder": {"path": folder}}


@pytest.mark.parametrize(("family", "entries", "name", "context"), FAMILIES, ids=lambda value: str(value)[:20])
def test_an_unknown_option_is_refused_by_name(family, entries, name, context):
    with pytest.raises(InputError, match=f"unknown option of {family} '{name}': 'colour'"):
        build(family, entries, Choice(name=name, options={"colour": "red"}), **context)


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


@pytest.mark.parametrize("name", models.MODELS)
def test_a_model_has_its_parameters_and_gives_one_score_a_label(name):
    model = models.build(Choice(name=name), MODEL_SHAPES[name], 10, seed=0)
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]
    models.check_output(model, torch.zeros(MODEL_SHAPES[name]), 10)
    assert model(torch.zeros(3, *MODEL_SHAPES[name])).shape == (3, 10)


@pytest.mark.parametrize("name", models.MODELS)
def test_a_model_starts_from_its_seed_alone(name):
    def start(seed):
        torch.rand(seed + 1)  # what was drawn before must not matter
        return torch.cat(
            [p.reshape(-1) for p in models.build(Choice(name=name), MODEL_SHAPES[name], 10, seed).parameters()]
        )

    assert torch.equal(start(1), start(1))
    assert not torch.equal(start(1), start(2))


@pytest.mark.parametrize("name", models.MODELS)
def test_a_model_s_score_of_an_input_does_not_depend_on_the_rest_of_the_batch(name):
    model = models.build(Choice(name=name), MODEL_SHAPES[name], 10, seed=0).eval()
    batch = torch.rand(6, *MODEL_SHAPES[name], generator=torch.Generator().manual_seed(0))
    poisoned = batch.clone()
    poisoned[1:] = float("nan")
    assert torch.equal(model(batch)[0], model(poisoned)[0])


@pytest.mark.parametrize("name", aggregators.AGGREGATORS)
def test_an_aggregator_is_a_pure_function_of_updates_and_sizes(name):
    rule = aggregators.build(Choice(name=name))
    updates, sizes = torch.rand(5, 40, generator=torch.Generator().manual_seed(0)), torch.tensor([1, 2, 3, 4, 5])
    before = updates.clone()
    first, second = rule(updates, sizes), rule(updates, sizes)
    assert torch.equal(first, second)
    assert torch.equal(updates, before)
    assert first.shape == (40,)
    assert torch.allclose(rule(updates[:1], sizes[:1]), updates[0])


def test_fedavg_is_the_mean_weighted_by_size():
    rule = aggregators.build(Choice(name="fedavg"))
    assert rule(torch.tensor([[0.0, 4.0], [4.0, 0.0]]), torch.tensor([1, 3])).tolist() == [3.0, 1.0]


def test_fedavg_passes_on_what_is_not_a_number():
    rule = aggregators.build(Choice(name="fedavg"))
    assert torch.isnan(rule(torch.tensor([[float("nan")], [1.0]]), torch.tensor([1, 1]))).all()


@pytest.mark.parametrize("name", engines.ENGINES)
def test_an_engine_takes_a_number_of_workers(name):
    assert engines.build(name, 3).workers == 3
    assert engines.build(name).workers >= 1
    with pytest.raises(InputError, match="workers must be at least 1, got 0"):
        engines.build(name, 0)


@pytest.mark.parametrize("shape", [(28, 28), (3, 32, 32), (1, 29, 30), (10, 11)])
def test_the_cnn_is_the_function_that_the_paper_describes(shape):
    model = models.build(Choice(name="cnn"), shape, 10, seed=0)
    layers = [model.conv1, nn.ReLU(), nn.MaxPool2d(2), model.conv2, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    described = nn.Sequential(*layers, model.dense1, nn.ReLU(), model.dense2)
    images = torch.rand(4, *model.image_shape, generator=torch.Generator().manual_seed(0)) - 0.5
    labels = torch.tensor([0, 1, 2, 3])
    scores = {}
    gradients = {}
    for name, output in {"ours": model(images.reshape(4, *shape)), "described": described(images)}.items():
        scores[name] = output
        gradients[name] = torch.autograd.grad(functional.cross_entropy(output, labels), list(model.parameters()))
    torch.testing.assert_close(scores["ours"], scores["described"])
    torch.testing.assert_close(gradients["ours"], gradients["described"])
