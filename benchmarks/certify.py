"""How long the certificates take: ``flcert.certify.disjoint`` and ``flcert.certify.sampled`` on random votes.

The votes of 500 groups for 10 labels are drawn from multinomials whose probabilities come from Dirichlet
distributions, from nearly even to nearly unanimous, so that the counts of the top label cover many values (the time
of ``sampled`` grows with the number of distinct ones above a half). Inputs are rows of a table of 2,000 such draws.

Run it with ``python benchmarks/certify.py``; ``--help`` lists the options.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from flcert import certify

NUM_LABELS = 10
NUM_GROUPS = 500
DISTINCT_ROWS = 2_000


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Args:
        certificate: what is called, in words.
        num_inputs: rows of the vote counts.
        call: the certificate, as a function of the vote counts.
        target: seconds that it should take at most.
    """

    certificate: str
    num_inputs: int
    call: Callable[[NDArray[np.int64]], certify.Certificate]
    target: float


CASES = (
    Case("disjoint", 10_000, certify.disjoint, 0.010),
    Case("sampled, n=1,000, k=2", 10_000, partial(certify.sampled, num_clients=1_000, group_size=2), 0.100),
    Case("sampled, n=80,000, k=160", 10_000, partial(certify.sampled, num_clients=80_000, group_size=160), 2.0),
    Case("disjoint", 1_000_000, certify.disjoint, 2.0),
    Case("sampled, n=1,000, k=2", 1_000_000, partial(certify.sampled, num_clients=1_000, group_size=2), 2.0),
)


def random_votes(num_inputs: int, seed: int) -> NDArray[np.int64]:
    """Vote counts, (inputs x labels), whose rows are drawn from a table of distinct ones."""
    generator = np.random.default_rng(seed)
    concentrations = np.exp(generator.uniform(np.log(0.01), np.log(1.0), DISTINCT_ROWS))
    gammas = generator.gamma(concentrations[:, None], size=(DISTINCT_ROWS, NUM_LABELS)) + 1e-300
    rows = generator.multinomial(NUM_GROUPS, gammas / gammas.sum(axis=1, keepdims=True))
    return rows[generator.integers(DISTINCT_ROWS, size=num_inputs)]


def timings(call: Callable[[], object], repeats: int) -> Iterator[float]:
    """The seconds of each of several calls, after one that is not counted."""
    call()
    for _ in range(repeats):
        start = perf_counter()
        call()
        yield perf_counter() - start


def measured_row(case: Case, repeats: int, seed: int) -> tuple[str, ...]:
    """The cells of one case."""
    votes = random_votes(case.num_inputs, seed)
    seconds = list(timings(partial(case.call, votes), repeats))
    met = "yes" if median(seconds) <= case.target else "NO"
    cells = (_milliseconds(min(seconds)), _milliseconds(median(seconds)), _milliseconds(case.target), met)
    return (case.certificate, f"{case.num_inputs:,}", str(len(np.unique(votes.max(axis=1)))), *cells)


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:,.1f}"


def main() -> None:
    """Measure all cases and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7, help="timed calls of each case (default: 7)")
    parser.add_argument("--seed", type=int, default=0, help="of the votes (default: 0)")
    options = parser.parse_args()
    table = Table(title=f"Certificates of {NUM_GROUPS} groups' votes for {NUM_LABELS} labels (ms)")
    table.add_column("certificate")
    for heading in ("inputs", "top counts", "best", "median", "target", "met"):
        table.add_column(heading, justify="right")
    for case in CASES:
        table.add_row(*measured_row(case, options.repeats, options.seed))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
