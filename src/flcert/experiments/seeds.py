"""Figure "impact of seeds": mean and standard deviation over distinct pairs of hash and training seeds."""

import numpy as np

from flcert.experiments.lab import Lab
from flcert.experiments.options import Options
from flcert.experiments.outcome import Outcome, Row, at
from flcert.report.panels import CERTIFIED, LEVELS, Line, Panel


def seeds(lab: Lab, options: Options) -> Outcome:
    """Mean and standard deviation of CA@m over ``repeats`` pairs of seeds, for P and D."""
    curves = {
        name: [
            lab.curve(lab.ensemble(f"{name}, seeds {number} of {options.repeats}", config.reseeded(number)))
            for number in range(options.repeats)
        ]
        for name, config in lab.variants().items()
    }
    length = max(len(curve) for trials in curves.values() for curve in trials)
    rows: list[Row] = []
    panels = []
    for name, trials in curves.items():
        table = np.array([[at(curve, m) for m in range(length)] for curve in trials])
        mean, spread = table.mean(axis=0), table.std(axis=0, ddof=1)
        rows += [(name, m, float(mean[m]), float(spread[m]), len(trials)) for m in range(length)]
        band = list(zip((mean - spread).tolist(), (mean + spread).tolist(), strict=True))
        line = Line(f"{name}, mean and standard deviation", list(enumerate(mean.tolist())), band)
        panels.append(Panel(name, LEVELS, CERTIFIED, [line]))
    return Outcome(
        title=f"Certified accuracy over {options.repeats} pairs of seeds, {lab.setting}, N = {lab.num_groups:,}",
        header=("method", "m", "mean", "standard_deviation", "repeats"),
        rows=rows,
        panels=panels[::-1],
        columns=2,
    )
