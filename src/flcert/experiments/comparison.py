"""Figure "comparison": FLCert-D and FLCert-P beside the single global model and CRFL."""

from flcert.experiments.lab import Lab, with_recipe
from flcert.experiments.options import Options
from flcert.experiments.outcome import Outcome, curve_line, curve_rows
from flcert.report.panels import CERTIFIED, LEVELS, Panel
from flcert.training.smoothing import Smoothing


def comparison(lab: Lab, options: Options) -> Outcome:
    """Certified accuracy against m; only CRFL is smoothed, with the recipe's smoothing if it has any."""
    configs = {**lab.variants(), "single global model": lab.baseline("single", options.beta)}
    configs = {name: with_recipe(config, smoothing=None) for name, config in configs.items()}
    smoothing = lab.config.recipe.smoothing or Smoothing()
    configs["CRFL"] = with_recipe(
        lab.baseline("crfl", options.beta), smoothing={**smoothing.model_dump(), "copies": options.copies}
    )
    curves = {name: lab.curve(lab.ensemble(name, config)) for name, config in configs.items()}
    length = max(len(curve) for curve in curves.values())
    return Outcome(
        title=f"Certified accuracy, {lab.setting}, N = {lab.num_groups:,}",
        header=("method", "m", "certified_accuracy"),
        rows=[row for name, curve in curves.items() for row in curve_rows((name,), curve, length)],
        panels=[Panel("", LEVELS, CERTIFIED, [curve_line(name, curve, length) for name, curve in curves.items()])],
        note=f"In the single global model and CRFL a share beta = {options.beta} of the clients takes part in a round.",
    )
