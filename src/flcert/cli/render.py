"""Tables and sentences for the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flcert.certify import success_at
from flcert.errors import one_line
from flcert.report.points import Also, chosen_levels, levels_of_all, widened

if TYPE_CHECKING:
    from flcert.certify import Figures, Guarantee
    from flcert.report.targets import Target
    from flcert.report.trade import Trade
    from flcert.runs.records import AttackFigures
    from flcert.training import Ensemble


def curve_table(
    curve: NDArray[np.float64], num_inputs: int, accuracy: float | None, what: str, also: Sequence[Also] = ()
) -> Table:
    """A few rows of a curve, with further certificates and plain accuracy beside it if they are known."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("malicious clients m", justify="right")
    table.add_column(what, justify="right")
    table.add_column("inputs", justify="right")
    for other in also:
        table.add_column(other.title, justify="right")
    if accuracy is not None:
        table.add_column("accuracy without attack", justify="right")
    wide = widened(curve, also)
    for m in levels_of_all(curve, also):
        cells = [f"{m:,}", f"{wide[m]:.1%}", f"{round(wide[m] * num_inputs):,} of {num_inputs:,}"]
        cells += ["" if share is None else f"{share:.1%}" for share in (other.at(m) for other in also)]
        table.add_row(*cells, *([] if accuracy is None else [f"{accuracy:.1%}"]))
    return table


def of_test_set_table(figures: "Figures", curve: NDArray[np.float64], num_inputs: int) -> Table:
    """What a certificate of a whole test set says, beside certified accuracy."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("malicious clients m", "certified accuracy", figures.title):
        table.add_column(heading, justify="right")
    for m, inputs in (figures.inputs or {}).items():
        own = curve[m] if m < len(curve) else 0.0
        table.add_row(f"{m:,}", f"{own:.1%}", f"{inputs / num_inputs:.1%}")
    return table


def compression_table(before: NDArray[np.float64], after: NDArray[np.float64]) -> Table:
    """Certified accuracy of a run and of its compressed models."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("malicious clients m", "certified accuracy before", "after"):
        table.add_column(heading, justify="right")
    for m in chosen_levels(before):
        table.add_row(f"{m:,}", f"{before[m]:.1%}", f"{after[m] if m < len(after) else 0:.1%}")
    return table


def trade_table(trade: "Trade") -> Table:
    """Certified accuracy for several numbers of trusted votes."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("malicious clients m", justify="right")
    for votes in trade.curves:
        table.add_column(f"T = {votes:,}", justify="right")
    for m in trade.levels:
        table.add_row(f"{m:,}", *(f"{trade.at(votes, m):.1%}" for votes in trade.curves))
    return table


def target_table(target: "Target") -> Table:
    """How many inputs m clients can turn into a label at most."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    headings = ("malicious clients m", f"turned into {target.label} at most", "inputs", "plain levels imply at most")
    for heading in headings:
        table.add_column(heading, justify="right")
    for m in target.shown:
        share, implied = success_at(target.bound, m), success_at(target.implied, m)
        reached = f"{round(share * target.num_inputs):,} of {target.num_inputs:,}"
        table.add_row(f"{m:,}", f"{share:.1%}", reached, f"{implied:.1%}")
    return table


def groups_sentence(ensemble: "Ensemble") -> str:
    """How many groups were trained, were reused, or had nothing to train."""
    empty = int((ensemble.grouping.sizes == 0).sum())
    failed = len(ensemble.failures)
    repeats = len(ensemble.grouping) - empty - failed - ensemble.trained - ensemble.reused
    again = f" ({ensemble.damaged} because the stored model was damaged)" if ensemble.damaged else ""
    parts = [f"{ensemble.trained:,} groups trained{again}", f"{ensemble.reused:,} reused from the store"]
    others = {"empty": empty, "failed": failed, "the same clients as another": repeats}
    return ", ".join([*parts, *(f"{number:,} {what}" for what, number in others.items() if number > 0)])


def attack_sentence(figures: "AttackFigures", trained: int, guarantee: "Guarantee") -> str:
    """What a simulated attack did, how many groups were trained for it, and what no attack of its kind can do."""
    text = (
        f"Simulated attack {figures.name!r} by {figures.malicious:,} clients "
        f"in {figures.groups_attacked:,} groups ({trained:,} trained for it): "
        f"accuracy {figures.accuracy_under_attack:.1%} instead of {figures.accuracy_without_attack:.1%}; "
        f"{figures.certified_changed:,} of the {figures.certified:,} certified labels changed."
    )
    before, after = figures.success_rate_without_attack, figures.success_rate_under_attack
    if before is None or after is None:
        return text
    text += f" The backdoor succeeded on {after:.1%} of stamped inputs, {before:.1%} without attack."
    if figures.success_rate_at_most is None:
        return text
    most = f"succeeds on more than {figures.success_rate_at_most:.1%} of them"
    return f"{text} {guarantee.proved}: no backdoor with this trigger and target by as many clients {most}."


def output() -> Console:
    """Standard output; as wide as the text needs if it is not a terminal."""
    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=1000)


def warn(message: str) -> None:
    """A warning on standard error."""
    Console(stderr=True, highlight=False, soft_wrap=True).print("[yellow]warning:[/]", Text(one_line(message)))
