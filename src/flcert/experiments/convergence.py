"""Figure "trade-off (b)": accuracy by round, of one group's model and of the single global model."""

from dataclasses import replace

import numpy as np

from flcert.experiments.lab import Lab, with_recipe
from flcert.experiments.options import Options
from flcert.experiments.outcome import Outcome, Row
from flcert.report.panels import Line, Panel
from flcert.runs.config import Config

POINTS = 20


def convergence(lab: Lab, options: Options) -> Outcome:
    """Test accuracy without attack, by round."""
    single = lab.baseline("single", options.beta)
    rounds = options.single_rounds or 5 * lab.config.recipe.rounds
    trained = {f"a group of {name}": (config, lab.config.recipe.rounds) for name, config in lab.variants().items()}
    trained["single global model"] = (single, rounds)
    rows: list[Row] = []
    for name, (config, last) in trained.items():
        lab.announce(f"{name}, {last:,} rounds")
        rows += [(name, number, accuracy) for number, accuracy in _accuracies(lab, name, config, last)]
    lines = [
        Line(name, [(float(row[1]), float(row[2])) for row in rows if row[0] == name], measured=True)
        for name in trained
    ]
    return Outcome(
        title=f"Test accuracy by round, {lab.setting}, N = {lab.num_groups:,}",
        header=("model", "round", "accuracy"),
        rows=rows,
        panels=[Panel("", "rounds", "test accuracy", lines)],
        note=f"The first group with clients; in the single global model a share beta = {options.beta} of the clients "
        "takes part in a round.",
    )


def _accuracies(lab: Lab, name: str, config: Config, rounds: int) -> list[tuple[int, float]]:
    """The accuracy of the first group's model at up to twenty points along the rounds."""
    snapshots = tuple(sorted({max(1, round(rounds * step / POINTS)) for step in range(1, POINTS + 1)}))
    everyone = lab.grouping(config)
    first = next(members for members in everyone.members if len(members))
    one = replace(everyone, members=(first,))
    ensemble = lab.train(name, one, with_recipe(config, rounds=rounds, evaluate_at=snapshots))
    right = [(number, lab.labels(ensemble, rounds=number) == lab.truth) for number in snapshots]
    return [(number, float(np.mean(kept))) for number, kept in right]
