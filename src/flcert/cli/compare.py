"""``flcert compare``: finished runs side by side."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flcert.cli.options import Json, OwnModules, look_for_modules_in, refuse_foreign_code
from flcert.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from flcert.report.compare import Comparison

Levels = Annotated[
    str | None,
    typer.Option("--m", help="Numbers of malicious clients to show, e.g. 0,5,10.", show_default="a few telling ones"),
]
MARKS = {"best": " *", "noise": " ~", "": "  "}


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    names: Annotated[
        str | None,
        typer.Option(
            help="A name for each setting, separated by commas, in the order in which they first appear.",
            show_default="what differs",
        ),
    ] = None,
    m: Levels = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Directory for comparison.csv, .png, .svg, .pdf and .html.")
    ] = Path("comparison"),
    modules: OwnModules = None,
    json_: Json = False,
) -> None:
    """Put finished runs side by side: a table, a figure and a page.

    Runs that differ in their seeds only are repeats of one setting; from three repeats on, differences within the noise
    of seeds are marked.

    Example: `flcert compare runs/first runs/small --m 0,2,5`
    """
    from flcert.report.compare import compare as put_side_by_side
    from flcert.report.compare_page import write_comparison

    for run in runs:
        refuse_foreign_code(run, modules)
    look_for_modules_in(*([modules] if modules else []))
    chosen = [name.strip() for name in names.split(",")] if names is not None else []
    comparison = put_side_by_side(runs, chosen, levels(m))
    print_comparison(comparison, write_comparison(comparison, out), as_json=json_)


def levels(text: str | None) -> list[int]:
    """The numbers of malicious clients that the user asked for."""
    if text is None:
        return []
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise InputError(f"--m must be whole numbers separated by commas, got {text!r}") from None


def print_comparison(
    comparison: "Comparison", files: "Mapping[str, Path]", more: "Mapping[str, Any] | None" = None, *, as_json: bool
) -> None:
    """Print the table and what to know about it, or everything as JSON.

    Args:
        comparison: what was compared.
        files: what was written.
        more: further values for JSON.
        as_json: print JSON.
    """
    from flcert.cli.render import output
    from flcert.report.compare_names import MOST_VALUES

    if as_json:
        typer.echo(json.dumps({**(more or {}), **as_values(comparison), "files": _as_text(files)}))
        return
    console = output()
    console.print(comparison_table(comparison))
    console.print()
    for claim, letter in comparison.claims.items():
        console.print(f"({letter}) {claim}" if len(comparison.claims) > 1 else claim, soft_wrap=True)
    for remark in comparison.remarks:
        console.print(remark, soft_wrap=True)
    keys = len(comparison.differing)
    lists = f", which lists the {keys} keys in which the settings differ" if keys > MOST_VALUES else ""
    console.print(
        f"\ntable: {files['table']}\nfigure: {files['png']}, .svg and .pdf\npage: {files['page']}{lists}",
        soft_wrap=True,
    )


def comparison_table(comparison: "Comparison") -> "Table":
    """A row for each setting."""
    from rich.table import Table

    from flcert.report.compare import claim_of

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("setting")
    for heading in _headings(comparison):
        table.add_column(heading, justify="right")
    for setting in comparison.settings:
        cells = [setting.name]
        cells += [comparison.test_sets[setting.test_set]] if len(comparison.test_sets) > 1 else []
        cells += [f"({comparison.claims[claim_of(setting)]})"] if len(comparison.claims) > 1 else []
        cells += [f"{len(setting.runs):,}"] if comparison.repeated else []
        table.add_row(*cells, *(_cell(comparison, setting, column) for column in comparison.columns))
    return table


def _headings(comparison: "Comparison") -> list[str]:
    conditions = {
        "test set": len(comparison.test_sets) > 1,
        "claim": len(comparison.claims) > 1,
        "repeats": comparison.repeated,
    }
    return [*(name for name, needed in conditions.items() if needed), *(one.title for one in comparison.columns)]


def _cell(comparison: "Comparison", setting: Any, column: Any) -> str:
    cell = comparison.cell(setting, column)
    if cell is None:
        return ""
    mark = MARKS[cell.mark] if comparison.differences and column.judged else ""
    return f"{column.written(cell.mean)} {column.spread_written(cell.spread)}".rstrip() + mark


def as_values(comparison: "Comparison") -> dict[str, Any]:
    """The comparison as JSON values."""
    from flcert.report.compare import claim_of
    from flcert.report.compare_page import table_rows

    settings = [
        {**row, "claim": claim_of(setting), "runs": [str(run.path) for run in setting.runs]}
        for row, setting in zip(table_rows(comparison), comparison.settings, strict=True)
    ]
    differences = [
        {
            "setting": first.name,
            "minus": second.name,
            "figure": column.name,
            "difference": found.mean,
            "half_width": found.half,
            "within_noise": found.within_noise,
        }
        for first, second, column, found in comparison.differences
    ]
    return {"settings": settings, "differences": differences, "remarks": comparison.remarks}


def _as_text(files: "Mapping[str, Path]") -> dict[str, str]:
    return {what: str(path) for what, path in files.items()}
