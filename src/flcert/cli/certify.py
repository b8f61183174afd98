"""``flcert certify``: certify a run, or a vote table from anywhere."""

import csv
import io
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flcert.certify import kind_class, kinds_with
from flcert.certify.family import DEFAULT_KIND
from flcert.cli.options import CERTIFICATES, Json, look_for_modules_in, refuse_foreign_code
from flcert.core.files import write_atomic
from flcert.errors import InputError, IntegrityError
from flcert.voting.files import Rows, read_counts, read_labels, read_votes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from flcert.certify import Certificate, Evidence, Guarantee
    from flcert.report.targets import Target
    from flcert.runs.directory import RunDirectory

BOUNDS = ("alpha", "selection", "tails")  # what may be changed about a run's own certificate


def certify(
    path: Annotated[Path, typer.Argument(help="A run directory, or a table of votes (npy or CSV).")],
    truth: Annotated[Path | None, typer.Option(help="True labels (npy, or CSV with one per line).")] = None,
    kind: Annotated[
        str | None, typer.Option(help=f"Certificate of a vote table: {CERTIFICATES}.", show_default=DEFAULT_KIND)
    ] = None,
    clients: Annotated[int | None, typer.Option(help="Number of clients n.")] = None,
    group_size: Annotated[int | None, typer.Option(help="Clients per group, k.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Failure probability.", show_default="0.001")] = None,
    selection: Annotated[
        str | None, typer.Option(help="safe, or paper for Algorithm 1 to the letter.", show_default="safe")
    ] = None,
    tails: Annotated[
        str | None, typer.Option(help="Bounds for groups drawn at random: one, both or best.", show_default="one")
    ] = None,
    distinct: Annotated[
        bool, typer.Option("--distinct", help="The groups were drawn at random without repetition.")
    ] = False,
    labels: Annotated[int | None, typer.Option(help="Number of labels, for a table with --tails both or best.")] = None,
    target: Annotated[
        int | None, typer.Option(help="Also bound how many inputs malicious clients can turn into this label.")
    ] = None,
    also: Annotated[str | None, typer.Option(help=f"Another certificate of a run: {CERTIFICATES}.")] = None,
    failed: Annotated[int | None, typer.Option(help="Number of groups that have clients but no vote.")] = None,
    counts: Annotated[bool, typer.Option("--counts", help="The table holds counts, inputs x labels.")] = False,
    rows: Annotated[
        Rows | None,
        typer.Option(help="The rows of a vote table: groups or inputs.", show_default="npy: groups, CSV: inputs"),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the certificate of each input as CSV.")] = None,
    modules: Annotated[
        Path | None, typer.Option(help="Directory of your own modules, if a certificate is yours.")
    ] = None,
    json_: Json = False,
) -> None:
    """Certify votes: give each input a label, and the number of malicious clients that provably cannot change it.

    The certificate in a run directory is checked against its votes. For groups drawn at random, `--alpha`,
    `--selection` and `--tails` certify the votes again with other settings. With true labels, `--target` bounds the
    success of any backdoor that aims at one label: the share of inputs of other labels that m clients can turn into it.

    Example: `flcert certify votes.csv --truth labels.csv`

    Example: `flcert certify votes.npy --kind sampled --clients 1000 --group-size 2`

    Example: `flcert certify runs/first --target 3`
    """
    own_code = any(":" in (name or "") for name in (kind, also))
    look_for_modules_in(*([modules or Path()] if modules or own_code else []))
    if path.is_dir():
        refuse_foreign_code(path, modules)
    bounds = {"alpha": alpha, "selection": selection, "tails": tails}
    table = {"kind": kind, "num_clients": clients, "group_size": group_size, "num_failed": failed}
    table |= {"distinct": distinct or None}
    given = {name: value for name, value in {**table, **bounds}.items() if value is not None}
    if path.is_dir():
        _refuse_table_options(given, {"rows": rows, "truth": truth, "counts": counts or None, "labels": labels})
        asked = _of_run(path, given, also)
    else:
        if also:
            raise InputError("--also goes with a run directory, which knows the groups and their models")
        asked = _of_table(Table(path, counts, rows, labels), given, read_labels(truth) if truth else None)
    if not asked.guarantee.per_input:
        if out is not None:
            raise InputError(
                f"certificate {asked.guarantee.kind!r} counts inputs without naming them; leave out --out {out}"
            )
        if target is not None:
            raise InputError(
                f"certificate {asked.guarantee.kind!r} says nothing about single labels; leave out --target {target}"
            )
        _print_of_test_set(path, asked, as_json=json_)
        return
    certificate = asked.certificate()
    aimed = None if target is None else _aimed(asked, certificate, target)
    if out is not None:
        write_atomic(out, _as_csv(certificate, aimed).encode())
    _print(certificate, asked, aimed, as_json=json_)


@dataclass(frozen=True)
class Asked:
    """What to certify.

    Args:
        guarantee: which theorem.
        evidence: the votes.
        truth: the true labels, if known.
        recorded: the directory whose recorded certificate must be the same, if any.
        run: the run directory that the votes come from, if any.
    """

    guarantee: "Guarantee"
    evidence: "Evidence"
    truth: "NDArray[Any] | None" = None
    recorded: "RunDirectory | None" = None
    run: "RunDirectory | None" = None

    def __post_init__(self) -> None:
        self.guarantee.check_evidence(self.evidence)

    def certificate(self) -> "Certificate":
        """The certificate, compared with the recorded one: an older version of flcert may have proved less."""
        from flcert.cli.render import warn

        certificate = self.guarantee.certify(self.evidence)
        if self.recorded:
            recorded, where = self.recorded.certificate(), self.recorded.path
            if len(recorded) != len(certificate) or not certificate.covers(recorded):
                raise IntegrityError(f"{where}: the recorded certificate does not follow from the votes")
            if not recorded.covers(certificate):
                warn(f"{where} recorded lower levels than its votes prove; run it again to record those shown here")
        return certificate


@dataclass(frozen=True)
class Table:
    """A vote table and how to read it."""

    path: Path
    counts: bool
    rows: Rows | None
    labels: int | None


def _of_run(path: Path, given: dict[str, Any], also: str | None) -> Asked:
    """A run's votes under its own certificate, the same with other settings, or another certificate."""
    from flcert.certify import guarantee_from
    from flcert.runs.directory import RunDirectory
    from flcert.runs.guarantees import guarantee_of_run

    directory = RunDirectory.open(path)
    own, truth = directory.guarantee(), directory.truth()
    if also:
        guarantee = guarantee_of_run(directory, also)
        _refuse_idle(given, type(guarantee), f"certificate {also!r}", also=True)
        return Asked(guarantee, directory.evidence(guarantee.needs), truth, run=directory)
    _refuse_idle(given, type(own), own.title)
    changed = guarantee_from({**own.model_dump(), **given})
    return Asked(changed, directory.evidence(changed.needs), truth, None if given else directory, directory)


def _of_table(table: Table, given: dict[str, Any], truth: "NDArray[Any] | None") -> Asked:
    from flcert.certify import Evidence, guarantee_from

    name = given.get("kind", DEFAULT_KIND)
    kind = kind_class(name)
    _refuse_idle(given, kind, kind.title)
    if table.counts:
        for option, value in {"rows": table.rows, "labels": table.labels}.items():
            if value:
                raise InputError(f"--{option} goes with a table of votes, not with --counts, whose columns are labels")
        return Asked(guarantee_from({**given, "kind": name}), Evidence(read_counts(table.path)), truth)
    if kind.probabilistic and given.get("num_failed"):
        raise InputError(
            "for groups drawn at random a failed group is a row of the table without votes; --failed goes with --counts"
        )
    if given.get("tails", "one") != "one" and table.labels is None:
        raise InputError(
            f"--tails {given['tails']} bounds every label there is, voted for or not; give their number with --labels"
        )
    votes = read_votes(table.path, table.rows)
    typer.echo(f"{table.path}: {votes.shape[0]:,} groups x {votes.shape[1]:,} inputs", err=True)
    guarantee = guarantee_from({**given, "kind": name, "num_groups": len(votes)})
    return Asked(guarantee, Evidence.of_votes(votes, table.labels), truth)


def _refuse_table_options(given: dict[str, Any], others: dict[str, Any]) -> None:
    """Refuse options that a run directory settles: its clients, groups and labels."""
    for name in (*given, *(key for key, value in others.items() if value is not None)):
        if name not in BOUNDS:
            raise InputError(f"{name} comes from the run directory and cannot be given; give a vote table instead")


def _refuse_idle(given: dict[str, Any], kind: "type[Guarantee]", what: str, *, also: bool = False) -> None:
    """Refuse settings that a certificate does not use."""
    for name, value in given.items():
        if name not in kind.model_fields or (also and name in BOUNDS):
            others = " or ".join(f"--kind {other}" for other in kinds_with(name))
            raise InputError(f"{name} has no meaning for {what}, got {value}; it goes with {others}")


def _aimed(asked: Asked, certificate: "Certificate", target: int) -> "Target":
    """What m clients can turn into the target."""
    from flcert.report.targets import target_of

    if asked.truth is None:
        raise InputError(f"--target {target} needs the true labels: give --truth")
    return target_of(asked.guarantee, asked.evidence, certificate, asked.truth, target)


def _as_csv(certificate: "Certificate", aimed: "Target | None") -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = {"label": certificate.labels, "level": certificate.levels, "abstained": certificate.abstained.astype(int)}
    if aimed:
        columns["target_level"] = aimed.levels
    writer.writerow(("input", *columns))
    writer.writerows((position, *row) for position, row in enumerate(zip(*columns.values(), strict=True)))
    return text.getvalue()


def _print(certificate: "Certificate", asked: Asked, aimed: "Target | None", *, as_json: bool) -> None:
    from flcert.certify import certified_accuracy, certified_share
    from flcert.cli.render import curve_table, output, target_table
    from flcert.report.points import excluded_sentence, proof_sentence, public_sentence

    known = asked.truth is not None
    curve = certified_accuracy(certificate, asked.truth) if asked.truth is not None else certified_share(certificate)
    what = "certified accuracy" if known else "certified share"
    public = asked.run.public_figures(curve) if asked.run else None
    excluded = len(asked.run.manifest().data.excluded) if asked.run else 0
    if as_json:
        result = {
            "guarantee": asked.guarantee.model_dump(mode="json"),
            "meaning": asked.guarantee.meaning,
            "inputs": len(certificate),
            what.replace(" ", "_"): curve.tolist(),
            "labels": certificate.labels.tolist(),
            "levels": certificate.levels.tolist(),
            "abstained": certificate.abstained.tolist(),
            "num_abstained": int(certificate.abstained.sum()),
            **({"public": public.model_dump(mode="json")} if public else {}),
            **({"target": aimed.told()} if aimed else {}),
            **({"excluded": excluded} if excluded else {}),
        }
        typer.echo(json.dumps(result))
        return
    console = output()
    console.print(curve_table(curve, len(certificate), None, what))
    console.print(f"\n{int(certificate.abstained.sum()):,} inputs abstained.")
    console.print(proof_sentence(asked.guarantee, curve, len(certificate), right=known))
    if excluded:
        console.print(excluded_sentence(excluded))
    if asked.run and asked.recorded is None:  # another certificate than the one that the run reports
        console.print(asked.guarantee.meaning)
    if asked.guarantee.trusted:
        console.print(asked.guarantee.about_trusted)
    if public:
        console.print(public_sentence(public, len(certificate)))
    if aimed:
        console.print()
        console.print(target_table(aimed))
        console.print(f"\n{aimed.sentence(asked.guarantee, str(aimed.label))}")


def _print_of_test_set(path: Path, asked: Asked, *, as_json: bool) -> None:
    """What a certificate of a whole test set says, beside the run's own curve."""
    import numpy as np

    from flcert.certify import certified_accuracy, guarantee_from
    from flcert.cli.options import progress_bars
    from flcert.cli.render import of_test_set_table, output
    from flcert.report.points import chosen_levels, excluded_sentence
    from flcert.runs.directory import RunDirectory

    if asked.truth is None:
        raise InputError(f"certificate {asked.guarantee.kind!r} needs the true labels: give --truth")
    if path.is_dir():
        curve = np.array(RunDirectory.open(path).summary().certified_accuracy)
    else:
        plain = guarantee_from({"num_failed": asked.guarantee.num_failed}).certify(asked.evidence)
        curve = certified_accuracy(plain, asked.truth)
    with progress_bars(as_json) as bars:
        report = partial(bars, asked.guarantee.title)
        figures = asked.guarantee.figures(asked.evidence, asked.truth, chosen_levels(curve), report)
    if as_json:
        typer.echo(json.dumps({"inputs": len(asked.truth), "stay_right": figures.inputs, "note": figures.note}))
    else:
        output().print(of_test_set_table(figures, curve, len(asked.truth)))
        if figures.note:
            output().print(f"\n{figures.note}")
        if path.is_dir() and (excluded := len(RunDirectory.open(path).manifest().data.excluded)):
            output().print(f"\n{excluded_sentence(excluded)}")
