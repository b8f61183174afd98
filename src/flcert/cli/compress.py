"""``flcert compress``: smaller models, with a certificate of their own."""

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from flcert.cli.options import Cache, EngineName, Json, NumWorkers, Quiet, look_for_modules_in, progress_bars
from flcert.errors import unknown_name


def compress(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    dtype: Annotated[str, typer.Option(help="Type of the models' numbers: float16 or int8.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Directory of the new run.", show_default="<run>-<dtype>")
    ] = None,
    modules: Annotated[Path, typer.Option(help="Directory of your own modules, if the run uses any.")] = Path(),
    engine: EngineName = "processes",
    workers: NumWorkers = None,
    cache: Cache = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a new run with compressed models, their own votes and their own certificate.

    Nothing is trained. Each model is compressed independently, so the certificate holds as for any other models.

    Example: `flcert compress runs/first --dtype int8`
    """
    from flcert.cli.render import compression_table, output
    from flcert.core.store import Store
    from flcert.engines import build
    from flcert.pipeline.compress import compress as make
    from flcert.report.points import excluded_sentence
    from flcert.runs.directory import RunDirectory
    from flcert.training.compression import DTYPES

    if dtype not in DTYPES:
        raise unknown_name("dtype", dtype, DTYPES)
    look_for_modules_in(modules)
    target = out or run.with_name(f"{run.name}-{dtype}")
    with progress_bars(quiet) as progress:
        done = make(run, dtype, target, engine=build(engine, workers), store=Store(cache), progress=progress)
    curve = RunDirectory.open(run).summary().certified_accuracy
    if json_:
        sizes = {"before": done.before, "after": done.after}
        before = {"certified_accuracy_before": curve}
        meaning = {"meaning": done.result.guarantee.meaning}
        told = {**before, **meaning, **done.result.summary.told()}
        typer.echo(json.dumps({"directory": str(target), "bytes": sizes, **told}))
        return
    after = done.result.summary.certified_accuracy
    console = output()
    console.print(f"models: {done.before / 1e6:,.1f} MB before, {done.after / 1e6:,.1f} MB after\n")
    console.print(compression_table(np.array(curve), np.array(after)))
    console.print(f"\n{done.result.guarantee.caption}.")
    if excluded := done.result.summary.excluded:
        console.print(excluded_sentence(excluded))
    console.print(f"\nrun directory: {target}\nreport: {target / 'report.html'}", soft_wrap=True)
