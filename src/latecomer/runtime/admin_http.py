"""What comes to the admin interface: bodies, JSON that others could read differently, what is no HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
from itertools import count
from typing import Any, NoReturn, TypeVar

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from latecomer.runtime.sparing import Sparing

BODY_MAX = 1 << 20
BODY_S = 10
"""How long a body may take to arrive."""
PROBLEM_MAX = 100
B = TypeVar("B")
_numbers = count(1)


def check_json(data: bytes) -> None:
    """A ValueError if a key stands in an object twice, or a number is none: other readers could read it differently."""
    json.loads(data, object_pairs_hook=_once, parse_constant=_no_constant)


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands in an object twice")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


async def body_of(request: web.Request, kind: type[B]) -> B:
    """The command in a request. A form on a foreign page cannot send `application/json` unasked: no CSRF."""
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(text="send the command as JSON, with 'Content-Type: application/json'")
    try:
        async with asyncio.timeout(BODY_S):
            data = await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"the body did not arrive within {BODY_S} s") from None
    except web.HTTPRequestEntityTooLarge:
        raise web.HTTPRequestEntityTooLarge(BODY_MAX, text=f"a body may have at most {BODY_MAX} bytes") from None
    try:
        check_json(data or b"{}")
        return msgspec.json.decode(data or b"{}", type=kind)
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise web.HTTPBadRequest(text=f"the body cannot be used: {problem}") from None


def http_log(lines: Sparing) -> logging.Logger:
    """The log of an HTTP server. aiohttp has a traceback for each request that is no HTTP, which anybody can send: that
    becomes one short line, or a count if there are many."""
    logger = logging.getLogger(f"{__name__}.{next(_numbers)}")  # a server has its own, as it has its own lines
    logger.addFilter(_BadHttp(lines))
    return logger


class _BadHttp(logging.Filter):
    def __init__(self, lines: Sparing) -> None:
        super().__init__()
        self.lines = lines

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return True
        problem = error.message.partition("\n")[0][:PROBLEM_MAX].rstrip(":")
        text = "admin interface: %s: %d, %s"
        self.lines.line(logging.INFO, "bad HTTP", text, record.getMessage(), error.code, problem)
        return False
