"""Figure "empirical": test accuracy and attack success rate under known attacks, beside the single global model."""

import numpy as np

from flcert import attacks
from flcert.core.settings import Choice
from flcert.experiments.base_algorithms import ALGORITHMS, larger_groups, small_groups
from flcert.experiments.lab import Lab, with_rule
from flcert.experiments.options import Options
from flcert.experiments.outcome import Outcome, Row
from flcert.pipeline.attack import backdoor_for
from flcert.report.panels import LEVELS, Line, Panel
from flcert.runs.config import Config

UNTARGETED = {"FedAvg": "zero", "Krum": "krum", "Trimmed-mean": "trim", "Median": "trim", "FLTrust": "trim"}
METRICS = ("test accuracy", "attack success rate")


def empirical(lab: Lab, options: Options) -> Outcome:
    """Accuracy under untargeted attacks, and success of backdoors, against m, for five algorithms."""
    malicious = options.malicious or default_malicious(lab.federation.num_clients)
    rows: list[Row] = []
    notes = [
        f"In the single global model a share beta = {options.beta} of the clients takes part in a round.",
        "The success rate leaves out inputs whose true label is the target.",
    ]
    for algorithm, rule in ALGORITHMS.items():
        methods = {"single global model": lab.baseline("single", options.beta)}
        methods |= lab.variants(larger_groups(lab, options))
        for method, config in methods.items():
            chosen = with_rule(config, rule)
            notes += small_groups(lab, f"{method}, {algorithm}", chosen)
            for m in malicious:
                rows += [(algorithm, method, m, *measured) for measured in _measured(lab, algorithm, method, chosen, m)]
    return Outcome(
        title=f"Under known attacks, {lab.setting}, N = {larger_groups(lab, options):,}",
        header=("algorithm", "method", "m", "attack", "metric", "value"),
        rows=rows,
        panels=[_panel(rows, algorithm, metric) for metric in METRICS for algorithm in ALGORITHMS],
        columns=len(ALGORITHMS),
        note=" ".join(notes),
    )


def default_malicious(num_clients: int) -> tuple[int, ...]:
    """0, 1, and a few shares of the clients up to a fifth."""
    return tuple(sorted({0, 1, *(max(1, round(share * num_clients)) for share in (0.02, 0.05, 0.1, 0.2))}))


def _measured(lab: Lab, algorithm: str, method: str, config: Config, m: int) -> list[tuple[str, str, float]]:
    """Attack, metric and value: under the untargeted attack on this algorithm, and under the backdoor."""
    untargeted, backdoor = Choice(name=UNTARGETED[algorithm]), backdoor_for(lab.config)
    attack = attacks.build(backdoor)
    harmed = lab.ensemble(f"{method}, {algorithm}, {untargeted.name}, m = {m:,}", config, lab.plan(untargeted, m))
    accuracy = float(np.mean(lab.labels(harmed) == lab.truth))
    taken = lab.ensemble(f"{method}, {algorithm}, backdoor, m = {m:,}", config, lab.plan(backdoor, m))
    target, trigger = attack.target, attack.trigger  # type: ignore[attr-defined]
    labels = lab.labels(taken, trigger)
    success = float(np.mean(labels[lab.truth != target] == target))
    return [(untargeted.name, METRICS[0], accuracy), ("backdoor", METRICS[1], success)]


def _panel(rows: list[Row], algorithm: str, metric: str) -> Panel:
    methods = dict.fromkeys(str(row[1]) for row in rows)
    lines = [
        Line(
            method,
            [(float(row[2]), float(row[5])) for row in rows if (row[0], row[1], row[4]) == (algorithm, method, metric)],
            measured=True,
        )
        for method in methods
    ]
    return Panel(algorithm, LEVELS, metric, lines)
