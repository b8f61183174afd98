"""Choose the settings of heads on public data alone: pen strokes stand in for clients, scans and fonts are public.

Nothing of MNIST is read. The public model is digits-28+fonts, which has not seen pen strokes; `flcert pretrain
digits-28+fonts` and `flcert data get pen` must have been run.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from flcert.certify import certified_accuracy
from flcert.core.seeding import stream
from flcert.core.store import Store
from flcert.datasets import Federation
from flcert.datasets.handwriting import PEN
from flcert.datasets.sources import read_files
from flcert.engines import Processes, Workers
from flcert.grouping import balanced
from flcert.pretraining.digits import ADDITIONS
from flcert.runs.config import Config, parse_config
from flcert.training.checks import check_recipe
from flcert.training.context import Context
from flcert.training.train import train_groups
from flcert.training.votes import evidence_on_test_set

FEATURES = {"name": "front", "copies": 10, "augmentation": "affine"}
USUAL = {"initial": "digits-28+fonts", "model": "linear", "rounds": 30, "local_steps": 5, "learning_rate": 0.1}
USUAL |= {"batch_size": 32, "schedule": "linear", "features": FEATURES}
DENSE = {"model": {"name": "mlp", "options": {"hidden": [100]}}, "features": {**FEATURES, "options": {"layers": 2}}}
SETTINGS = {
    "as in the presets": {},
    "constant rate": {"schedule": None},
    "rate 0.03": {"learning_rate": 0.03},
    "rate 0.3": {"learning_rate": 0.3},
    "10 rounds": {"rounds": 10},
    "no copies": {"features": {"name": "front"}},
    "3 copies": {"features": {**FEATURES, "copies": 3}},
    "two dense layers": DENSE,
    "two dense layers, rate 0.03": {**DENSE, "learning_rate": 0.03},
}


def pen_federation(num_clients: int, examples: int, num_test: int) -> Federation:
    """Pen strokes dealt out at random to clients, and a test set."""
    files, _ = read_files(PEN)
    drawn = ADDITIONS["pen"].draw(files)[0]
    inputs, labels = drawn.ink.pictures(), drawn.ink.labels
    order = stream(0, "pen").permutation(len(labels))
    test, order = order[:num_test], order[num_test:]
    rows = [order[number * examples : (number + 1) * examples] for number in range(num_clients)]
    clients = {f"writer-{number:03d}": (inputs[own], labels[own]) for number, own in enumerate(rows)}
    return Federation.build("pen", clients, (inputs[test], labels[test]), 10)


def main() -> None:
    """Print a row for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=140, help="each has 60 digits; a group has two")
    parser.add_argument("--only", help="a part of a setting's name")
    options = parser.parse_args()
    federation = pen_federation(options.clients, 60, 2000)
    grouping = balanced(federation.ids, options.clients // 2)
    tenths = [options.clients * share // 100 for share in (0, 10, 20)]
    print("| setting | a model | " + " | ".join(f"CA@{m}" for m in tenths) + " |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place, Workers(Processes(), federation) as workers:
        context = Context(workers, Store(Path(place)))
        for name, changes in SETTINGS.items():
            if options.only and options.only not in name:
                continue
            config: Config = parse_config({"recipe": {**USUAL, **changes}, "grouping": {"kind": "balanced"}})
            check_recipe(federation, grouping, config.recipe)
            ensemble = train_groups(context, grouping, config.recipe)
            evidence = evidence_on_test_set(context, ensemble)
            truth = federation.test_labels
            curve = certified_accuracy(config.guarantee("disjoint", grouping).certify(evidence), truth)
            alone = float(np.mean(evidence.votes == truth)) if evidence.votes is not None else 0.0
            cells = [f"{curve[m] if m < len(curve) else 0:.1%}" for m in tenths]
            print(f"| {name} | {alone:.1%} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
