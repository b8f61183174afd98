"""``flcert predict``: labels and levels for new inputs."""

import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flcert.cli.options import CERTIFICATES, Json, look_for_modules_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flcert.voting.count_table import Counts


def predict(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    inputs: Annotated[Path, typer.Argument(help="Inputs: npy (inputs x input shape), or CSV with one per line.")],
    certificate: Annotated[
        str, typer.Option(help=f"Certificate of the levels: own (the run's), {CERTIFICATES}; it must fit the groups.")
    ] = "own",
    modules: Annotated[Path, typer.Option(help="Directory of your own modules, if the run's model is yours.")] = Path(),
    json_: Json = False,
) -> None:
    """Predict the label of each input with its certified level and its votes, as CSV.

    For groups drawn at random, all inputs of one call share the run's alpha. Trusted votes are among the votes.

    Example: `flcert predict runs/first inputs.npy`
    """
    from flcert.report.points import excluded_sentence
    from flcert.runs.directory import RunDirectory
    from flcert.runs.ensemble import open_ensemble
    from flcert.runs.guarantees import guarantee_of_run
    from flcert.voting.files import read_inputs

    look_for_modules_in(modules)
    directory = RunDirectory.open(run)
    guarantee = guarantee_of_run(directory, certificate)
    evidence = open_ensemble(directory).evidence(read_inputs(inputs), guarantee.needs)
    labels, proof = guarantee.answer(evidence)
    excluded = len(directory.manifest().data.excluded)
    if json_:
        result = {
            "certificate": guarantee.kind,
            "meaning": guarantee.meaning,
            "labels": labels.tolist(),
            "levels": proof.levels.tolist(),
            "abstained": proof.abstained.tolist(),
            "votes": list(_votes(guarantee.counted(evidence))),
        }
        if trusted := guarantee.trusted_votes(evidence):
            result["trusted"] = [{"label": label, "votes": trusted.votes} for label in trusted.labels.tolist()]
        if excluded:
            result["excluded"] = excluded
        typer.echo(json.dumps(result))
        return
    typer.echo(f"A level is how many malicious clients cannot change the label. {guarantee.meaning}", err=True)
    if excluded:
        typer.echo(excluded_sentence(excluded), err=True)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("input", "label", "level", "abstained", "votes"))
    for position, votes in enumerate(_votes(guarantee.counted(evidence))):
        level, abstained = proof.levels[position], int(proof.abstained[position])
        tally = " ".join(f"{label}:{number}" for label, number in votes.items())
        writer.writerow((position, labels[position], level, abstained, tally))


def _votes(counts: "Counts") -> "Iterator[dict[int, int]]":
    """The labels with votes for each input, most votes first."""
    from scipy.sparse import csr_array

    table = csr_array(counts)
    for start, end in zip(table.indptr, table.indptr[1:], strict=False):
        pairs = zip(table.indices[start:end].tolist(), table.data[start:end].tolist(), strict=True)
        yield dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
