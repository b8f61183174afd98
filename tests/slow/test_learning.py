"""Learning works at the paper's settings: minutes each, run with ``python -m pytest -m slow -s``.

They want the real data (``flcert data get``, then $FLCERT_DATA) and skip without it.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from flcert import models
from flcert.core.settings import Choice
from flcert.datasets import load
from flcert.engines import Processes, Workers
from flcert.runs.config import load_config
from flcert.training import Recipe
from flcert.training.context import Context
from flcert.training.group import GroupTask, train_group
from flcert.training.train import train_groups
from flcert.voting import count, winners
from tests.unit.test_datasets import real

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]


def trained(config, federation, grouping, store):
    """Votes on the test set, (groups x inputs), of the groups that have a model."""
    with Workers(Processes(), federation) as workers:
        ensemble = train_groups(Context(workers, store), grouping, config.recipe)
    votes = ensemble.votes(federation.test_inputs)
    return votes[(votes >= 0).all(axis=1)]


def test_two_clients_of_mnist_teach_a_model_most_digits(store):
    config = load_config(preset="mnist-0.1")
    federation = load("mnist", **config.data.options, data_dir=real("mnist"))
    grouping = config.grouping.build(federation.ids)
    pairs = [members for members in grouping.members if len(members) == 2][:20]
    votes = trained(config, federation, replace(grouping, members=tuple(pairs)), store)
    accuracies = (votes == federation.test_labels).mean(axis=1)
    print(f"mnist-0.1, 20 groups of two clients: accuracy of a model {accuracies.mean():.3f}")
    assert len(accuracies) == 20
    assert accuracies.mean() >= 0.72


def test_har_with_fifteen_groups(store):
    config = load_config(preset="har")
    federation = load("har", data_dir=real("har"))
    votes = trained(config, federation, config.grouping.build(federation.ids), store)
    accuracy = (winners(count(votes, 6)) == federation.test_labels).mean()
    print(f"{federation.name}, 15 groups: accuracy of the ensemble {accuracy:.3f}")
    assert accuracy >= 0.85


def losses(federation, recipe):
    """The loss of one group's model on its own clients' examples, before and after training."""
    members = tuple(range(federation.num_clients))
    arrays = train_group(federation, GroupTask(members, recipe))[recipe.rounds]
    model = models.build(recipe.model, federation.input_shape, federation.num_labels, recipe.seed)
    rows = np.random.default_rng(0).permutation(len(federation.labels))[:512]
    inputs, labels = torch.tensor(federation.inputs[rows]), torch.tensor(federation.labels[rows])

    def loss():
        torch.manual_seed(0)
        with torch.no_grad():
            return float(functional.cross_entropy(model(inputs), labels))

    before = loss()
    model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    return before, loss()


def test_resnet20_learns_cifar10():
    federation = load("cifar10", num_clients=10, num_train=3100, data_dir=real("cifar10"))
    recipe = Recipe(model=Choice(name="resnet20"), rounds=6, local_steps=20, learning_rate=0.1, batch_size=64)
    before, after = losses(federation, recipe)
    print(f"resnet20 on cifar10: loss {before:.2f} before, {after:.2f} after")
    assert after < 0.75 * before


def test_the_lstm_learns_chitchat():
    directory = real("chitchat")
    federation = load("chitchat", num_clients=10, num_words=5000, max_examples=2000, data_dir=directory)
    preset = load_config(preset="chitchat").recipe
    recipe = preset.model_copy(update={"rounds": 15})
    before, after = losses(federation, recipe)
    print(f"lstm on chitchat: loss {before:.2f} before, {after:.2f} after")
    assert after < 0.75 * before
