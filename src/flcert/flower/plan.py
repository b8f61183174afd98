"""What the server settles before anybody trains: who is in which group, and the key of each group's model."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from flwr.app import ConfigRecord
from flwr.serverapp.strategy import Strategy
from numpy.typing import ArrayLike, NDArray

from flcert import aggregators, models
from flcert.conclusion import FLOWER
from flcert.config import Config, Enumerated, Hashed, Proof, Sampled, Spread
from flcert.datasets import Federation
from flcert.datasets.federation import digest_arrays
from flcert.datasets.subject import Subject
from flcert.errors import InputError
from flcert.flower.strategy import RuleStrategy, described, distinct
from flcert.further import check_further
from flcert.grouping import Grouping
from flcert.guarantee import KIND_OF_GROUPING
from flcert.registry import Choice
from flcert.store import Arrays
from flcert.training import Recipe
from flcert.training.group import recipe_sources
from flcert.training.train import ALIKE, check_alike

FLOWER_VERSION = 1  # raise it whenever the same replies would train to other bytes
RESERVED = ("flcert-seed", "flcert-group", "server-round")  # names in the train config
Groups = Hashed | Sampled | Enumerated | Spread


@dataclass(frozen=True)
class Plan:
    """All that the server knows before anybody trains.

    Args:
        config: of the run, as the run directory records it.
        subject: clients and test set.
        grouping: who trains together.
        nodes: of each user; None for an absent one.
        strategies: one for each group.
        started: the arrays that groups start from, by the seed of the group. They are made before any group trains:
            making a model draws from process-wide generators, which concurrent groups would share.
        train_config: sent to clients with every model.
        descriptions: of each group's strategy, with its settings, before it trains.
    """

    config: Config
    subject: Subject
    grouping: Grouping
    nodes: Mapping[str, int | None]
    strategies: Sequence[Strategy]
    started: Mapping[int, Arrays]
    train_config: Mapping[str, Any]
    descriptions: Sequence[str]

    @cached_property
    def keys(self) -> list[str | None]:
        """The key of each group's model; None for an empty group."""
        return [_key(self, group) if len(members) else None for group, members in enumerate(self.grouping.members)]

    def initial(self, group: int) -> Arrays:
        """Fresh copies of the arrays that a group starts from."""
        started = self.started[self.config.recipe.of_group(group).seed]
        return {name: array.copy() for name, array in started.items()}

    def told(self, group: int) -> ConfigRecord:
        """What clients of a group are told; the same set of clients is told the same, whichever draw it was."""
        name = hashlib.blake2b(json.dumps(self.users(group)).encode(), digest_size=8).hexdigest()
        seed = self.config.recipe.of_group(group).seed
        return ConfigRecord({**self.train_config, "flcert-seed": seed, "flcert-group": name})

    def users(self, group: int) -> list[str]:
        """The user ids of a group, in order."""
        return [self.subject.ids[client] for client in self.grouping.members[group]]


def plan(
    nodes: Mapping[str, int | None],
    subject: Subject,
    settings: Groups,
    recipe: Recipe,
    *,
    proof: Proof,
    strategy: Callable[[], Strategy] | None,
    initial: Mapping[str, NDArray[np.generic]] | None,
    train_config: Mapping[str, Any],
) -> Plan:
    """Groups and strategies of these clients, refused where they do not fit; the arguments are those of ``train``."""
    grouping = settings.build(subject.ids)
    check_alike(grouping, recipe)
    module = models.build(recipe.model, subject.input_shape, subject.num_labels, recipe.seed)
    models.check_output(module, torch.from_numpy(np.array(subject.test_inputs[0])), subject.num_labels)
    strategies = distinct(strategy, len(grouping)) if strategy else _by_rule(recipe, subject, len(grouping))
    descriptions = [described(one) for one in strategies]
    if grouping.kind == "sampled" and len(set(descriptions)) > 1:
        raise InputError(f"{ALIKE}; the factory made {len(set(descriptions))} different strategies")
    started = {own.seed: _started(own, subject, initial) for own in map(recipe.of_group, range(len(grouping)))}
    return Plan(
        config=_config(
            settings, recipe, proof, subject, descriptions[0] if strategy else None, _start(started, train_config)
        ),
        subject=subject,
        grouping=grouping,
        nodes=nodes,
        strategies=strategies,
        started=started,
        train_config=train_config,
        descriptions=descriptions,
    )


