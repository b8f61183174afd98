"""Figure "untargeted and backdoor attacks": certified accuracy on clean and on stamped inputs."""

from flcert import attacks
from flcert.experiments.lab import Lab
from flcert.experiments.options import Options
from flcert.experiments.outcome import Curve, Outcome, outcome_of_both
from flcert.pipeline.attack import backdoor_for


def backdoor(lab: Lab, _options: Options) -> Outcome:
    """Certified accuracy against m on test inputs without and with the trigger, for P and D."""
    trigger = attacks.build(backdoor_for(lab.config)).trigger  # type: ignore[attr-defined]
    curves: dict[tuple[str, str | int], Curve] = {}
    for name, config in lab.variants().items():
        ensemble = lab.ensemble(name, config)
        curves[name, "clean"] = lab.curve(ensemble)
        curves[name, "with trigger"] = lab.curve(ensemble, trigger)
    note = f"Trigger {trigger.name!r} on every test input. No client attacks here: the curves are what is proved."
    return outcome_of_both("inputs", curves, note)
