"""The HTTP side: routes, limits and the token."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Any

import anyio
import swagger_ui_bundle  # type: ignore[import-untyped]
from anyio.to_thread import run_sync
from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.requests import ClientDisconnect

from flcert import __version__
from flcert.errors import FlcertError, InputError
from flcert.serve.guard import Guard, refusal
from flcert.serve.hosts import Hosts
from flcert.serve.requests import RefusedError, read_inputs
from flcert.serve.service import Limits, Service

REQUEST_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["inputs"],
                    "properties": {"inputs": {"type": "array", "items": {}}},
                }
            },
            "application/x-npy": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


def build_app(service: Service, limits: Limits, token: str | None = None, hosts: Hosts | None = None) -> FastAPI:
    """Build the application for one run.

    Args:
        service: the service that answers.
        limits: limits on requests.
        token: the token that requests under /v1 must carry, if any.
        hosts: the names that requests may be addressed to; by default those of this machine to itself.
    """
    app = FastAPI(title="flcert", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.openapi_version = "3.0.2"  # the newest that the packaged Swagger UI can show
    at_work = anyio.CapacityLimiter(1)  # one request computes at a time, with all threads
    in_hand = 0
    app.add_middleware(Guard, hosts=hosts or Hosts(), token=token, header_bytes=limits.header_bytes)

    @asynccontextmanager
    async def place() -> AsyncIterator[None]:
        nonlocal in_hand
        if in_hand >= limits.concurrency:
            raise RefusedError(503, f"{limits.concurrency} requests are in hand already; try again")
        in_hand += 1
        try:
            yield
        finally:
            in_hand -= 1

    @app.post("/v1/predict", openapi_extra=REQUEST_BODY)
    async def predict(request: Request) -> JSONResponse:
        """Label, level, votes and certificate of one input or of many."""
        async with place():
            body = await _body(request, limits)
            answer = partial(_answer, service, body, request.headers.get("content-type", ""), limits)
            return JSONResponse(await run_sync(answer, limiter=at_work))

    @app.get("/v1/info")
    async def info() -> dict[str, Any]:
        """What was trained, on how many clients, and which certificate the answers carry."""
        return {**service.info(), "limits": {"body": limits.body, "inputs": limits.inputs}}

    @app.get("/v1/inputs")
    async def inputs() -> list[dict[str, Any]]:
        """Some test inputs to try."""
        return service.chosen_inputs()

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz")
    async def health() -> dict[str, str]:
        """Whether the service is up."""
        return {"status": "ok"}

    _add_refusals(app)
    _add_pages(app)
    return app


def _add_refusals(app: FastAPI) -> None:
    """Report every error in the same form."""

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> JSONResponse:
        return refusal(error.status, error.message)

    @app.exception_handler(404)
    async def nothing_here(request: Request, _: Exception) -> JSONResponse:
        return refusal(404, f"there is nothing at {request.url.path}; see /docs")

    @app.exception_handler(405)
    async def wrong_method(request: Request, _: Exception) -> JSONResponse:
        return refusal(405, f"{request.url.path} does not take {request.method}; see /docs")

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> JSONResponse:
        return refusal(500, f"unexpected {type(error).__name__}; the service's log may say more")


def _add_pages(app: FastAPI) -> None:
    """Add the pages that people look at."""
    text = files("flcert.serve").joinpath("page.html").read_text(encoding="utf-8")

    @app.head("/", include_in_schema=False)
    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(text)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="flcert",
            swagger_js_url="/swagger/swagger-ui-bundle.js",
            swagger_css_url="/swagger/swagger-ui.css",
            swagger_favicon_url="/swagger/favicon-32x32.png",
        )

    app.mount("/swagger", StaticFiles(directory=swagger_ui_bundle.swagger_ui_path))


def _answer(service: Service, body: bytes, content_type: str, limits: Limits) -> dict[str, Any]:
    ensemble = service.ensemble
    inputs = read_inputs(body, content_type, limits, ensemble.input_shape, ensemble.input_dtype)
    try:
        return service.predict(inputs)
    except InputError as error:  # what only a model can tell, such as an unknown word
        raise RefusedError(422, str(error)) from None
    except FlcertError as error:  # it may name files of this machine, which are the operator's business
        logging.getLogger(__name__).error("a request was not answered: %s", error)
        raise RefusedError(500, "the service cannot answer; its log says why") from None


async def _body(request: Request, limits: Limits) -> bytes:
    """The body, refused as soon as it is too long or too slow."""
    too_large = RefusedError(413, f"the body must have at most {limits.body:,} bytes")
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limits.body:
        raise too_large
    received = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for chunk in request.stream():
                received += chunk
                if len(received) > limits.body:
                    raise too_large
    except TimeoutError:
        raise RefusedError(408, f"the body must arrive within {limits.seconds:g} seconds") from None
    except ClientDisconnect:
        raise RefusedError(400, "the body ended too early") from None  # nobody listens any more
    return bytes(received)
