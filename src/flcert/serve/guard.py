"""What every request passes through: the token check, response headers, and an answer when the service stops."""

import asyncio
import hmac
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline' data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def refusal(status: int, message: str) -> JSONResponse:
    """The response to a refused request."""
    return JSONResponse({"error": message}, status)


class Guard:
    """Middleware around the application.

    Args:
        app: the application.
        token: the token that requests under /v1 must carry, if any.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app, self.token = app, token

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

        refused = self._refused(scope)
        try:
            await (refused or self.app)(scope, receive, send_with_headers)
        except asyncio.CancelledError:  # the time for requests in progress is over
            if not begun:
                await refusal(503, "the service is stopping")(scope, receive, send_with_headers)

    def _refused(self, scope: MutableMapping[str, Any]) -> JSONResponse | None:
        """The refusal of a request that needs the token but does not carry it."""
        if self.token is None or not scope["path"].startswith("/v1/"):
            return None
        given = Headers(scope=scope).get("authorization")
        scheme, _, token = (given or "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self.token.encode()):
            return None
        wrong = "this service has a token" if given is None else "the token is not the service's"
        answer = refusal(401, f"{wrong}; give it as Authorization: Bearer TOKEN")
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer
