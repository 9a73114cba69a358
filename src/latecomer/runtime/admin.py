"""The admin API: what operators and the dashboard ask a broker over HTTP, on the broker's own event loop.

Theory of operation. Requests pass three gates before anything is answered. `Host` must be a name under which the API
may be addressed, which keeps web pages out whose name was pointed at this machine; `Origin`, which browsers add, must
be a known site; and everything under `/api` needs the bearer token, in the header only, so that no browser ever sends
it by itself. Answers are JSON made of frozen structs, errors are `{"problem": sentence}`.

What is told and done is the node's business: it is `Administered`.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from latecomer.model.errors import FilterError, LatecomerError, SettingsError
from latecomer.model.ids import BrokerId, ClientId
from latecomer.model.topics import check_filter
from latecomer.runtime.admin_http import BODY_MAX, body_of, http_log
from latecomer.runtime.admin_links import Linked, link_routes
from latecomer.runtime.admin_model import Modelled, model_routes
from latecomer.runtime.admin_overlay import Arranged, Nothing, overlay_routes
from latecomer.runtime.admin_views import ClientView, Health, LinkView, Overview, Page, RetainedView, SubscriptionView
from latecomer.runtime.errands import Unreachable
from latecomer.runtime.homes_views import HomesView
from latecomer.runtime.metrics import CONTENT_TYPE
from latecomer.runtime.network_views import NetworkView
from latecomer.runtime.session_views import SessionView
from latecomer.runtime.sparing import Sparing
from latecomer.runtime.store_views import StoresView

LIMIT_MAX = 1000
LIMIT_DEFAULT = 100
TOKEN_MIN = 16

HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "latecomer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""On every answer. There is no CORS header: pages of other sites may not read anything."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logging.getLogger(__name__)


class Administered(Modelled, Arranged, Linked, Protocol):
    """What the API asks of a node. Calls happen on the event loop and must not take long.

    `after` and `limit` choose a part of a list, see `page_of`; `after` is empty at first. A `LatecomerError` is
    the operator's to read, and becomes an answer.
    """

    def health(self) -> Health: ...

    def metrics(self) -> bytes: ...

    def overview(self) -> Overview: ...

    def clients(self, after: str, limit: int) -> Page[ClientView]: ...

    def client(self, client: ClientId) -> ClientView | None: ...

    def subscriptions(self, after: str, limit: int) -> Page[SubscriptionView]: ...

    def retained(self, after: str, limit: int) -> Page[RetainedView]: ...

    def links(self) -> Sequence[LinkView]: ...

    async def stores(self, sizes: Sequence[str] = (), broker: BrokerId = "") -> StoresView:
        """`sizes` are topic filters: how much the broker's own store holds of each. With another broker's name, what
        that one says."""
        ...

    def network(self) -> NetworkView: ...

    async def assign(self, topics: tuple[str, ...], plan: str, broker: BrokerId = "") -> StoresView:
        """Keep these topics from now on, and no others, here or at another broker; what that one then says."""
        ...

    def disconnect(self, client: ClientId, reason: str, use_another_server: bool = False, to: BrokerId = "") -> bool:
        """End a client's connection, telling it the reason, and which broker to use instead if it follows references;
        False if there is none."""
        ...

    def end_session(self, client: ClientId, reason: str) -> bool:
        """End a client's session and with it its connection, telling it the reason; False if there is none."""
        ...

    def sessions(self, after: str, limit: int, client: ClientId = "") -> Page[SessionView]:
        """Sessions here, on their way here and on their way elsewhere; those of one client, if it is named."""
        ...

    def move_session(self, client: ClientId, to: BrokerId, gently: bool = False) -> bool:
        """Begin to move a client's session to another broker; False if there is none. `gently`: not if that publishes
        its will, or may end its session."""
        ...

    def homes(self) -> HomesView:
        """Clients that would be better at other brokers."""
        ...

    def release_session(self, client: ClientId) -> bool:
        """Take a session back that is promised to a broker that will not come back; False if there is none."""
        ...

    def drain(self, on: bool) -> None:
        """Refuse new connections of clients from now on, or accept them again."""
        ...

    async def reload(self) -> str:
        """Read users and rules again; a sentence that says what is now in force."""
        ...

    def shutdown(self) -> None:
        """Begin to stop; returns at once."""
        ...


