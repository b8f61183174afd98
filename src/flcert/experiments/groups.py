"""Figure "impact of N": more groups withstand more malicious clients and are less accurate."""

from flcert.experiments.lab import Lab
from flcert.experiments.options import Options
from flcert.experiments.outcome import Outcome, Panel, curve_line, curve_rows


def groups(lab: Lab, options: Options) -> Outcome:
    """Certified accuracy against m for several N, for P and D."""
    number = lab.num_groups
    numbers = options.groups or tuple(sorted({max(2, number // 5), max(2, 2 * number // 5), number}))
    curves = {
        (name, chosen): lab.curve(lab.ensemble(f"{name}, N = {chosen:,}", config))
        for chosen in numbers
        for name, config in lab.variants(chosen).items()
    }
    length = max(len(curve) for curve in curves.values())
    return Outcome(
        header=("method", "groups", "m", "certified_accuracy"),
        rows=[row for key, curve in curves.items() for row in curve_rows(key, curve, length)],
        panels=[
            Panel(
                name,
                "malicious clients m",
                "certified accuracy",
                [curve_line(f"N = {chosen:,}", curves[name, chosen], length) for chosen in numbers],
            )
            for name in ("FLCert-P", "FLCert-D")
        ],
        columns=2,
    )