def check_settings(recipe: Recipe, settings: Groups, proof: Proof, strategy: Callable[[], Strategy] | None) -> None:
    """Refuse what cannot be done over a network, or contradicts itself."""
    for setting in ("evaluate_at", "smoothing", "variants"):
        if getattr(recipe, setting):
            raise InputError(f"recipe.{setting} cannot be used with Flower, got {getattr(recipe, setting)!r}")
    if strategy and recipe.aggregator != Recipe().aggregator:
        raise InputError(
            f"give a strategy or recipe.aggregator, not both, got {recipe.aggregator.name!r} and a strategy"
        )
    if not strategy and aggregators.uses_root(aggregators.build(recipe.aggregator)):
        raise InputError(f"aggregator {recipe.aggregator.name!r} needs a root set, which there is none of with Flower")
    check_further(proof.also, KIND_OF_GROUPING[settings.kind])
    if "runoff" in proof.also:
        raise InputError("certificate.also='runoff' cannot be used with Flower")


def check_train_config(train_config: Mapping[str, Any]) -> None:
    """Refuse what cannot be sent to clients, or what flcert and Flower tell them themselves."""
    for name in RESERVED:
        if name in train_config:
            raise InputError(f"train_config must leave {name!r} to flcert, got {train_config[name]!r}")
    try:
        ConfigRecord(dict(train_config))
    except (TypeError, ValueError) as error:
        raise InputError(f"train_config must be what a ConfigRecord can hold: {error}") from None


def subject_of(
    ids: tuple[str, ...],
    test: tuple[ArrayLike, ArrayLike],
    num_labels: int | None,
    name: str,
    image_shape: tuple[int, ...] | None,
) -> Subject:
    """The clients' ids and the test set, checked as that of a federation is."""
    inputs, labels = np.asarray(test[0]), np.asarray(test[1])
    checked = Federation.build(name, {"test": (inputs, labels)}, (inputs, labels), num_labels, image_shape=image_shape)
    return Subject(
        name=name,
        digest=digest_arrays(checked.test_inputs, checked.test_labels, text=json.dumps(ids)),
        ids=ids,
        test_inputs=checked.test_inputs,
        test_labels=checked.test_labels,
        num_labels=checked.num_labels,
        image_shape=image_shape,
    )


def _started(recipe: Recipe, subject: Subject, given: Mapping[str, NDArray[np.generic]] | None) -> Arrays:
    """The arrays of the recipe's model, or those that are given in its place."""
    module = models.build(recipe.model, subject.input_shape, subject.num_labels, recipe.seed)
    arrays = {name: tensor.detach().contiguous().numpy().copy() for name, tensor in module.state_dict().items()}
    if given is None:
        return arrays
    for name in sorted({*arrays, *given}):
        if name not in given or name not in arrays or np.shape(given[name]) != arrays[name].shape:
            shape = f"shape {arrays[name].shape}" if name in arrays else "no such array"
            raise InputError(f"initial arrays must fit the model, which has {shape} for {name!r}")
        if not np.isfinite(given[name]).all():
            raise InputError(f"initial arrays must be finite, got {name!r} with values that are not")
    return {name: np.array(given[name], dtype=array.dtype) for name, array in arrays.items()}


def _by_rule(recipe: Recipe, subject: Subject, number: int) -> list[Strategy]:
    """The recipe's own aggregator as a strategy, one for each group."""
    made: list[Strategy] = []
    for group in range(number):
        own = recipe.of_group(group)
        module = models.build(own.model, subject.input_shape, subject.num_labels, own.seed)
        made.append(RuleStrategy(module, aggregators.build(own.aggregator)))
    return made


def _start(started: Mapping[int, Arrays], train_config: Mapping[str, Any]) -> str:
    """A digest of what all groups start from, and of what clients are told."""
    arrays = [array for seed in sorted(started) for array in started[seed].values()]
    return digest_arrays(*arrays, text=repr(sorted(train_config.items())))


def _config(
    settings: Groups, recipe: Recipe, proof: Proof, subject: Subject, strategy: str | None, start: str
) -> Config:
    """The configuration that the run directory records; no data set has its name, so nobody runs it by mistake."""
    if strategy:
        recipe = recipe.model_copy(update={"aggregator": Choice(name=FLOWER, options={"strategy": strategy})})
    data = Choice(name=FLOWER, options={"title": subject.name, "digest": subject.digest, "start": start})
    return Config(data=data, grouping=settings, recipe=recipe, certificate=proof)


def _key(plan: Plan, group: int) -> str:
    """The digest of all that the server knows a group's model to depend on."""
    arrays = plan.initial(group)
    recipe = plan.config.recipe.of_group(group)
    inputs = {
        "kind": "flower model",
        "versions": [FLOWER_VERSION, version("flwr"), np.__version__, torch.__version__],
        "users": plan.users(group),
        "initial": digest_arrays(*arrays.values(), text=json.dumps(list(arrays))),
        "strategy": plan.descriptions[group],
        "recipe": recipe.model_dump(mode="json", exclude={"seeds", "variants", "evaluate_at"}),
        "sources": recipe_sources(recipe),
        "train config": repr(sorted(plan.train_config.items())),
    }
    return hashlib.blake2b(json.dumps(inputs, sort_keys=True).encode(), digest_size=24).hexdigest()
