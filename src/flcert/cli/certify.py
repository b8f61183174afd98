"""``flcert certify``: the certificate of a run, or of a vote table from anywhere."""

import csv
import io
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flcert.cli.options import Json
from flcert.errors import InputError, IntegrityError
from flcert.files import write_atomic
from flcert.guarantee import Further
from flcert.tables import Rows, read_counts, read_labels, read_votes

if TYPE_CHECKING:
    from flcert.certify.result import Certificate
    from flcert.guarantee import Guarantee

PROOF = ("alpha", "selection", "tails")  # of sampled groups


def certify(
    path: Annotated[Path, typer.Argument(help="A run directory, or a table of votes (npy or CSV).")],
    truth: Annotated[Path | None, typer.Option(help="True labels (npy, or CSV with one a line).")] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="disjoint (FLCert-D), sampled or enumerated (FLCert-P).", show_default="disjoint"),
    ] = None,
    clients: Annotated[int | None, typer.Option(help="Number of clients n.")] = None,
    group_size: Annotated[int | None, typer.Option(help="Clients in a group k.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Failure probability.", show_default="0.001")] = None,
    selection: Annotated[
        str | None, typer.Option(help="safe, or paper for Algorithm 1 to the letter.", show_default="safe")
    ] = None,
    tails: Annotated[
        str | None, typer.Option(help="Bounds of sampled groups: one, both, or the best.", show_default="one")
    ] = None,
    distinct: Annotated[
        bool, typer.Option("--distinct", help="The sampled groups were drawn without repetition.")
    ] = False,
    labels: Annotated[int | None, typer.Option(help="Number of labels L, for --tails both of a table.")] = None,
    also: Annotated[
        Further | None, typer.Option(help="Another certificate of a run: overlapping, runoff or collective.")
    ] = None,
    failed: Annotated[int | None, typer.Option(help="Groups with clients whose vote is missing.")] = None,
    counts: Annotated[bool, typer.Option("--counts", help="The table holds counts, inputs x labels.")] = False,
    rows: Annotated[
        Rows | None,
        typer.Option(help="What a row of a vote table is: groups or inputs.", show_default="npy: groups, CSV: inputs"),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the certificate of each input as CSV.")] = None,
    json_: Json = False,
) -> None:
    """Certify a vote: for each input the label, and how many malicious clients provably cannot change it.

    A run directory is checked against the certificate that it holds. Changing `--alpha`, `--selection` or `--tails` of
    a run with sampled groups certifies its votes anew.

    Example: `flcert certify votes.csv --truth labels.csv`

    Example: `flcert certify votes.npy --kind sampled --clients 1000 --group-size 2`
    """
    proof = {"alpha": alpha, "selection": selection, "tails": tails}
    table = {"kind": kind, "num_clients": clients, "group_size": group_size, "num_failed": failed}
    table |= {"distinct": distinct or None}
    given = {name: value for name, value in {**table, **proof}.items() if value is not None}
    if path.is_dir():
        _refuse_table_options(given, {"rows": rows, "truth": truth, "counts": counts or None, "labels": labels})
        if also:
            _refuse_idle(given, f"certificate {also!r}")
        if also == "collective":
            if out is not None:
                raise InputError(f"certificate 'collective' counts inputs without naming them; leave out --out {out}")
            _print_collective(path, json_)
            return
        certificate, guarantee, right = _of_run(path, given, also)
    else:
        if also:
            raise InputError("--also goes with a run directory, which knows the groups and their models")
        certificate, guarantee = _of_table(path, given, counts, rows, labels)
        right = read_labels(truth) if truth else None
    if out is not None:
        write_atomic(out, _as_csv(certificate).encode())
    _print(certificate, guarantee, right, json_)


def _of_run(path: Path, given: dict[str, Any], also: "Further | None") -> "tuple[Certificate, Guarantee, Any]":
    """The certificate of a run's votes, checked against the recorded one; or a further one, if asked for."""
    import numpy as np

    from flcert.ballots import Ballots
    from flcert.further import further_certificate, further_guarantee
    from flcert.rundir import RunDirectory

    directory = RunDirectory.open(path)
    manifest = directory.manifest()
    _refuse_unless_sampled(given, manifest["guarantee"]["kind"])
    guarantee = _guarantee({**manifest["guarantee"], **given})
    ballots = Ballots.cast(directory.array("votes"), manifest["data"]["labels"], directory.members())
    certificate = guarantee.certify(ballots)
    if also:
        certificate = further_certificate(also, ballots, guarantee, directory.tally())
        return certificate, further_guarantee(also, guarantee), directory.truth()
    if not given:
        recorded = directory.certificate()
        for name in ("labels", "levels", "abstained"):
            if not np.array_equal(getattr(certificate, name), getattr(recorded, name)):
                raise IntegrityError(f"{path}: the recorded certificate does not follow from the votes ({name} differ)")
    return certificate, guarantee, directory.truth()


def _of_table(
    path: Path, given: dict[str, Any], counts: bool, rows: Rows | None, labels: int | None
) -> "tuple[Certificate, Guarantee]":
    from flcert.ballots import Ballots

    kind = given.get("kind", "disjoint")
    _refuse_unless_sampled(given, kind)
    if "group_size" in given and kind == "disjoint":
        raise InputError("group_size has no meaning for disjoint groups; it goes with --kind sampled or enumerated")
    if counts:
        for name, value in {"rows": rows, "labels": labels}.items():
            if value:
                raise InputError(f"--{name} goes with a table of votes, not with --counts, whose columns are labels")
        guarantee = _guarantee(given)
        return guarantee.certify(Ballots(read_counts(path))), guarantee
    if given.get("kind") == "sampled" and given.get("num_failed"):
        raise InputError(
            "for sampled groups a failed group is a row of the table without votes; --failed goes with --counts"
        )
    if given.get("tails", "one") != "one" and labels is None:
        raise InputError(
            f"--tails {given['tails']} bounds every label there is, voted for or not; give their number with --labels"
        )
    votes = read_votes(path, rows)
    guarantee = _guarantee({**given, "num_groups": len(votes)})
    typer.echo(f"{path}: {votes.shape[0]:,} groups x {votes.shape[1]:,} inputs", err=True)
    return guarantee.certify(Ballots.cast(votes, labels)), guarantee


def _print_collective(path: Path, as_json: bool) -> None:
    """How many inputs stay right when so many clients attack the whole test set of a run at once."""
    from flcert.ballots import Ballots
    from flcert.certify import certified_accuracy
    from flcert.cli.options import progress_bars
    from flcert.cli.render import collective_table, output
    from flcert.further import check_further, collective_curve
    from flcert.report.points import chosen_levels
    from flcert.rundir import RunDirectory

    directory = RunDirectory.open(path)
    guarantee, truth = directory.guarantee(), directory.truth()
    check_further(["collective"], guarantee.kind)
    ballots = Ballots.cast(directory.array("votes"), directory.manifest()["data"]["labels"])
    curve = certified_accuracy(guarantee.certify(ballots), truth)
    with progress_bars(as_json) as bars:
        report = partial(bars, "collective")
        kept = collective_curve(ballots, truth, chosen_levels(curve), guarantee.num_failed, report)
    if as_json:
        typer.echo(json.dumps({"inputs": len(truth), "stay_right": kept}))
    else:
        output().print(collective_table(kept, curve, len(truth)))


def _guarantee(values: dict[str, Any]) -> "Guarantee":
    from pydantic import ValidationError

    from flcert.guarantee import Guarantee
    from flcert.registry import complaint

    try:
        return Guarantee.model_validate(values)
    except ValidationError as failure:
        raise complaint(failure, str(failure.errors()[0]["loc"][0])) from None


def _refuse_table_options(given: dict[str, Any], others: dict[str, Any]) -> None:
    """A run directory brings its own clients, groups and labels."""
    for name in (*given, *(key for key, value in others.items() if value is not None)):
        if name not in PROOF:
            raise InputError(f"{name} comes from the run directory and cannot be given; give a vote table instead")


def _refuse_unless_sampled(given: dict[str, Any], kind: str) -> None:
    if kind != "sampled":
        _refuse_idle(given, f"{kind} groups")


def _refuse_idle(given: dict[str, Any], what: str) -> None:
    """Refuse settings of the bounds of sampled groups where nothing is bounded."""
    for name in (*PROOF, "distinct"):
        if name in given:
            raise InputError(f"{name} has no meaning for {what}, got {given[name]}; it goes with sampled groups")


def _as_csv(certificate: "Certificate") -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("input", "label", "level", "abstained"))
    rows = zip(certificate.labels, certificate.levels, certificate.abstained.astype(int), strict=True)
    writer.writerows((position, *row) for position, row in enumerate(rows))
    return text.getvalue()


def _print(certificate: "Certificate", guarantee: "Guarantee", truth: Any, as_json: bool) -> None:
    from flcert.certify import certified_accuracy, certified_share
    from flcert.cli.render import curve_table, output
    from flcert.report.points import proof_sentence

    known = truth is not None
    curve = certified_accuracy(certificate, truth) if known else certified_share(certificate)
    what = "certified accuracy" if known else "certified share"
    if as_json:
        result = {
            "guarantee": guarantee.model_dump(mode="json"),
            "inputs": len(certificate),
            "abstained": int(certificate.abstained.sum()),
            what.replace(" ", "_"): curve.tolist(),
            "labels": certificate.labels.tolist(),
            "levels": certificate.levels.tolist(),
        }
        typer.echo(json.dumps(result))
        return
    console = output()
    console.print(curve_table(curve, len(certificate), None, what))
    console.print(f"\n{int(certificate.abstained.sum()):,} inputs abstained.")
    console.print(proof_sentence(guarantee, curve, len(certificate), right=known))
