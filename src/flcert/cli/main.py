"""The ``flcert`` command."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from flcert import __version__
from flcert.cli.certify import certify
from flcert.cli.compare import compare
from flcert.cli.compress import compress
from flcert.cli.data import data
from flcert.cli.forget import forget
from flcert.cli.pilot import pilot
from flcert.cli.plan import plan
from flcert.cli.predict import predict
from flcert.cli.presets import presets
from flcert.cli.pretrain import pretrain
from flcert.cli.report import report
from flcert.cli.reproduce import reproduce
from flcert.cli.run import run
from flcert.cli.serve import serve
from flcert.cli.store import store
from flcert.cli.sweep import sweep
from flcert.cli.train_group import train_group
from flcert.errors import FlcertError, InputError, one_line

EXIT_FAILED, EXIT_USAGE = 1, 2

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(train_group)
app.command()(certify)
app.command()(predict)
app.command()(report)
app.command()(reproduce)
app.command()(sweep)
app.command()(compare)
app.command()(plan)
app.command()(pilot)
app.command()(pretrain)
app.command()(forget)
app.command()(compress)
app.command()(serve)
app.add_typer(presets, name="presets")
app.add_typer(store, name="store")
app.add_typer(data, name="data")


@app.callback(invoke_without_command=True)
def flcert(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Federated learning whose predictions are provably unaffected by a bounded number of malicious clients."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; turn our errors into a message and an exit code."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        with _stopping_on_signals():
            app()
    except FlcertError as error:
        console.print("[bold red]error:[/]", Text(one_line(str(error))))
        sys.exit(EXIT_USAGE if isinstance(error, InputError) else EXIT_FAILED)
    except BrokenPipeError:
        sys.exit(EXIT_FAILED)
    except Exception as error:
        if os.environ.get("FLCERT_TRACEBACK"):
            raise
        reason = f"unexpected {type(error).__name__}: {error} (FLCERT_TRACEBACK=1 shows where)"
        console.print("[bold red]error:[/]", Text(one_line(reason)))
        sys.exit(EXIT_FAILED)


@contextmanager
def _stopping_on_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP stop the command as Ctrl-C does, with the exit code of the signal.

    A signal that is ignored, as with nohup, stays so. After the first one, further ones are ignored until the process
    is gone: they disturb neither the cleaning up nor the exit code.
    """
    came: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if main and signal.getsignal(one) == signal.SIG_DFL]

    def handle(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
        for number in numbers:
            signal.signal(number, handler)

    def stop(number: int, _: FrameType | None) -> None:
        came.append(number)
        handle(signal.SIG_IGN)
        if len(came) == 1:
            raise KeyboardInterrupt

    handle(stop)
    try:
        yield
    except (SystemExit, KeyboardInterrupt):
        if came:
            sys.exit(128 + came[0])
        raise
    finally:
        if not came:
            handle(signal.SIG_DFL)