# --- what is asked ---


class Disconnect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    client: Annotated[str, msgspec.Meta(min_length=1, max_length=65_535)]
    reason: Annotated[str, msgspec.Meta(max_length=1000)] = "an operator has closed the connection"
    use_another_server: bool = False
    """Tell it to connect to another broker (0x9C) instead of the usual reason code (0x98)."""
    to: Annotated[str, msgspec.Meta(max_length=255)] = ""
    """Which one, if the client follows references."""


class EndSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    client: Annotated[str, msgspec.Meta(min_length=1, max_length=65_535)]
    reason: Annotated[str, msgspec.Meta(max_length=1000)] = "an operator has ended the session"


class MoveSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    client: Annotated[str, msgspec.Meta(min_length=1, max_length=65_535)]
    to: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    """The broker that is to have it."""
    gently: bool = False
    """Refuse if the client is connected and must not be sent: because of its will, or of what is under way."""


class ReleaseSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    client: Annotated[str, msgspec.Meta(min_length=1, max_length=65_535)]


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    on: bool


class Assign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topics: tuple[str, ...]
    """Topic filters; none: nothing is kept any more."""
    plan: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """Which plan says so; for those who read it."""
    broker: Annotated[str, msgspec.Meta(max_length=255)] = ""
    """Another broker, to which it is carried over the links; empty: this one."""


# --- the server ---


