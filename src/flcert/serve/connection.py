"""One connection: what it may take in time and in bytes before a request reaches the application.

uvicorn bounds neither how long headers may take to arrive nor how many connections there are. This is its protocol on
h11, which bounds the bytes of headers, with one clock for each connection.
"""

import asyncio
from functools import partial
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from flcert.serve.service import Limits

FULL = b'{"error":"the service has as many connections as it takes; try again"}'
TOO_LONG = b'{"error":"the headers are too long"}'


class BoundedProtocol(H11Protocol):
    """A connection that is cut off when it stays silent, dawdles over its headers, or does not take its answer.

    Args:
        limits: the limits of a connection.
        given: what uvicorn gives to its protocols.
    """

    def __init__(self, *, limits: Limits, **given: Any) -> None:
        super().__init__(**given)
        self.limits = limits
        self._until_request: asyncio.TimerHandle | None = None
        self._until_taken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock, or refuse one connection too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._refuse(503, "Service Unavailable", FULL)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        super().connection_lost(exc)
        for clock in (self._until_request, self._until_taken):
            if clock is not None:
                clock.cancel()

    def handle_events(self) -> None:
        """Look at what arrived."""
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Give the other side some time to take its answer."""
        super().pause_writing()
        self._until_taken = self.loop.call_later(self.limits.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self._until_taken is not None:
            self._until_taken.cancel()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, and headers that are too long."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # an answer is on its way already
        elif len(self.conn.trailing_data[0]) > self.limits.header_bytes:
            self._refuse(431, "Request Header Fields Too Large", TOO_LONG)
        else:
            super().send_400_response(msg)

    def _watch(self) -> None:
        """Run the clock whenever no request is in progress; a body that nobody wants any more does not stop it."""
        if self.cycle is not None and not self.cycle.response_complete:
            if self._until_request is not None:
                self._until_request.cancel()
                self._until_request = None
        elif self._until_request is None:
            self._until_request = self.loop.call_later(self.limits.header_seconds, self.transport.abort)

    def _refuse(self, status: int, reason: str, body: bytes) -> None:
        """Answer without asking the application, and close."""
        head = f"HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()


def bounded(limits: Limits) -> Any:
    """The protocol with these limits, in the form that uvicorn calls."""
    return partial(BoundedProtocol, limits=limits)
