"""Listen for requests, and stop when told to."""

import signal
import socket

import uvicorn
from fastapi import FastAPI

from flcert.errors import InputError
from flcert.serve.connection import bounded
from flcert.serve.service import Limits

GRACE = 10  # seconds for requests in progress when the service stops
IDLE = 5  # seconds that a connection may wait for its next request


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; if the port is in use, the error says so."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        raise InputError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener


def serve_until_stopped(app: FastAPI, listener: socket.socket, limits: Limits) -> None:
    """Answer requests until SIGTERM, SIGINT or SIGHUP; requests in progress are finished."""
    config = uvicorn.Config(
        app,
        http=bounded(limits),
        ws="none",
        h11_max_incomplete_event_size=limits.header_bytes,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=GRACE,
        log_level="warning",
        server_header=False,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _nothing_more)  # uvicorn stops, and then sends itself the signal again
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as with nohup
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    uvicorn.Server(config).run(sockets=[listener])


def _nothing_more(number: int, frame: object) -> None:
    """Do nothing: the service has already stopped."""
