"""What ``flcert plan`` prints and draws."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from flcert.cli.render import output
from flcert.core.files import write_atomic
from flcert.errors import InputError
from flcert.pipeline.plan import Overview, Plan, agreement_curve
from flcert.pipeline.plan_config import Clients, Planned
from flcert.pipeline.plan_setting import Setting
from flcert.pipeline.plan_words import agreeing, cell, empty_elsewhere, has_empty, largest, likely, remarks

SINGLE = "single global model"
FORMS = ("svg", "png", "pdf")


def told(found: Planned, single: Plan) -> dict[str, Any]:
    """All that is printed, and what it is computed from, as JSON values; a list of plans for several numbers of groups.

    Args:
        found: the plans.
        single: that of the single global model.
    """
    each = [_told(one, single) for one in found.overviews]
    facts = {"clients": asdict(found.clients), "lacking": found.lacking, "sentences": sentences(found)}
    return {**facts, **each[0]} if len(each) == 1 else {**facts, "overviews": each}


def _told(found: Overview, single: Plan) -> dict[str, Any]:
    setting = found.setting
    without = setting.without
    sizes = {
        **asdict(setting.sizes),
        "rounds": setting.rounds,
        "participation": setting.participation,
        "num_parameters": setting.model.numbers,
        "num_without": without.numbers if without else 0,
        "num_inputs": setting.num_inputs,
        "num_labels": setting.num_labels,
        "bytes_a_round": setting.model.sent,
        "bytes_a_model": setting.model.stored,
        "bytes_without": [without.sent, without.stored] if without else None,
        "trusted": setting.trusted,
        **setting.certificate.model_dump(exclude={"also"}),
    }
    plans = {name: asdict(one) for name, one in {**found.plans, SINGLE: single}.items()}
    return {
        "sizes": sizes,
        "grouping": found.groupings[found.own].model_dump(mode="json"),
        "own": found.own,
        "plans": plans,
        "obstacles": found.obstacles,
    }


def print_planned(found: Planned, single: Plan) -> None:
    """Print the plans: groupings side by side, or numbers of groups one below the other."""
    console, setting = output(), found.overviews[0].setting
    console.print(_heading(found.clients, found.overviews), soft_wrap=True)
    if len(found.overviews) == 1:
        console.print(_side_by_side({**found.overviews[0].plans, SINGLE: single}, setting))
    else:
        console.print(_by_groups(found.overviews, single))
        console.print()
        console.print(_beside(found.overviews))
    for text in sentences(found):
        console.print(f"\n{text}")


def sentences(found: Planned) -> list[str]:
    """What is said below the tables, each thing once."""
    said = [text for one in found.overviews for text in remarks(one)]
    if len(found.overviews) > 1:  # otherwise there are rows about empty groups
        said += [text for one in found.overviews for text in empty_elsewhere(one)]
    return list(dict.fromkeys([*said, *_about_data(found), *_about_ties(found.overviews)]))


def _heading(clients: Clients, found: Sequence[Overview]) -> str:
    setting, numbers = found[0].setting, ", ".join(f"{one.setting.sizes.num_groups:,}" for one in found)
    left_out = f", without {clients.forgotten:,} forgotten" if clients.forgotten else ""
    text = f"n = {clients.number:,} clients ({clients.known_from}{left_out}), N = {numbers} groups"
    if any(plan.probabilistic for one in found for plan in one.plans.values()):
        proof = setting.certificate
        text += f"; D = {setting.num_inputs:,} test inputs share alpha = {proof.alpha}, selection {proof.selection!r}"
        text += f", tails {proof.tails!r}" if proof.tails != "one" else ""
        text += ", distinct draws" if getattr(found[0].groupings[found[0].own], "distinct", False) else ""
    return text + (f"; {setting.trusted:,} trusted votes" if setting.trusted else "") + "\n"


Row = tuple[str, Callable[[Plan], str]]


def _rows(plans: Sequence[Plan], setting: Setting) -> list[Row]:
    """The rows of a table that say something, by their heading."""
    titles = list(dict.fromkeys(title for plan in plans for title in plan.also))
    return [
        ("clients in a group, on average", lambda plan: f"{plan.group_size:,.1f}"),
        *_rows_of_costs(setting),
        *_rows_of_levels(plans, setting),
        *((f"largest m, {title}", _also(title)) for title in titles),
        *_rows_of_agreement(plans, setting),
    ]


def _rows_of_costs(setting: Setting) -> list[Row]:
    rows: list[Row] = [
        ("groups of a client, on average", lambda plan: f"{plan.models_a_client:,.2f}"),
        ("rounds of a client, expected", lambda plan: f"{plan.rounds_a_client:,.1f}"),
    ]
    if not setting.model.numbers:
        return rows
    return [
        *rows,
        ("its traffic, both ways", lambda plan: as_bytes(plan.bytes_a_client)),
        ("sent in a round", lambda _: as_bytes(setting.model.sent)),
        ("stored by the server", lambda plan: as_bytes(plan.bytes_stored)),
    ]


def _rows_of_levels(plans: Sequence[Plan], setting: Setting) -> list[Row]:
    title = "largest m, trusted model agrees" if setting.trusted else "largest certifiable m"
    rows: list[Row] = [(title, largest)]
    if setting.trusted:
        rows.append(("largest m, it disagrees", lambda plan: cell(plan.opposed) if plan.opposed else ""))
    if any(map(has_empty, plans)):
        rows.append(("groups left empty, on average", lambda plan: f"{plan.expected_empty_groups:.1f}"))
        rows.append((f"{title}, with those empty", likely))
    if any(plan.least_groups != 1 for plan in plans):
        rows.append(("fewest groups that certify anything", _least))
    return rows


def _rows_of_agreement(plans: Sequence[Plan], setting: Setting) -> list[Row]:
    level = next((plan.needed.level for plan in plans if plan.needed), None)
    if level is None:
        return []
    rows: list[Row] = [(f"groups that must agree for m = {level:,}", agreeing)]
    if setting.trusted:
        rows.append(("the same, trusted model disagrees", lambda plan: agreeing(plan, opposed=True)))
    return rows


def _also(title: str) -> Callable[[Plan], str]:
    return lambda plan: cell(plan.also[title]) if title in plan.also else ""


def _least(plan: Plan) -> str:
    return "unknown" if plan.least_groups is None else f"{plan.least_groups:,}"


def _side_by_side(plans: dict[str, Plan], setting: Setting) -> Table:
    """A column for each grouping."""
    table = _table(["", *plans])
    for title, text in _rows(list(plans.values()), setting):
        table.add_row(title, *map(text, plans.values()))
    return table


def _by_groups(found: Sequence[Overview], single: Plan) -> Table:
    """The configured grouping, a column for each number of groups, and the single global model."""
    plans = {f"N = {one.setting.sizes.num_groups:,}": one.plans.get(one.own) for one in found} | {SINGLE: single}
    table = _table([found[0].own, *plans])
    for title, text in _rows([plan for plan in plans.values() if plan], found[0].setting):
        table.add_row(title, *(text(plan) if plan else "not possible" for plan in plans.values()))
    return table


def _beside(found: Sequence[Overview]) -> Table:
    """The largest level with other groupings and their likely empty groups, a column for each number of groups."""
    others = [name for name in dict.fromkeys(name for one in found for name in one.groupings) if name != found[0].own]
    title = (
        "largest m elsewhere, trusted model agrees" if found[0].setting.trusted else "largest certifiable m elsewhere"
    )
    table = _table([title, *(f"N = {one.setting.sizes.num_groups:,}" for one in found)])
    for name in others:
        plans = (one.plans.get(name) for one in found)
        table.add_row(name, *(likely(plan) if plan else "not possible" for plan in plans))
    return table


def _table(headings: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    return table


def _about_data(found: Planned) -> list[str]:
    said, setting = [], found.overviews[0].setting
    if found.clients.unread:
        said.append(f"The data cannot be read here: {found.clients.unread}.")
    if setting.without:
        sent, stored = as_bytes(setting.without.sent), as_bytes(setting.without.stored)
        said.append(f"Without public features a client would send {sent} in a round, and a stored model have {stored}.")
    if found.lacking:
        said.append(f"The model cannot be built here: {found.lacking}.")
    elif not setting.model.numbers:
        said.append("For a client's traffic give --parameters, a configuration or a --preset.")
    return said


def _about_ties(found: Sequence[Overview]) -> list[str]:
    """What the rows of groups that must agree mean; with several numbers they are of the configured kind alone."""
    shown = {
        label: plan
        for one in found
        for label, plan in one.plans.items()
        if plan.needed is not None and (len(found) == 1 or label == one.own)
    }
    if not shown:
        return []
    with_ties = [label for label, plan in shown.items() if plan.certifies_ties]
    where = f" with {' or '.join(with_ties)}" if len(with_ties) < len(shown) else ""
    ties = f" A label that loses ties may need one more{where}." if with_ties else ""
    return [f"Groups that must agree: whatever the others vote.{ties}"]


def check_figure(path: Path) -> str:
    """The form of a figure, from the end of its name."""
    form = path.suffix.removeprefix(".")
    if form not in FORMS:
        raise InputError(f"--figure must end in .svg, .png or .pdf, got {path.name!r}")
    return form


def draw(found: Planned, path: Path) -> None:
    """Draw the share of groups that must agree, for each number of groups, or for each grouping if there is one number.

    Args:
        found: the plans.
        path: the file.
    """
    from flcert.report.drawing import rendered  # Matplotlib loads slowly
    from flcert.report.figures import agreement_figure

    one_number = len(found.overviews) == 1
    chosen = {
        label if one_number else f"N = {one.setting.sizes.num_groups:,}": (one.groupings[label], one.setting)
        for one in found.overviews
        for label in one.plans
        if one_number or label == one.own
    }
    curves = {name: agreement_curve(*which) for name, which in chosen.items()}
    first = found.overviews[0]
    trusted = first.setting.trusted > 0
    opposed = {name: agreement_curve(*which, opposed=True) for name, which in chosen.items()} if trusted else None
    title = f"N = {first.setting.sizes.num_groups:,}" if one_number else first.own
    picture = agreement_figure(curves, f"{title}, n = {found.clients.number:,} clients", opposed)
    write_atomic(path, rendered(picture, check_figure(path)))


def as_bytes(number: int) -> str:
    """A number of bytes for people.

    >>> as_bytes(999), as_bytes(559_840)
    ('999 B', '559.8 kB')
    """
    value, units = float(number), ("B", "kB", "MB", "GB", "TB", "PB")
    for unit in units:
        if value < 1000 or unit == units[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("the last unit takes any number")
