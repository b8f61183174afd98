"""What the server decides before anybody trains: who is in which group, and the key of each group's model."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from flwr.app import ConfigRecord
from flwr.serverapp.strategy import Strategy
from torch import nn

from flcert import aggregators
from flcert.certify import CertificateSettings
from flcert.core.digest import digest_arrays, digest_json
from flcert.core.settings import Choice
from flcert.core.store import Arrays
from flcert.datasets import Federation
from flcert.datasets.subject import Subject
from flcert.errors import InputError
from flcert.flower.options import FEATURES, Learning, TestSet, examples_of
from flcert.flower.strategy import RuleStrategy, described, distinct
from flcert.grouping import Grouping, GroupingKind
from flcert.pipeline.overlap import checked_test_overlap, used, worst
from flcert.pipeline.results import FLOWER
from flcert.pipeline.run import check_certificates
from flcert.public import PublicModel, find
from flcert.runs.config import Config, PublicUse
from flcert.runs.records import OverlapFacts
from flcert.training import Recipe
from flcert.training.checks import ALIKE, check_alike, check_augmentations, check_local, checked_module
from flcert.training.keys import PUBLIC, features_digest, recipe_sources
from flcert.training.public import Public, fitted, public_of
from flcert.training.start import initial_module, state_arrays
from flcert.training.trusted import ROOT, Voting, ready_arrays

ALWAYS_RECORDED = ("gradient_clip", "augmentation", "smoothing")  # in keys even if unused; later settings are not
TEST = "test"  # the client that the test set is checked as
GIVEN = "initial arrays"  # the name of a public start that is given in Python
FLOWER_VERSION = 1  # raise it whenever the same replies would give a different model


@dataclass(frozen=True)
class Agreement:
    """What groups learn, as decided by the server.

    Args:
        settings: settings of the grouping.
        learning: how each group learns.
        certificate: alpha and other settings of certificates.
    """

    settings: GroupingKind
    learning: Learning
    certificate: CertificateSettings

    def __post_init__(self) -> None:
        recipe, strategy = self.learning.recipe, self.learning.strategy
        for setting in ("evaluate_at", "smoothing", "variants", "models_per_group"):
            if getattr(recipe, setting):
                raise InputError(f"recipe.{setting} cannot be used with Flower, got {getattr(recipe, setting)!r}")
        if strategy and recipe.aggregator != Recipe().aggregator:
            raise InputError(
                f"give a strategy or recipe.aggregator, not both, got {recipe.aggregator.name!r} and a strategy"
            )
        if not strategy and aggregators.uses_root(aggregators.build(recipe.aggregator)):
            name = recipe.aggregator.name
            raise InputError(f"aggregator {name!r} needs a root set, which there is none of with Flower")
        if self.learning.trusted and self.learning.trusted.model == ROOT:
            raise InputError("trusted model 'root' needs a root set, which there is none of with Flower")


@dataclass(frozen=True)
class Plan:
    """Everything that the server knows before anybody trains.

    Args:
        config: the configuration that the run directory records.
        subject: clients and test set.
        grouping: who trains together.
        nodes: the node of each user; None if absent.
        strategies: one for each group.
        public: what all groups share.
        started: the arrays that groups start from, by the group's seed. They are made before any group trains:
            making a model draws from process-wide generators, which concurrent groups would share.
        train_config: sent to clients with every model.
        descriptions: each group's strategy and its settings before training, as text.
        trusted: the weights of the model of the server's own that votes too, if there is one.
        overlap: how many test inputs the public model had seen, if groups start from one.
    """

    config: Config
    subject: Subject
    grouping: Grouping
    nodes: Mapping[str, int | None]
    strategies: Sequence[Strategy]
    public: Public
    started: Mapping[int, Arrays]
    train_config: Mapping[str, Any]
    descriptions: Sequence[str]
    trusted: Arrays | None = None
    overlap: OverlapFacts | None = None

    @cached_property
    def keys(self) -> list[str | None]:
        """The key of each group's model; None for an empty group."""
        return [_key(self, group) if len(members) else None for group, members in enumerate(self.grouping.members)]

    def initial(self, group: int) -> Arrays:
        """Fresh copies of the arrays that a group starts from."""
        started = self.started[self.config.recipe.of_group(group).seed]
        return {name: array.copy() for name, array in started.items()}

    def told(self, group: int) -> ConfigRecord:
        """The config that a group's clients receive; groups of the same clients receive the same."""
        name = digest_json(self.users(group), size=8)
        seed, function = self.config.recipe.of_group(group).seed, self.public.function
        shared = {FEATURES: function.identity} if function else {}
        return ConfigRecord({**self.train_config, **shared, "flcert-seed": seed, "flcert-group": name})

    def users(self, group: int) -> list[str]:
        """The user ids of a group, in order."""
        return [self.subject.ids[client] for client in self.grouping.members[group]]


