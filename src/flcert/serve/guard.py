"""What every request passes through: who may ask, response headers, and an answer when the service stops."""

import asyncio
import hmac
from itertools import chain

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flcert.serve.hosts import Hosts

HEADERS = {
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
HARMLESS = ("GET", "HEAD", "OPTIONS")


def refusal(status: int, message: str) -> JSONResponse:
    """The response to a refused request."""
    return JSONResponse({"error": message}, status)


class Guard:
    """Middleware around the application.

    Args:
        app: the application.
        hosts: the names that requests may be addressed to.
        token: the token that requests under /v1 must carry, if any.
        header_bytes: how many bytes the headers of a request may have.
    """

    def __init__(self, app: ASGIApp, hosts: Hosts, token: str | None, header_bytes: int) -> None:
        self.app, self.hosts, self.token, self.header_bytes = app, hosts, token, header_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        refused = self._too_long(scope) or self._misdirected(scope, headers) or self._without_token(scope, headers)
        try:
            await (refused or self.app)(scope, receive, send_with_headers)
        except asyncio.CancelledError:  # the time for requests in progress is over
            if not begun:
                await refusal(503, "the service is stopping")(scope, receive, send_with_headers)

    def _too_long(self, scope: Scope) -> JSONResponse | None:
        """The refusal of a request whose headers are too long."""
        size = sum(map(len, (scope["raw_path"], scope["query_string"], *chain(*scope["headers"]))))
        if size <= self.header_bytes:
            return None
        return refusal(431, f"the headers must have at most {self.header_bytes:,} bytes, got {size:,}")

    def _misdirected(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        """The refusal of a request to a name that is not the service's, or by a page of another site."""
        host, origin = headers.get("host"), headers.get("origin")
        if host is None or not self.hosts.allow(host):
            return refusal(
                403, f"the Host must be a name of this service, got {(host or '')[:100]!r}; its operator can allow it"
            )
        if origin is None or scope["method"] in HARMLESS or self.hosts.allow_page(origin, host):
            return None
        return refusal(403, f"pages of other sites may not use this service, got the Origin {origin[:100]!r}")

    def _without_token(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        """The refusal of a request that needs the token but does not carry it."""
        if self.token is None or not scope["path"].startswith("/v1/"):
            return None
        given = headers.get("authorization")
        scheme, _, token = (given or "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self.token.encode()):
            return None
        wrong = "this service has a token" if given is None else "the token is not the service's"
        answer = refusal(401, f"{wrong}; give it as Authorization: Bearer TOKEN")
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer
