"""Figure "comparison": FLCert-D and FLCert-P beside the single global model and CRFL."""

from flcert.experiments.lab import Lab, with_recipe
from flcert.experiments.options import Options
from flcert.experiments.outcome import Outcome, Panel, curve_line, curve_rows


def comparison(lab: Lab, options: Options) -> Outcome:
    """Certified accuracy against m."""
    configs = lab.variants()
    configs["single global model"] = lab.baseline("single", options.beta)
    configs["CRFL"] = with_recipe(lab.baseline("crfl", options.beta), smoothing={"copies": options.copies})
    curves = {name: lab.curve(lab.ensemble(name, config)) for name, config in configs.items()}
    length = max(len(curve) for curve in curves.values())
    return Outcome(
        header=("method", "m", "certified_accuracy"),
        rows=[row for name, curve in curves.items() for row in curve_rows((name,), curve, length)],
        panels=[
            Panel(
                lab.federation.name,
                "malicious clients m",
                "certified accuracy",
                [curve_line(name, curve, length) for name, curve in curves.items()],
            )
        ],
        note=f"In the single global model and CRFL a share beta = {options.beta} of the clients takes part in a round.",
    )
