"""Figure "untargeted and backdoor attacks": what is certified on clean and on stamped inputs."""

from collections.abc import Mapping
from dataclasses import replace

from flcert import attacks
from flcert.certify import implied_levels, success_at, targeted_success
from flcert.core.settings import Choice
from flcert.experiments.lab import Lab
from flcert.experiments.options import Options
from flcert.experiments.outcome import Curve, Outcome, outcome_of_both
from flcert.pipeline.attack import backdoor_for
from flcert.report.panels import LEVELS, Line, Panel
from flcert.training import Ensemble

CLEAN, STAMPED = "clean", "with trigger"
LINES = ("bound for this target", "bound from plain levels")

Bounds = tuple[Curve, Curve]  # on attack success by m: for the target, and what plain levels imply


def backdoor(lab: Lab, _options: Options) -> Outcome:
    """Certified accuracy, and a bound on attack success, on test inputs without and with the trigger, for P and D."""
    attack = attacks.build(backdoor_for(lab.config))
    trigger, target = attack.trigger, attack.target  # type: ignore[attr-defined]
    curves: dict[tuple[str, str | int], Curve] = {}
    bounds: dict[tuple[str, str | int], Bounds] = {}
    for name, config in lab.variants().items():
        ensemble = lab.ensemble(name, config)
        for inputs, stamp in ((CLEAN, None), (STAMPED, trigger)):
            curves[name, inputs] = lab.curve(ensemble, stamp)
            bounds[name, inputs] = _bounds(lab, ensemble, target, stamp)
    note = (
        f"Trigger {trigger.name!r} on every test input, target {target}. No client attacks here: the curves are what "
        "is proved. Attack success leaves out inputs whose true label is the target. Its bounds on inputs with the "
        "trigger hold for every backdoor with this trigger and target; those on clean inputs, in the table, for "
        "turning inputs as they are into the target."
    )
    title = f"Certified accuracy and backdoor success, {lab.setting}, N = {lab.num_groups:,}"
    return _with_bounds(outcome_of_both(title, "inputs", curves, note), bounds)


def _bounds(lab: Lab, ensemble: Ensemble, target: int, trigger: Choice | None) -> Bounds:
    """The share of inputs that m clients can turn into the target at most."""
    evidence, guarantee = lab.asked(ensemble, trigger)
    levels = guarantee.target_levels(evidence, target)
    assert levels is not None  # the certificates of the paper's methods can tell
    implied = implied_levels(guarantee.certify(evidence), target)
    return targeted_success(levels, lab.truth, target), targeted_success(implied, lab.truth, target)


def _with_bounds(outcome: Outcome, bounds: Mapping[tuple[str, str | int], Bounds]) -> Outcome:
    """The outcome with two more columns, and a panel below each."""
    rows = [
        (*row, *(success_at(bound, int(row[2])) for bound in bounds[str(row[0]), str(row[1])])) for row in outcome.rows
    ]
    length = max(int(row[2]) for row in rows) + 1
    panels = []
    for panel in outcome.panels:
        lines = [
            Line(label, [(m, success_at(bound, m)) for m in range(length)])
            for label, bound in zip(LINES, bounds[panel.title, STAMPED], strict=True)
        ]
        panels.append(Panel(f"{panel.title}, inputs with trigger", LEVELS, "attack success, at most", lines))
    header = (*outcome.header, "success_at_most", "plain_levels_imply_at_most")
    return replace(outcome, header=header, rows=rows, panels=[*outcome.panels, *panels])