class Admin:
    """Serves the API of one node.

    `hosts` are the names under which it may be addressed, without port, besides the address it listens on; `origins`
    the sites whose pages may call it, besides its own. `/metrics` needs no token from this machine itself,
    and from nowhere with `metrics_public`.
    """

    def __init__(
        self,
        node: Administered,
        token: str,
        hosts: Sequence[str] = ("localhost", "127.0.0.1", "::1"),
        origins: Sequence[str] = (),
        metrics_public: bool = False,
        refusals: Sparing | None = None,
    ) -> None:
        if len(token) < TOKEN_MIN:
            raise SettingsError("admin.token", f"has fewer than {TOKEN_MIN} characters; use a longer one")
        self._node = node
        self._token = token.encode("utf-8", "surrogateescape")
        self._hosts = frozenset(host.lower().strip("[]") for host in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)
        self._metrics_public = metrics_public
        self._runner: web.AppRunner | None = None
        self._http_log = http_log(refusals or Sparing("refusals", time.monotonic))

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen; returns the port, which is another one if 0 was asked for."""
        assert self._runner is None
        more: dict[str, Any] = {"logger": self._http_log, "keepalive_timeout": 15}
        runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=1, **more)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port, ssl_context=tls).start()
        except OSError as error:
            await runner.cleanup()
            why = os.strerror(error.errno).lower() if error.errno else str(error)  # asyncio adds a tale of its own
            problem = f"cannot listen on {host}, port {port}: {why}; choose another one"
            raise SettingsError("admin.port", problem) from error
        if not is_wildcard(host):
            self._hosts |= {host.lower()}
        self._runner = runner
        return int(runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening, and end what is under way."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._gate], client_max_size=BODY_MAX)
        application.on_response_prepare.append(_add_headers)
        application.add_routes(
            [
                web.get("/healthz", self._health),
                web.get("/metrics", self._metrics),
                web.get("/api/v1/overview", self._overview),
                web.get("/api/v1/clients", self._clients),
                web.get("/api/v1/client", self._client),
                web.get("/api/v1/subscriptions", self._subscriptions),
                web.get("/api/v1/retained", self._retained),
                web.get("/api/v1/links", self._links),
                web.get("/api/v1/stores", self._stores),
                web.get("/api/v1/network", self._network),
                web.post("/api/v1/store", self._assign),
                web.post("/api/v1/disconnect", self._disconnect),
                web.post("/api/v1/end-session", self._end_session),
                web.get("/api/v1/sessions", self._sessions),
                web.post("/api/v1/move-session", self._move_session),
                web.get("/api/v1/homes", self._homes),
                web.post("/api/v1/release-session", self._release_session),
                web.post("/api/v1/drain", self._drain),
                web.post("/api/v1/reload", self._reload),
                web.post("/api/v1/shutdown", self._shutdown),
                *model_routes(self._node),
                *overlay_routes(self._node),
                *link_routes(self._node),
            ]
        )
        return application

    # --- the gates ---

    @web.middleware
    async def _gate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._check_host(request)
            self._check_origin(request)
            if not self._is_open(request):
                self._check_token(request)
            return await handler(request)
        except web.HTTPException as error:
            return _problem(error)
        except LatecomerError as error:
            return _json({"problem": str(error)}, status=503 if isinstance(error, Unreachable) else 409)
        except Exception:
            _log.exception("the admin API cannot answer %s %r", request.method, request.path)
            return _json({"problem": "the broker could not answer this; its log says why"}, status=500)

    def _check_host(self, request: web.Request) -> None:
        """A page of evil.example whose name points at this machine addresses it as evil.example: DNS rebinding."""
        if _hostname(f"//{request.headers.get('Host', '')}") not in self._hosts:
            raise web.HTTPMisdirectedRequest(
                text="this host name is not one of the broker's; use another one, or add it to admin.hosts"
            )

    def _check_origin(self, request: web.Request) -> None:
        host = request.headers.get("Host", "").lower()
        for origin in request.headers.getall("Origin", ()):
            if origin.lower() not in {f"http://{host}", f"https://{host}"} | self._origins:
                raise web.HTTPForbidden(text="pages of this site may not ask the broker; add it to admin.origins")

    def _is_open(self, request: web.Request) -> bool:
        """Whether this is told without a token."""
        if request.path == "/healthz":
            return True
        if request.path == "/metrics":
            # What a proxy on this machine hands on does not come from this machine.
            handed_on = "X-Forwarded-For" in request.headers or "Forwarded" in request.headers
            return self._metrics_public or (_is_loopback(request.remote) and not handed_on)
        return False

    def _check_token(self, request: web.Request) -> None:
        given = request.headers.getall("Authorization", ())
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        right = hmac.compare_digest(token.strip().encode("utf-8", "surrogateescape"), self._token)
        if scheme.lower() != "bearer" or not right:
            raise web.HTTPUnauthorized(
                text="this needs the header 'Authorization: Bearer' with the admin token of the broker",
                headers={"WWW-Authenticate": "Bearer"},
            )

    # --- what is asked ---

    async def _health(self, request: web.Request) -> web.Response:
        health = self._node.health()
        return _json(health, status=200 if health.status in ("ok", "degraded") else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._node.metrics(), headers={"Content-Type": CONTENT_TYPE})

    async def _overview(self, request: web.Request) -> web.Response:
        return _json(self._node.overview())

    async def _clients(self, request: web.Request) -> web.Response:
        return _json(self._node.clients(*_part(request)))

    async def _client(self, request: web.Request) -> web.Response:
        client = request.query.get("id", "")
        found = self._node.client(client)
        if found is None:
            raise web.HTTPNotFound(text=_unknown(client))
        return _json(found)

    async def _subscriptions(self, request: web.Request) -> web.Response:
        return _json(self._node.subscriptions(*_part(request)))

    async def _retained(self, request: web.Request) -> web.Response:
        return _json(self._node.retained(*_part(request)))

    async def _links(self, request: web.Request) -> web.Response:
        return _json(list(self._node.links()))

    async def _stores(self, request: web.Request) -> web.Response:
        sizes = request.query.getall("size", [])
        for name in sizes:
            try:
                check_filter(name)
            except FilterError as error:
                raise web.HTTPBadRequest(text=f"size: {error.problem}") from None
        return _json(await self._node.stores(sizes, request.query.get("broker", "")))

    async def _network(self, request: web.Request) -> web.Response:
        return _json(self._node.network())

    async def _assign(self, request: web.Request) -> web.Response:
        command = await body_of(request, Assign)
        return _json(await self._node.assign(command.topics, command.plan, command.broker))

    async def _disconnect(self, request: web.Request) -> web.Response:
        command = await body_of(request, Disconnect)
        if not self._node.disconnect(command.client, command.reason, command.use_another_server, command.to):
            raise web.HTTPNotFound(text=_unknown(command.client))
        return _json({"done": "the client is disconnected"})

    async def _end_session(self, request: web.Request) -> web.Response:
        command = await body_of(request, EndSession)
        if not self._node.end_session(command.client, command.reason):
            raise web.HTTPNotFound(text=_unknown(command.client))
        return _json({"done": "the session is ended"})

    async def _sessions(self, request: web.Request) -> web.Response:
        return _json(self._node.sessions(*_part(request), request.query.get("client", "")))

    async def _move_session(self, request: web.Request) -> web.Response:
        command = await body_of(request, MoveSession)
        if not self._node.move_session(command.client, command.to, command.gently):
            raise web.HTTPNotFound(text=_unknown(command.client))
        return _json({"done": f"the session is on its way to {command.to}"}, status=202)

    async def _homes(self, request: web.Request) -> web.Response:
        return _json(self._node.homes())

    async def _release_session(self, request: web.Request) -> web.Response:
        command = await body_of(request, ReleaseSession)
        if not self._node.release_session(command.client):
            raise web.HTTPNotFound(text=_unknown(command.client))
        return _json({"done": "the session is this broker's again"})

    async def _drain(self, request: web.Request) -> web.Response:
        command = await body_of(request, Drain)
        self._node.drain(command.on)
        return _json({"done": f"new clients are {'refused' if command.on else 'accepted'}"})

    async def _reload(self, request: web.Request) -> web.Response:
        await body_of(request, Nothing)
        return _json({"done": await self._node.reload()})

    async def _shutdown(self, request: web.Request) -> web.Response:
        await body_of(request, Nothing)
        self._node.shutdown()
        return _json({"done": "the broker is stopping"}, status=202)


# --- answers ---


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _problem(error: web.HTTPException) -> web.Response:
    """aiohttp's own errors have a number and a title for their text; ours have a sentence."""
    text = error.text or ""
    if text.startswith(f"{error.status}:"):
        text = _SENTENCES.get(error.status, error.reason.lower())
    answer = _json({"problem": text}, status=error.status)
    for name in ("Allow", "WWW-Authenticate"):
        if name in error.headers:
            answer.headers[name] = error.headers[name]
    return answer


_SENTENCES: Mapping[int, str] = {
    404: "there is nothing at this path; the guide to operating a broker lists what there is",
    405: "this method is not for this path; the header Allow names those that are",
}


def _unknown(client: ClientId) -> str:
    return f"no client {client!r} at this broker"


# --- requests ---


def _part(request: web.Request) -> tuple[str, int]:
    text = request.query.get("limit", str(LIMIT_DEFAULT))
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= LIMIT_MAX):
        raise web.HTTPBadRequest(text=f"limit must be a number from 1 to {LIMIT_MAX}")
    return request.query.get("after", ""), int(text)


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def is_wildcard(host: str) -> bool:
    """Whether a server that listens on it listens on every address of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host


def _is_loopback(address: str | None) -> bool:
    try:
        return ipaddress.ip_address(address or "").is_loopback
    except ValueError:
        return False
