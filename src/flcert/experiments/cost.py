"""Figure "trade-off (a)": certified accuracy against the rounds T_e, beside the cost of the single global model."""

from flcert.experiments.lab import Lab, with_recipe
from flcert.experiments.options import Options
from flcert.experiments.outcome import Outcome, Row, at
from flcert.grouping import share_of_rounds
from flcert.report.panels import CERTIFIED, Line, Panel

SHARES = (0.1, 0.25, 0.5, 1.0)  # of T_e


def cost(lab: Lab, options: Options) -> Outcome:
    """CA@m after several numbers of rounds, for P and D."""
    recipe = lab.config.recipe
    m = options.malicious[0] if options.malicious else lab.num_groups // 5
    snapshots = tuple(sorted({max(1, round(share * recipe.rounds)) for share in SHARES}))
    rows: list[Row] = []
    for name, config in lab.variants().items():
        ensemble = lab.ensemble(name, with_recipe(config, evaluate_at=snapshots))
        rows += [(name, m, number, at(lab.curve(ensemble, rounds=number), m)) for number in snapshots]
    rounds = options.single_rounds or 5 * recipe.rounds
    clients = lab.federation.num_clients
    load = lab.config.grouping.load(clients, recipe.participation)
    equal = share_of_rounds(clients, options.beta) * rounds / load.share_of_rounds
    lines = [
        Line(name, [(float(row[2]), float(row[3])) for row in rows if row[0] == name], measured=True)
        for name in reversed(lab.variants())
    ]
    return Outcome(
        title=f"Certified accuracy for m = {m:,} by rounds of training, {lab.setting}, N = {lab.num_groups:,}",
        header=("method", "m", "rounds", "certified_accuracy"),
        rows=rows,
        panels=[
            Panel(
                "",
                "rounds T_e",
                CERTIFIED,
                lines,
                marked=(equal, f"cost of the single model (T = {rounds:,}, beta = {options.beta})"),
            )
        ],
        note=f"Left of T_e = {equal:.4g} a client of FLCert-D has less to do than for a single global model with "
        f"T = {rounds:,} rounds and beta = {options.beta}; one of FLCert-P too, if it is in one group.",
    )
