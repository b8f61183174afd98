"""Figure "different base FL algorithms": the five rules, in groups that are large enough for them."""

from flcert.experiments.lab import Lab, with_rule
from flcert.experiments.options import Options
from flcert.experiments.outcome import Curve, Outcome, outcome_of_both
from flcert.runs.config import Config
from flcert.training.rounds import substitutes

ALGORITHMS = {
    "FedAvg": "fedavg",
    "Krum": "krum",
    "Trimmed-mean": "trimmed-mean",
    "Median": "median",
    "FLTrust": "fltrust",
}
CLIENTS_IN_A_GROUP = 5  # the paper: N = 200 for 1,000 clients, because Krum and others need more than two


def base_algorithms(lab: Lab, options: Options) -> Outcome:
    """Certified accuracy against m with each base algorithm, for P and D."""
    number = larger_groups(lab, options)
    curves: dict[tuple[str, str | int], Curve] = {}
    notes = [f"N = {number:,} groups."]
    for algorithm, rule in ALGORITHMS.items():
        for name, config in lab.variants(number).items():
            chosen = with_rule(config, rule)
            curves[name, algorithm] = lab.curve(lab.ensemble(f"{name}, {algorithm}", chosen))
            notes += small_groups(lab, f"{name}, {algorithm}", chosen)
    title = f"Certified accuracy with each base algorithm, {lab.setting}, N = {number:,}"
    return outcome_of_both(title, "algorithm", curves, " ".join(notes))


def small_groups(lab: Lab, name: str, config: Config) -> list[str]:
    """A sentence if some groups are too small for their rule."""
    sizes = lab.grouping(config).sizes.tolist()
    found = substitutes(config.recipe, sizes)
    if not found:
        return []
    rules = " or ".join(sorted(set(found.values())))
    return [f"{name}: the {rules} acts in groups too small for the rule, {len(found):,} of {len(sizes):,}."]


def larger_groups(lab: Lab, options: Options) -> int:
    """N for five clients per group, unless the user chose N."""
    return options.groups[0] if options.groups else max(2, lab.federation.num_clients // CLIENTS_IN_A_GROUP)
