"""Where a run's certified accuracy comes from: the accuracy of its models by the size of their groups.

Hashing leaves some groups empty and makes others large. Beside the run's own CA@m this prints what it would be if
500 groups (or as many as the run has) voted whose models are drawn, with repetition, from the run's own: from all of
them, from groups of two clients, and from groups of at least two.

Run it with ``python benchmarks/sizes.py RUN 100``, where 100 is m.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from flcert import certify, voting
from flcert.runs.directory import RunDirectory

DRAWS = 20


def certified(votes: NDArray[np.integer], truth: NDArray[np.integer], level: int) -> float:
    """CA@level of disjoint groups with these votes."""
    certificate = certify.disjoint(voting.count(votes))
    return float(np.mean((certificate.labels == truth) & (certificate.levels >= level)))


def drawn(votes: NDArray[np.integer], truth: NDArray[np.integer], level: int, which: NDArray[np.bool_]) -> str:
    """Mean and standard deviation of CA@level over draws of as many groups as there are."""
    generator = np.random.default_rng(0)
    models = np.flatnonzero(which)
    found = [certified(votes[generator.choice(models, len(votes))], truth, level) for _ in range(DRAWS)]
    return f"{np.mean(found):.1%} +- {np.std(found):.1%}"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="directory of a run with hashed groups")
    parser.add_argument("m", type=int, help="number of malicious clients")
    options = parser.parse_args()
    run = RunDirectory.open(options.run)
    votes, truth = run.array("votes"), run.truth()
    sizes = np.array([facts.clients for facts in run.manifest().groups])
    console = Console(width=100)
    table = Table("clients in the group", "groups", "mean accuracy of a model", title=str(options.run))
    for size in np.unique(sizes):
        accuracy = (votes[sizes == size] == truth).mean()
        table.add_row(f"{size}", f"{(sizes == size).sum():,}", f"{accuracy:.1%}" if size else "no vote")
    console.print(table)
    again = Table("groups that vote", f"CA@{options.m}")
    again.add_row(f"the run's {(sizes > 0).sum()}", f"{certified(votes, truth, options.m):.1%}")
    for name, which in (("any size", sizes > 0), ("two clients", sizes == 2), ("two or more", sizes > 1)):
        again.add_row(f"{len(votes)} drawn from them, {name}", drawn(votes, truth, options.m, which))
    console.print(again)


if __name__ == "__main__":
    main()
