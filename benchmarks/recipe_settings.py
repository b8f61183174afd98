"""Choose the settings of the presets mnist-*-recipe on public data alone: pen strokes stand in for clients.

Nothing of MNIST is read; START comes from an earlier trial on three groups of MNIST. 140 clients hold about 60 digits
each; the same groups of two train with every setting, and each model is asked about 2,000 further digits.
`flcert data get pen` must have been run.
"""

import argparse
import time
from typing import Any

import numpy as np

from flcert.core.seeding import stream
from flcert.datasets import Federation
from flcert.datasets.handwriting import PEN
from flcert.datasets.partition import by_degree
from flcert.datasets.sources import read_files
from flcert.grouping import balanced
from flcert.pretraining.digits import ADDITIONS
from flcert.pretraining.ink import Ink
from flcert.runs.config import parse_config
from flcert.training import Recipe
from flcert.training.group import GroupTask, train_group
from flcert.training.keys import recipe_sources
from flcert.training.panel import Voter, panel

CLIENTS, EXAMPLES, TEST = 140, 60, 2000
DEGREES = (0.1, 0.5)
START: dict[str, Any] = {
    "model": "small-cnn",
    "rounds": 40,
    "local_steps": 10,
    "batch_size": 16,
    "learning_rate": 0.002,
    "optimiser": {"name": "adamw", "options": {"weight_decay": 0.001}},
    "schedule": "one-cycle",
    "augmentation": "affine",
}
FAST = {"learning_rate": 0.008}
DECAY = {"optimiser": {"name": "adamw", "options": {"weight_decay": 0.05}}}
SMOOTH, SMOOTHER = {"label_smoothing": 0.1}, {"label_smoothing": 0.2}
MOMENTUM = {"optimiser": {"name": "sgd", "options": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.0005}}}
SERVER = {"name": "fedadam", "options": {"server_learning_rate": 0.002, "beta2": 0.999, "tau": 0.0001}}
FEDADAM = {"aggregator": SERVER, "optimiser": None, "learning_rate": 1.0, "local_steps": 1}
STRONG = {"augmentation": {"name": "affine", "options": {"rotation": 20.0, "scale": 0.2, "shear": 0.3, "shift": 2.0}}}
SETTINGS: dict[str, dict[str, Any]] = {
    "start: AdamW, rate 0.002, 40 rounds of 10 steps": {},
    "20 rounds of 20 steps": {"rounds": 20, "local_steps": 20},
    "80 rounds of 5 steps": {"rounds": 80, "local_steps": 5},
    "20 rounds of 10 steps": {"rounds": 20},
    "label smoothing 0.1": SMOOTH,
    "rate 0.004": {"learning_rate": 0.004},
    "rate 0.004, 20 rounds of 10 steps": {"learning_rate": 0.004, "rounds": 20},
    "rate 0.008": FAST,
    "SGD with momentum, rate 0.1": {**MOMENTUM, "learning_rate": 0.1},
    "FedAdam, 200 rounds of 1 step, batches of 32": {**FEDADAM, "rounds": 200, "batch_size": 32},
    "FedAdam, 400 rounds of 1 step": {**FEDADAM, "rounds": 400},
    "SGD with momentum, rate 0.1, label smoothing 0.1": {**MOMENTUM, "learning_rate": 0.1, **SMOOTH},
    "rate 0.008, label smoothing 0.1": {**FAST, **SMOOTH},
    "rate 0.008, label smoothing 0.1, weight decay 0.05": {**FAST, **SMOOTH, **DECAY},
    "rate 0.008, label smoothing 0.1, stronger augmentation": {**FAST, **SMOOTH, **STRONG},
    "rate 0.008, label smoothing 0.2": {**FAST, **SMOOTHER},
    "rate 0.008, label smoothing 0.2, stronger augmentation, weight decay 0.05": {
        **FAST,
        **SMOOTHER,
        **STRONG,
        **DECAY,
    },
    "rate 0.008, label smoothing 0.2, stronger augmentation (the presets)": {**FAST, **SMOOTHER, **STRONG},
}


def pen_strokes() -> Ink:
    """All pen strokes; they take half a minute to draw."""
    files, _ = read_files(PEN)
    return ADDITIONS["pen"].draw(files)[0].ink


def pen_federation(strokes: Ink, degree: float) -> Federation:
    """Pen strokes dealt out to clients with a degree of non-iid, and a test set."""
    order = stream(0, "pen").permutation(len(strokes))
    test, train = order[:TEST], order[TEST : TEST + CLIENTS * EXAMPLES]
    inputs, labels = strokes.pictures(), strokes.labels
    shares = by_degree(labels[train], CLIENTS, degree, 10, stream(0, "clients"))
    clients = {f"writer-{number:03d}": (inputs[train[own]], labels[train[own]]) for number, own in enumerate(shares)}
    return Federation.build("pen", clients, (inputs[test], labels[test]), 10)


def measured(federation: Federation, recipe: Recipe, num_groups: int) -> tuple[float, float]:
    """The mean accuracy of the models of the first groups, and the processor's seconds that training one takes."""
    accuracies, seconds, sources = [], [], recipe_sources(recipe)
    for members in balanced(federation.ids, CLIENTS // 2).members[:num_groups]:
        start = time.process_time()
        arrays = train_group(federation, GroupTask(tuple(members.tolist()), recipe, sources=sources))[recipe.rounds]
        seconds.append(time.process_time() - start)
        votes = panel([Voter(recipe, arrays)], federation.input_shape, 10).votes(federation.test_inputs)
        accuracies.append(np.mean(votes == federation.test_labels))
    return float(np.mean(accuracies)), float(np.mean(seconds))


def main() -> None:
    """Print a row for each setting as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=3, help="of two clients, for each degree")
    parser.add_argument("--only", default="", help="a part of a setting's name")
    options = parser.parse_args()
    strokes = pen_strokes()
    federations = [pen_federation(strokes, degree) for degree in DEGREES]
    print(
        "| setting | "
        + " | ".join(f"degree {degree}" for degree in DEGREES)
        + " | seconds a group |\n|---|---|---|---|"
    )
    for name, changes in SETTINGS.items():
        if options.only in name:
            recipe = parse_config({"recipe": {**START, **changes}}).recipe
            found = [measured(federation, recipe, options.groups) for federation in federations]
            cells = [f"{accuracy:.1%}" for accuracy, _ in found]
            print(f"| {name} | " + " | ".join(cells) + f" | {found[0][1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
