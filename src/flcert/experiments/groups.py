"""Figure "impact of N": more groups withstand more malicious clients but are less accurate."""

from flcert.experiments.lab import Lab
from flcert.experiments.options import Options
from flcert.experiments.outcome import Curve, Outcome, outcome_of_both


def groups(lab: Lab, options: Options) -> Outcome:
    """Certified accuracy against m for several N, for P and D."""
    number = lab.num_groups
    numbers = options.groups or tuple(sorted({max(2, number // 5), max(2, 2 * number // 5), number}))
    curves: dict[tuple[str, str | int], Curve] = {
        (name, chosen): lab.curve(lab.ensemble(f"{name}, N = {chosen:,}", config))
        for chosen in numbers
        for name, config in lab.variants(chosen).items()
    }
    return outcome_of_both(f"Certified accuracy for several numbers of groups N, {lab.setting}", "groups", curves)
