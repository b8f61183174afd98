"""Tables and sentences for the terminal."""

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from flcert.report.points import chosen_levels


def curve_table(curve: NDArray[np.float64], num_inputs: int, accuracy: float | None, what: str) -> Table:
    """A few rows of a curve, with plain accuracy beside it where it is known."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("malicious clients m", justify="right")
    table.add_column(what, justify="right")
    table.add_column("inputs", justify="right")
    if accuracy is not None:
        table.add_column("accuracy without attack", justify="right")
    for m in chosen_levels(curve):
        cells = [f"{m:,}", f"{curve[m]:.1%}", f"{round(curve[m] * num_inputs):,} of {num_inputs:,}"]
        table.add_row(*cells, *([] if accuracy is None else [f"{accuracy:.1%}"]))
    return table


def output() -> Console:
    """Standard output, as wide as the text needs where it is not a terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=1000)


def warn(message: str) -> None:
    """A warning on standard error."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[yellow]warning:[/] {message}")