def plan(agreement: Agreement, nodes: Mapping[str, int | None], subject: Subject) -> Plan:
    """Plan the groups and strategies of these clients; refuse what does not fit.

    Args:
        agreement: what groups learn.
        nodes: the node of each user; None if absent.
        subject: clients and test set.
    """
    learning, recipe = agreement.learning, agreement.learning.recipe
    grouping = agreement.settings.build(subject.ids)
    check_alike(grouping, recipe)
    public = _public(learning, subject)
    check_augmentations(recipe, subject.test_inputs)
    check_local(recipe, checked_module(recipe, public, subject.test_inputs[:1], subject.num_labels))
    number, of_groups = len(grouping), map(recipe.of_group, range(len(grouping)))
    strategies = distinct(learning.strategy, number) if learning.strategy else _by_rule(recipe, subject, public, number)
    descriptions = [described(one) for one in strategies]
    if grouping.drawn and len(set(descriptions)) > 1:
        raise InputError(f"{ALIKE}; the factory made {len(set(descriptions))} different strategies")
    started = {own.seed: state_arrays(_module(own, subject, public)) for own in of_groups}
    strategy = descriptions[0] if learning.strategy else None
    config = _config(agreement, subject, strategy, _start(started, learning.train_config, public))
    check_certificates(config, grouping)
    return Plan(
        config=config,
        subject=subject,
        grouping=grouping,
        nodes=nodes,
        strategies=strategies,
        public=public,
        started=started,
        train_config=dict(learning.train_config),
        descriptions=descriptions,
        trusted=_trusted(config, public, subject),
        overlap=_overlap(config, public, subject),
    )


def subject_of(ids: tuple[str, ...], test: TestSet) -> Subject:
    """The clients' ids and the test set, checked like that of a federation."""
    examples, shape = examples_of("the test set", test.inputs, test.labels), test.image_shape
    try:
        checked = Federation.build(test.name, {TEST: examples}, examples, test.num_labels, image_shape=shape)
    except InputError as error:
        raise InputError(str(error).replace(f"client {TEST!r}", "the test set")) from None
    return Subject(
        name=test.name,
        digest=digest_arrays(checked.test_inputs, checked.test_labels, text=json.dumps(ids)),
        ids=ids,
        test_inputs=checked.test_inputs,
        test_labels=checked.test_labels,
        num_labels=checked.num_labels,
        image_shape=shape,
    )


def _public(learning: Learning, subject: Subject) -> Public:
    """What all groups share: what the recipe names, and the arrays that are given."""
    named = public_of(learning.recipe, subject.test_inputs, subject.num_labels)
    if learning.arrays is None:
        return named
    given = fitted(learning.arrays, _module(learning.recipe, subject, named), GIVEN)
    return Public(given, named.function, GIVEN)


def _module(recipe: Recipe, subject: Subject, public: Public) -> nn.Module:
    """The model that a group starts from."""
    return initial_module(recipe, public.shape(subject.input_shape), subject.num_labels, public.start)


def _trusted(config: Config, public: Public, subject: Subject) -> Arrays | None:
    """The weights of the trusted model, if there is one."""
    trusted = config.voting.trusted
    if trusted is None:
        return None
    return ready_arrays(trusted, config.recipe, public, subject.input_shape, subject.num_labels)


def _overlap(config: Config, public: Public, subject: Subject) -> OverlapFacts | None:
    """How many test inputs the public models had seen; the examples of clients are theirs."""
    models = [find(name) for name in used(config)]
    if public.start is not None and not config.recipe.initial:
        models.append(PublicModel(public.name, public.start))
    allow = config.public.allow_overlap
    return worst([checked_test_overlap(model, subject.test_inputs, allow_overlap=allow) for model in models])


def _by_rule(recipe: Recipe, subject: Subject, public: Public, number: int) -> list[Strategy]:
    """The recipe's own aggregator as a strategy, one for each group."""
    own = [recipe.of_group(group) for group in range(number)]
    return [RuleStrategy(_module(one, subject, public), aggregators.build(one.aggregator)) for one in own]


def _start(started: Mapping[int, Arrays], train_config: Mapping[str, Any], public: Public) -> str:
    """A digest of what all groups start from and what clients receive."""
    arrays = [array for seed in sorted(started) for array in started[seed].values()]
    shared = public.function.identity if public.function else ""
    return digest_arrays(*arrays, text=repr(sorted(train_config.items())) + shared)


def _config(agreement: Agreement, subject: Subject, strategy: str | None, start: str) -> Config:
    """The configuration that the run directory records; it names no real data set, so nobody runs it by mistake."""
    recipe = agreement.learning.recipe
    if strategy:
        recipe = recipe.model_copy(update={"aggregator": Choice(name=FLOWER, options={"strategy": strategy})})
    data = Choice(name=FLOWER, options={"title": subject.name, "digest": subject.digest, "start": start})
    return Config(
        data=data,
        grouping=agreement.settings,
        recipe=recipe,
        certificate=agreement.certificate,
        public=PublicUse(allow_overlap=agreement.learning.allow_overlap),
        voting=Voting(trusted=agreement.learning.trusted),
    )


def _key(plan: Plan, group: int) -> str:
    """A digest of everything that a group's model depends on, as far as the server knows."""
    arrays, function = plan.initial(group), plan.public.function
    recipe = plan.config.recipe.of_group(group)
    settings = recipe.model_dump(mode="json", exclude={"seeds", "variants", "evaluate_at", *PUBLIC})
    inputs: dict[str, object] = {
        "kind": "flower model",
        "versions": [FLOWER_VERSION, version("flwr"), np.__version__, torch.__version__],
        "users": plan.users(group),
        "initial": digest_arrays(*arrays.values(), text=json.dumps(list(arrays))),
        "strategy": plan.descriptions[group],
        "recipe": {name: value for name, value in settings.items() if value is not None or name in ALWAYS_RECORDED},
        "sources": recipe_sources(recipe),
        "train config": repr(sorted(plan.train_config.items())),
    }
    if function and recipe.features:
        inputs["features"] = features_digest(function, recipe.features)
    return digest_json(inputs)
