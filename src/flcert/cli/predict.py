"""``flcert predict``: labels and levels for new inputs."""

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flcert.cli.options import Json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flcert.certify.result import Counts


def predict(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    inputs: Annotated[Path, typer.Argument(help="Inputs: npy (inputs x input shape), or CSV with one a line.")],
    modules: Annotated[Path, typer.Option(help="Directory of your own modules, if the run's model is one.")] = Path(),
    json_: Json = False,
) -> None:
    """Predict the label of each input with its certified level and its votes, as CSV.

    The level of sampled groups holds with the run's alpha for all inputs of one call together.

    Example: `flcert predict runs/first inputs.npy`
    """
    from flcert.ballots import Ballots
    from flcert.pipeline import open_ensemble
    from flcert.rundir import RunDirectory
    from flcert.tables import read_inputs

    sys.path.insert(0, str(modules.resolve()))
    directory = RunDirectory.open(run)
    ensemble = open_ensemble(directory)
    ballots = Ballots.cast(ensemble.votes(read_inputs(inputs)), ensemble.num_labels, ensemble.grouping.members)
    guarantee = directory.guarantee()
    certificate, labels = guarantee.certify(ballots), guarantee.predict(ballots)
    if json_:
        result = {
            "labels": labels.tolist(),
            "levels": certificate.levels.tolist(),
            "abstained": certificate.abstained.tolist(),
            "votes": list(_votes(ballots.counts)),
        }
        typer.echo(json.dumps(result))
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("input", "label", "level", "abstained", "votes"))
    for position, votes in enumerate(_votes(ballots.counts)):
        level, abstained = certificate.levels[position], int(certificate.abstained[position])
        tally = " ".join(f"{label}:{number}" for label, number in votes.items())
        writer.writerow((position, labels[position], level, abstained, tally))


def _votes(counts: "Counts") -> "Iterator[dict[int, int]]":
    """For each input the labels that have votes, most first."""
    from scipy.sparse import csr_array

    table = csr_array(counts)
    for start, end in zip(table.indptr, table.indptr[1:], strict=False):
        pairs = zip(table.indices[start:end].tolist(), table.data[start:end].tolist(), strict=True)
        yield dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
