"""What public knowledge saves: training a group, and asking 500 models, taking turns on the same groups and inputs.

`flcert pretrain digits-28+pen+fonts` and `flcert data get mnist` must have been run.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import numpy as np

from flcert.core.store import Arrays
from flcert.datasets import Federation
from flcert.grouping import balanced
from flcert.pipeline.run import federation_of
from flcert.runs.config import load_config
from flcert.training.ensemble import Electorate, Ensemble
from flcert.training.examples import FeaturesTask, client_features
from flcert.training.group import train_group
from flcert.training.keys import features_digest, recipe_sources
from flcert.training.public import Public, public_of
from flcert.training.recipe import Recipe
from flcert.training.start import initial_digest, initial_module, state_arrays
from flcert.training.tasks import GroupTask

PAPER = load_config(preset="mnist-0.1").recipe
HEADS = load_config(preset="mnist-0.1-public").recipe
TUNED = Recipe.model_validate(
    {**PAPER.model_dump(), "initial": HEADS.initial, "rounds": 5, "learning_rate": 0.05, "reduction": "mean"}
)
RECIPES = {"the paper's recipe": PAPER, "5 rounds from a public start": TUNED, "heads on public features": HEADS}


def trained(federation: Federation, members: tuple[int, ...], recipe: Recipe, public: Public) -> Arrays:
    """A group's model, the features of its clients included."""
    shape, labels = public.shape(federation.input_shape), federation.num_labels
    task = GroupTask(members, recipe, initial=initial_digest(recipe, shape, labels, public.start), start=public.start)
    if public.function and recipe.features:
        tasks = [FeaturesTask(member, public.function, recipe.features) for member in members]
        examples = tuple(client_features(federation, one)[0] for one in tasks)
        digest = features_digest(public.function, recipe.features)
        task = replace(task, features=digest, examples=examples)
    return train_group(federation, replace(task, sources=recipe_sources(recipe)))[recipe.rounds]


def ensemble_of(federation: Federation, recipe: Recipe, public: Public, models: list[Arrays]) -> Ensemble:
    """An ensemble of these models in memory."""
    members = tuple(np.array([number]) for number in range(len(models)))
    grouping = replace(balanced(federation.ids, len(models)), members=members)
    return Ensemble(
        grouping=grouping,
        recipe=recipe,
        input_shape=federation.input_shape,
        input_dtype=federation.input_dtype,
        num_labels=federation.num_labels,
        keys=tuple({recipe.rounds: str(number)} for number in range(len(models))),
        load=lambda key: models[int(key)],
        public=public,
    )


def seconds(call: Callable[[], object], repeats: int) -> float:
    """The median time of some calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times)


def training(federation: Federation, groups: int) -> None:
    """Seconds a group."""
    grouping = balanced(federation.ids, 500)
    publics = {name: public_of(recipe, federation.test_inputs, 10) for name, recipe in RECIPES.items()}
    times: dict[str, list[float]] = {name: [] for name in RECIPES}
    right: dict[str, list[float]] = {name: [] for name in RECIPES}
    for group in range(groups):
        members = tuple(grouping.members[group].tolist())
        for name, recipe in RECIPES.items():
            start = time.perf_counter()
            arrays = trained(federation, members, recipe, publics[name])
            times[name].append(time.perf_counter() - start)
            votes = ensemble_of(federation, recipe, publics[name], [arrays]).votes(federation.test_inputs[:2000])
            right[name].append(float(np.mean(votes == federation.test_labels[:2000])))
    print(f"\n| {groups} groups | seconds a group | ratio | accuracy on 2,000 test inputs |\n|---|---|---|---|")
    base = median(times["the paper's recipe"])
    for name, taken in times.items():
        own = median(taken)
        print(f"| {name} | {own:.3f} | {base / own:.1f} | {np.mean(right[name]):.1%} |", flush=True)


def asking(federation: Federation, models: int) -> None:
    """Seconds for one picture and for 1,000 pictures, both cores."""
    found: dict[str, dict[int, float]] = {}
    for name, recipe in (("CNNs", PAPER), ("heads", HEADS)):
        public = public_of(recipe, federation.test_inputs, 10)
        shape = public.shape(federation.input_shape)
        seeds = (recipe.model_copy(update={"seed": seed}) for seed in range(models))
        arrays = [state_arrays(initial_module(one, shape, 10)) for one in seeds]
        ensemble = ensemble_of(federation, recipe, public, arrays)
        with Electorate(ensemble, list(ensemble.panels())) as electorate:
            electorate.votes(federation.test_inputs[:2])
            found[name] = {
                number: seconds(lambda n=number: electorate.votes(federation.test_inputs[:n]), repeats)  # type: ignore[misc]
                for number, repeats in ((1, 5), (1000, 1))
            }
    print(f"\n| {models} models | CNNs | heads, features included | ratio |\n|---|---|---|---|")
    for number in (1, 1000):
        slow, fast = found["CNNs"][number], found["heads"][number]
        print(f"| {number:,} pictures | {slow:.4f} s | {fast:.4f} s | {slow / fast:.1f} |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=20, help="0 leaves training out")
    parser.add_argument("--models", type=int, default=500)
    options = parser.parse_args()
    federation = federation_of(load_config(preset="mnist-0.1"))
    asking(federation, options.models)
    if options.groups:
        training(federation, options.groups)


if __name__ == "__main__":
    main()
