"""A plan in words: the sentences below its table, each made from the numbers in the table."""

from collections.abc import Iterable

from flcert.pipeline.agreement import Reach
from flcert.pipeline.plan import Overview, Plan
from flcert.pipeline.plan_setting import Setting

LEAST_TOLD = 0.05  # the average number of empty groups that is worth a row


def cell(reach: Reach) -> str:
    """A level in a table; what is not certified has none."""
    return f"{reach.level:,}" if reach.certified else "none" if reach.wins else "outvoted"


def largest(plan: Plan) -> str:
    """The largest certifiable m in a table."""
    return cell(Reach(plan.largest_level, plan.can_certify))


def likely(plan: Plan) -> str:
    """The same, with as many empty groups as there are on average."""
    return f"{plan.likely_level:,}" if has_empty(plan) else largest(plan)


def agreeing(plan: Plan, *, opposed: bool = False) -> str:
    """How many groups must agree, in a table."""
    if plan.needed is None or (opposed and plan.opposed is None):
        return ""
    if plan.needed.unknown:
        return "unknown"
    number = plan.needed.opposed if opposed else plan.needed.agreeing
    return "impossible" if number is None else f"{number:,} of {plan.likely_votes:,}"


def has_empty(plan: Plan) -> bool:
    """Whether a grouping leaves enough groups empty to speak of."""
    return plan.expected_empty_groups >= LEAST_TOLD and plan.likely_votes < plan.num_groups


def empty_elsewhere(found: Overview) -> list[str]:
    """The sentences about groupings beside the configured one that are likely to leave groups empty."""
    return [
        f"{label} leaves {plan.expected_empty_groups:,.1f} of N = {plan.num_groups:,} groups empty on average; "
        f"its largest m is that of {plan.likely_votes:,} groups."
        for label, plan in found.plans.items()
        if label != found.own and has_empty(plan)
    ]


def remarks(found: Overview) -> list[str]:
    """The sentences about the plans."""
    said = [f"{label} is not possible: {reason}." for label, reason in found.obstacles.items()]
    for label, plan in found.plans.items():
        said += _of_plan(label, plan, found.setting)
    return said


def _of_plan(label: str, plan: Plan, setting: Setting) -> Iterable[str]:
    groups = f"N = {plan.num_groups:,}"
    if not plan.can_certify:
        yield f"{label} can certify nothing with {groups}{_what_it_takes(plan, setting)}."
    elif plan.largest_level == 0:
        yield f"{label} can certify with {groups}, but only if no client is malicious."
    if plan.opposed and not plan.opposed.wins:
        yield (
            f"{setting.trusted:,} trusted votes outvote all {plan.num_groups:,} groups of {label}: "
            "where the trusted model is wrong, so is the ensemble."
        )
    if plan.needed and plan.needed.unknown:
        yield f"{label}: how many groups must agree is unknown: {plan.needed.unknown}."
    for title, reason in plan.unplanned.items():
        yield f"The certificate {title!r} cannot be planned: {reason}."


def _what_it_takes(plan: Plan, setting: Setting) -> str:
    if not plan.probabilistic or plan.least_groups is None or plan.least_groups <= plan.num_groups:
        return ""
    size = round(plan.group_size)
    return (
        f": for D = {setting.num_inputs:,} test inputs and alpha = {setting.certificate.alpha} it needs at least "
        f"{plan.least_groups:,} groups of {size:,}"
    )
