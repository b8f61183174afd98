"""``flcert serve``: predictions with their certificates over HTTP."""

import importlib.util
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flcert.certify import KINDS
from flcert.cli.options import CERTIFICATES, look_for_modules_in
from flcert.errors import InputError, check_range

if TYPE_CHECKING:
    from flcert.certify import Guarantee
    from flcert.runs.directory import RunDirectory
    from flcert.serve.ledger import Ledger


def serve(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    certificate: Annotated[
        str, typer.Option(help=f"Certificate of the answers: own (the run's), {CERTIFICATES}; it must fit the groups.")
    ] = "own",
    alpha: Annotated[
        float | None, typer.Option(help="For groups drawn at random: failure probability of all answers together.")
    ] = None,
    predictions: Annotated[
        int | None, typer.Option(help="For groups drawn at random: how many predictions share that alpha.")
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="For groups drawn at random: file of what is spent.", show_default="<run>/served.json"),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the bearer token that requests must carry.",
            show_default="none, or a new token if answers spend alpha",
        ),
    ] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Ask for no token even if answers spend alpha.")] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Another name that requests may be addressed to, such as a proxy's; repeatable.", metavar="NAME"
        ),
    ] = None,
    max_body: Annotated[int, typer.Option(help="Largest request body, in bytes.")] = 16_000_000,
    max_inputs: Annotated[int, typer.Option(help="Most inputs per request.")] = 1000,
    body_seconds: Annotated[
        int, typer.Option(help="Seconds in which a request's body must arrive, or an answer be taken.")
    ] = 30,
    header_seconds: Annotated[int, typer.Option(help="Seconds in which a request's headers must arrive.")] = 10,
    concurrency: Annotated[int, typer.Option(help="Most requests in progress at once.")] = 64,
    max_connections: Annotated[int, typer.Option(help="Most connections at once.")] = 200,
    threads: Annotated[
        int | None, typer.Option(help="Threads that query the models.", show_default="one for each core")
    ] = None,
    modules: Annotated[Path, typer.Option(help="Directory of your own modules, if the run's model is yours.")] = Path(),
) -> None:
    """Serve a run: POST /v1/predict, GET /v1/info, and a page at / that shows certificates.

    Ctrl-C or SIGTERM stops it once the requests in progress are answered.

    Example: `flcert serve runs/first --port 8000`
    """
    if importlib.util.find_spec("fastapi") is None or importlib.util.find_spec("uvicorn") is None:
        raise InputError("serving needs an extra: pip install 'flcert[serve]'")
    check_range("port", port, 0, 65535)
    given = {"max_body": max_body, "max_inputs": max_inputs, "body_seconds": body_seconds, "concurrency": concurrency}
    given |= {"header_seconds": header_seconds, "max_connections": max_connections}
    for name, value in {**given, "threads": threads}.items():
        if value is not None and value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
    from flcert.runs.directory import RunDirectory
    from flcert.runs.guarantees import guarantee_of_run
    from flcert.serve.app import build_app
    from flcert.serve.hosts import allowed_hosts
    from flcert.serve.server import listen, serve_until_stopped
    from flcert.serve.service import Limits, Service

    look_for_modules_in(modules)
    directory = RunDirectory.open(run)
    if no_token and token_file is not None:
        raise InputError(f"--no-token asks for no token, got --token-file {token_file} too")
    token = _token(token_file)
    guarantee = guarantee_of_run(directory, certificate)
    spent = _ledger(directory, guarantee, (alpha, predictions), ledger)
    listener = listen(host, port)
    hosts = allowed_hosts(host, listener, allow_host or [])
    service = Service(directory, guarantee, spent, threads)
    limits = Limits(
        body=max_body,
        inputs=max_inputs,
        concurrency=concurrency,
        seconds=body_seconds,
        connections=max_connections,
        header_seconds=header_seconds,
    )
    if spent and token is None and not no_token:
        token = _new_token()
    address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    typer.echo(f"serving {run} on {address}", err=True)
    serve_until_stopped(build_app(service, limits, token, hosts), listener, limits)
    typer.echo("stopped", err=True)


def _ledger(
    directory: "RunDirectory",
    guarantee: "Guarantee",
    promised: tuple[float | None, int | None],
    path: Path | None,
) -> "Ledger | None":
    """The account of the failure probability, if the certificate has one."""
    from flcert.serve.ledger import Ledger
    from flcert.serve.service import account_of

    alpha, predictions = promised
    if not guarantee.probabilistic:
        for name, value in (("alpha", alpha), ("predictions", predictions), ("ledger", path)):
            if value is not None:
                raise InputError(f"--{name} is for certificates of groups drawn at random; this one needs none")
        return None
    if alpha is None or predictions is None:
        certain = [name for name, kind in KINDS.items() if not kind.probabilistic and kind.suits == "any groups"]
        raise InputError(
            f"certificates of {guarantee.suits} share a failure probability: give --alpha (of all answers together) "
            f"and --predictions (how many it covers), or --certificate {' or '.join(certain)}, which needs none"
        )
    return Ledger(path or directory.path / "served.json", account_of(directory, guarantee), alpha, predictions)


def _new_token() -> str:
    """A token for this start of the service, told to its operator."""
    token = secrets.token_urlsafe(24)
    typer.echo(
        f"each answer spends alpha, so requests need a token, this time {token}\n"
        f"programs send it as Authorization: Bearer TOKEN, and the page asks for it; "
        f"--token-file sets one that lasts, --no-token asks for none",
        err=True,
    )
    return token


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        token = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"cannot read the token file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"the token file {path} must be text") from None
    if len(token) < 16 or not token.isascii() or any(letter.isspace() for letter in token):
        raise InputError(f"the token in {path} must be one word of at least 16 ASCII characters")
    return token
