"""Choose the settings of heads on ImageNet features, on the pilot pictures that the presets leave out of federations.

4,000 of them are dealt out to pilot clients as large as the preset's, 1,000 stand in for the test set. Needs the extra
imagenet, `flcert pretrain cifar10-imagenet` and the files of the data sets.
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from flcert import datasets
from flcert.certify import certified_accuracy
from flcert.core.seeding import stream
from flcert.core.settings import Choice
from flcert.core.store import Store
from flcert.datasets import Federation
from flcert.datasets.partition import by_degree
from flcert.engines import Inline, Workers
from flcert.features import PublicFunction, of_client
from flcert.grouping import balanced
from flcert.runs.config import Config, load_config
from flcert.training import Recipe
from flcert.training.context import Context
from flcert.training.public import Public, public_of
from flcert.training.train import train_groups
from flcert.training.votes import Question, evidence_on_test_set

NUM_TEST = 1000
DEALS = 3  # pilot pictures are dealt out anew this many times; figures are means

Examples = tuple[np.ndarray, np.ndarray]  # features and labels


@dataclass(frozen=True)
class Case:
    """Pilot clients and groups as large as a preset's.

    Args:
        preset: the preset.
        num_clients: pilot clients.
        num_groups: their groups.
        level: the m of the certified accuracy that is printed.
        changes: settings that differ from the preset's.
    """

    preset: str
    num_clients: int
    num_groups: int
    level: int
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setting:
    """What differs from the preset.

    Args:
        name: what to call it.
        changes: fields of the recipe.
        head: a factor on the public head that groups start from.
    """

    name: str
    changes: dict[str, object]
    head: float = 1.0


CASES = {
    "cifar10, n = 100, N = 20": Case("cifar10-public", 10, 2, 0),
    "cifar10, n = 1,000, N = 100": Case("cifar10-public-1000", 80, 8, 2),
    "cifar10, n = 1,000, N = 500": Case(
        "cifar10-public-1000", 80, 40, 4, ("recipe.learning_rate=3", "recipe.rounds=15")
    ),
    "fashion-mnist, n = 1,000, N = 500": Case("fashion-mnist-public", 72, 36, 4),
}


def pilot_features(config: Config, size: int) -> Examples:
    """The features of the preset's pilot pictures, enlarged to this size."""
    assert config.recipe.features is not None
    inputs, labels = datasets.pilot(config.data.name, **config.data.options)
    choice = Choice(name=config.recipe.features.name, options={"size": size})
    function = PublicFunction.of(choice, inputs[:3], None)
    return of_client(function.module(), torch.tensor(inputs)).numpy(), labels


def federations(case: Case, config: Config, examples: Examples) -> Iterator[Federation]:
    """Pilot clients with features as inputs, dealt out several times."""
    inputs, labels = examples
    test, rest = slice(NUM_TEST), np.arange(NUM_TEST, len(labels))
    for deal in range(DEALS):
        degree = config.data.options["degree"]
        shares = by_degree(labels[rest], case.num_clients, degree, 10, stream(deal, "pilot clients"))
        clients = {f"pilot-{number:03d}": (inputs[rest[own]], labels[rest[own]]) for number, own in enumerate(shares)}
        yield Federation.build("pilot", clients, (inputs[test], labels[test]), 10)


def settings(recipe: Recipe) -> Iterator[Setting]:
    """The settings to compare."""
    for factor in (0.25, 0.5, 1, 2, 4):
        yield Setting(f"rate {recipe.learning_rate * factor:g}", {"learning_rate": recipe.learning_rate * factor})
    yield Setting("all examples weigh the same", {"label_weights": None})
    if recipe.initial:
        yield Setting("half the public head", {}, head=0.5)
        yield Setting("twice the public head", {}, head=2.0)
        zero = Choice(name="linear", options={"zero": True})
        yield Setting("zero start, rate 30", {"initial": None, "model": zero, "learning_rate": 30.0})


def start(recipe: Recipe, federation: Federation, head: float) -> Public:
    """What the recipe starts from, with a factor on the public head."""
    public = public_of(recipe, federation.test_inputs, federation.num_labels)
    scaled = {name: (head * values).astype(values.dtype) for name, values in (public.start or {}).items()}
    return replace(public, start=scaled or None)


def measured(case: Case, pilots: list[Federation], recipe: Recipe, head: float) -> Iterator[str]:
    """A cell for each number of rounds: accuracy of a model, certified accuracy at 0 and at the case's level."""
    found: dict[int, list[tuple[float, ...]]] = {number: [] for number in recipe.snapshots}
    for federation in pilots:
        grouping, truth = balanced(federation.ids, case.num_groups), federation.test_labels
        guarantee = Config().guarantee("disjoint", grouping)
        with tempfile.TemporaryDirectory() as place, Workers(Inline(), federation) as workers:
            context = Context(workers, Store(Path(place)))
            ensemble = train_groups(context, grouping, recipe, public=start(recipe, federation, head))
            for number, rows in found.items():
                evidence = evidence_on_test_set(context, ensemble, Question(rounds=number))
                curve = certified_accuracy(guarantee.certify(evidence), truth)
                assert evidence.votes is not None
                rows.append((float(np.mean(evidence.votes == truth)), curve[0], curve[case.level]))
    for rows in found.values():
        model, *certified = np.mean(rows, axis=0)
        shown = certified[: 1 + (case.level > 0)] if case.num_groups > 2 else []
        yield " / ".join(f"{value:.1%}" for value in (model, *shown))


def main() -> None:
    """Print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of a case's name")
    parser.add_argument("--size", type=int, help="pixels to which pictures are enlarged; by default the preset's")
    options = parser.parse_args()
    known: dict[tuple[str, int], Examples] = {}
    for name, case in CASES.items():
        if options.only not in name:
            continue
        config = load_config(preset=case.preset, overrides=list(case.changes))
        assert config.recipe.features is not None
        size = options.size or int(config.recipe.features.options["size"])
        if (config.data.name, size) not in known:
            known[config.data.name, size] = pilot_features(config, size)
        pilots = list(federations(case, config, known[config.data.name, size]))
        rounds = config.recipe.rounds
        numbers = (rounds // 2, rounds, 2 * rounds)
        print(f"\n{name}, {size} pixels: a model / CA@0 / CA@{case.level} of {case.num_groups} groups\n")
        print("| setting | " + " | ".join(f"{number} rounds" for number in numbers) + " |\n|---|---|---|---|")
        usual = {"features": None, "rounds": numbers[-1], "evaluate_at": numbers}
        for setting in settings(config.recipe):
            recipe = config.recipe.model_copy(update={**usual, **setting.changes})
            print(f"| {setting.name} | " + " | ".join(measured(case, pilots, recipe, setting.head)) + " |", flush=True)


if __name__ == "__main__":
    main()
