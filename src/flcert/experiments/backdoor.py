"""Figure "untargeted and backdoor attacks": certified accuracy on clean and on stamped inputs."""

from flcert import attacks
from flcert.backdoors import backdoor_for
from flcert.experiments.lab import Lab
from flcert.experiments.options import Options
from flcert.experiments.outcome import Outcome, Panel, curve_line, curve_rows


def backdoor(lab: Lab, _options: Options) -> Outcome:
    """Certified accuracy against m on test inputs without and with the trigger, for P and D."""
    trigger = attacks.build(backdoor_for(lab.config)).trigger  # type: ignore[attr-defined]
    curves = {}
    for name, config in lab.variants().items():
        ensemble = lab.ensemble(name, config)
        curves[name, "clean"] = lab.curve(ensemble)
        curves[name, "with trigger"] = lab.curve(ensemble, trigger)
    length = max(len(curve) for curve in curves.values())
    return Outcome(
        header=("method", "inputs", "m", "certified_accuracy"),
        rows=[row for key, curve in curves.items() for row in curve_rows(key, curve, length)],
        panels=[
            Panel(
                name,
                "malicious clients m",
                "certified accuracy",
                [curve_line(inputs, curves[name, inputs], length) for inputs in ("clean", "with trigger")],
            )
            for name in ("FLCert-P", "FLCert-D")
        ],
        columns=2,
        note=f"Trigger {trigger.name!r} on every test input. No client attacks here: the curves are what is proved.",
    )
