"""Listen for requests, and stop when told to."""

import signal
import socket

import uvicorn
from fastapi import FastAPI

from flcert.errors import InputError

GRACE = 10  # seconds for requests in progress when the service stops


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


def serve_until_stopped(app: FastAPI, listener: socket.socket) -> None:
    """Answer requests until SIGTERM or SIGINT; requests in progress are finished."""
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE, server_header=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _nothing_more)  # uvicorn stops, and then sends itself the signal again
    uvicorn.Server(config).run(sockets=[listener])


def _nothing_more(number: int, frame: object) -> None:
    """Do nothing: the service has already stopped."""
