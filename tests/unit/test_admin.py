"""The admin API over real sockets, with a node made for the test."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.runtime import admin as api
from latecomer.runtime import admin_http, admin_model
from latecomer.runtime.admin import Admin
from latecomer.runtime.admin_views import (
    ClientView,
    Health,
    LinkView,
    Overview,
    Page,
    RetainedView,
    SubscriptionView,
    TreeView,
    page_of,
)
from latecomer.runtime.errands import Unreachable
from latecomer.runtime.homes_views import HomesView, PeerView, ProposalView
from latecomer.runtime.metrics import Counters, render
from latecomer.runtime.neighbourhood import NeighboursView
from latecomer.runtime.network_views import KeptView, MemberView, NetworkView, WireView
from latecomer.runtime.overlay_views import NO_RING, OverlayView
from latecomer.runtime.predicting import ModelView
from latecomer.runtime.session_views import SessionView
from latecomer.runtime.settings import Neighbour
from latecomer.runtime.sparing import Sparing
from latecomer.runtime.store_views import (
    ClassView,
    OtherStoreView,
    StoresView,
    StoreView,
    WayView,
    complete_since,
)

TOKEN = "a token for tests only"
NASTY = "<script>alert('é')</script>/+#\u202e"


class Node:
    """A broker with three clients."""

    def __init__(self) -> None:
        self.status = Health("ok")
        self.known = {name: ClientView(name, True, user="u") for name in ("a", "b/c", NASTY)}
        self.done: list[str] = []
        self.model = b""

    def health(self) -> Health:
        return self.status

    def overlay(self) -> OverlayView:
        raise LatecomerError(NO_RING)

    def propose(self, places: Mapping[str, int]) -> None:
        self.done.append(f"propose {places}")

    def abandon(self) -> bool:
        return bool(self.done)

    def metrics(self) -> bytes:
        return render(Counters(bytes_in=3), {})

    def overview(self) -> Overview:
        tree = TreeView("v7", True, ("b1", "b2"))
        return Overview("b1", "net", "0.1", 4, 12.5, "power", tree, tuple(self.links()), {"clients": 3})

    def clients(self, after: str, limit: int) -> Page[ClientView]:
        keys, more = page_of(self.known, after, limit)
        return Page(tuple(self.known[key] for key in keys), more)

    def client(self, client: str) -> ClientView | None:
        if client == "poison":
            raise RuntimeError("a secret of the inside")
        return self.known.get(client)

    def subscriptions(self, after: str, limit: int) -> Page[SubscriptionView]:
        return Page((SubscriptionView("a", "x/#", 1),))

    def retained(self, after: str, limit: int) -> Page[RetainedView]:
        return Page((RetainedView(f"t/{after}/{limit}", 0, 5),))

    def links(self) -> Sequence[LinkView]:
        return [LinkView("b2", "held", problem="refused")]

    async def stores(self, sizes: Sequence[str] = (), broker: str = "") -> StoresView:
        if broker:
            raise Unreachable(f"there is no way from b1 to {broker} now")
        store = StoreView((ClassView("t/#", 5, ((7, 0),), True),), events=3, problem="the store is full: no room")
        others, table = (OtherStoreView("b2", ("t/#",), 9, False),), (WayView("t/#", 0, ("b1",)),)
        return StoresView("b1", store, others, table, 70, dict.fromkeys(sizes, (3, 33)))

    def neighbours(self) -> NeighboursView:
        return NeighboursView("b1", "net", {"kind": "forwarding"}, "127.0.0.1", 1884, "secret", ())

    async def add_neighbour(self, neighbour: Neighbour) -> None:
        if neighbour.id == "b1":
            raise SettingsError("id", "'b1' is this broker itself; name another one")
        self.done.append(f"add {neighbour.id} {neighbour.host} {neighbour.port} {neighbour.cost_us}")

    def remove_neighbour(self, peer: str) -> None:
        self.done.append(f"remove {peer}")

    def forget(self, broker: str) -> None:
        if broker == "b2":
            raise LatecomerError("b2 is there")
        self.done.append(f"forget {broker}")

    def network(self) -> NetworkView:
        brokers = (MemberView("b1", True), MemberView("b2", True, "b1"), MemberView("b3", False))
        links = (WireView("b1", "b2", 5, True),)
        return NetworkView("b1", "net", "v1", True, "b1", brokers, links, (KeptView("b2", "t/#", 9, True),))

    async def assign(self, topics: tuple[str, ...], plan: str, broker: str = "") -> StoresView:
        self.done.append(f"{broker or 'b1'} keeps {' '.join(topics) or 'nothing'} {plan}")
        if "#/a" in topics:
            raise SettingsError("topics[0]", "'#' must be the last character")
        return await self.stores()

    def disconnect(self, client: str, reason: str, use_another_server: bool = False, to: str = "") -> bool:
        self.done.append(f"{client}: {reason}" + (f" (use another server {to})" if use_another_server else ""))
        return client in self.known

    def end_session(self, client: str, reason: str) -> bool:
        self.done.append(f"end {client}: {reason}")
        return client in self.known

    def sessions(self, after: str, limit: int, client: str = "") -> Page[SessionView]:
        keys, more = page_of([client] if client else self.known, after, limit)
        return Page(tuple(SessionView("b1", key, "here") for key in keys if key in self.known), more)

    def homes(self) -> HomesView:
        peers, proposals = (PeerView("b2", 3, 9, 1.5, 7),), (ProposalView("a", "b2", 0.25, 0.75, 0.4),)
        return HomesView("b1", "advise", 2, 6, 0.5, 0.25, peers, proposals, 1, 0, 0)

    def move_session(self, client: str, to: str, gently: bool = False) -> bool:
        if to == "b9":
            raise LatecomerError("there is no way from b1 to b9 now")
        self.done.append(f"{client} to {to}" + " gently" * gently)
        return client in self.known

    def release_session(self, client: str) -> bool:
        if client == "b/c":
            raise LatecomerError("b1 has promised no session of b/c to anybody")
        self.done.append(f"release {client}")
        return client in self.known

    def drain(self, on: bool) -> None:
        self.done.append(f"drain {on}")

    def movement_model(self) -> ModelView:
        return ModelView("b1", "loaded", len(self.model)) if self.model else ModelView("b1")

    async def load_model(self, data: bytes) -> ModelView:
        if data == b"spoilt":
            raise SettingsError("", "is no movement model")
        self.model = data
        return self.movement_model()

    def remove_model(self) -> bool:
        had, self.model = bool(self.model), b""
        return had

    async def reload(self) -> str:
        if self.done:
            raise SettingsError("access.users", "line 3 has no password")
        self.done.append("reload")
        return "5 users"

    def shutdown(self) -> None:
        self.done.append("shutdown")


class Caller:
    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self.session = session
        self.url = f"http://127.0.0.1:{port}"
        self.port = port

    async def ask(
        self, path: str, method: str = "GET", *, token: str | None = TOKEN, **options: Any
    ) -> tuple[int, Any, aiohttp.ClientResponse]:
        headers = dict(options.pop("headers", {}))
        if token is not None:
            headers.setdefault("Authorization", f"Bearer {token}")
        async with self.session.request(method, self.url + path, headers=headers, **options) as answer:
            raw = await answer.read()
            body = json.loads(raw) if answer.content_type == "application/json" else raw
            return answer.status, body, answer


@asynccontextmanager
async def served(node: Node, **options: Any) -> AsyncIterator[Caller]:
    admin = Admin(node, TOKEN, **options)
    port = await admin.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session:
            yield Caller(session, port)
    finally:
        await admin.stop()


def told(story: Callable[[Node, Caller], Awaitable[None]], **options: Any) -> Node:
    node = Node()

    async def run() -> None:
        async with asyncio.timeout(60), served(node, **options) as caller:
            await story(node, caller)

    asyncio.run(run())
    return node


BAD_HTTP = (
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    b"GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\r\n\r\n",
)


def test_what_is_no_http_is_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """Anybody can send it: one line each, and a count if there are many."""
    caplog.set_level(logging.INFO)

    async def story(node: Node, caller: Caller) -> None:
        for number in range(40):
            reader, writer = await asyncio.open_connection("127.0.0.1", caller.port)
            writer.write(BAD_HTTP[number % 4])
            assert b" 400 " in await reader.readline()
            writer.close()
        assert (await caller.ask("/healthz"))[0] == 200

    told(story, refusals=Sparing("refusals", time.monotonic, lines=5, seconds=1000.0))
    lines = [record for record in caplog.records if "admin interface" in record.message]
    assert len(lines) == 5
    assert not any(record.exc_info for record in caplog.records)


# --- what is told ---


def test_health_needs_no_token() -> None:
    async def story(node: Node, caller: Caller) -> None:
        assert (await caller.ask("/healthz", token=None))[:2] == (200, {"status": "ok", "problems": []})
        node.status = Health("starting")
        assert (await caller.ask("/healthz", token=None))[0] == 503
        node.status = Health("degraded", ("1 internal errors",))
        assert (await caller.ask("/healthz", token=None))[:2] == (
            200,
            {"status": "degraded", "problems": ["1 internal errors"]},
        )
        node.status = Health("failing", ("the disk is full: make room",))
        assert (await caller.ask("/healthz", token=None))[:2] == (
            503,
            {"status": "failing", "problems": ["the disk is full: make room"]},
        )

    told(story)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("overview", {"broker": "b1", "boot": 4, "tree": {"version": "v7", "ready": True, "members": ["b1", "b2"]}}),
        ("subscriptions", {"items": [{"client": "a", "filter": "x/#", "qos": 1, "content": "", "share": ""}]}),
        ("retained?after=k&limit=7", {"items": [{"topic": "t/k/7", "qos": 0, "bytes": 5, "at_us": 0}], "next": ""}),
        ("retained", {"items": [{"topic": "t//100", "qos": 0, "bytes": 5, "at_us": 0}], "next": ""}),
        ("client?id=b/c", {"id": "b/c", "user": "u", "connected": True}),
    ],
)
def test_views(path: str, expected: dict[str, Any]) -> None:
    async def story(node: Node, caller: Caller) -> None:
        status, body, answer = await caller.ask(f"/api/v1/{path}")
        assert status == 200
        assert answer.content_type == "application/json"
        assert body | expected == body

    told(story)


def test_links() -> None:
    async def story(node: Node, caller: Caller) -> None:
        (link,) = (await caller.ask("/api/v1/links"))[1]
        assert (link["peer"], link["state"], link["problem"]) == ("b2", "held", "refused")

    told(story)


def test_stores() -> None:
    async def story(node: Node, caller: Caller) -> None:
        assert (await caller.ask("/api/v1/stores", token=None))[0] == 401
        _, told, _ = await caller.ask("/api/v1/stores")
        [found] = told["store"]["classes"]
        assert (found["topics"], found["since_us"], found["gaps"], found["answering"]) == ("t/#", 5, [[7, 0]], True)
        assert (told["store"]["events"], told["store"]["problem"]) == (3, "the store is full: no room")
        assert told["others"] == [{"broker": "b2", "topics": ["t/#"], "complete_since_us": 9, "filling": False}]
        assert told["table"] == [{"topics": "t/#", "hops": 0, "ways": ["b1"]}]
        assert (told["room_bytes"], told["sizes"]) == (70, {})
        _, counted, _ = await caller.ask("/api/v1/stores", params=[("size", "t/#"), ("size", "u")])
        assert counted["sizes"] == {"t/#": [3, 33], "u": [3, 33]}
        status, refused, _ = await caller.ask("/api/v1/stores", params={"size": "#/t"})
        assert (status, refused["problem"].startswith("size: '#' must be the last")) == (400, True)
        status, away, _ = await caller.ask("/api/v1/stores", params={"broker": "b3"})
        assert (status, away["problem"]) == (503, "there is no way from b1 to b3 now")

    told(story)


def test_network() -> None:
    async def story(node: Node, caller: Caller) -> None:
        assert (await caller.ask("/api/v1/network", token=None))[0] == 401
        _, told, _ = await caller.ask("/api/v1/network")
        assert [(each["id"], each["present"], each["parent"]) for each in told["brokers"]] == [
            ("b1", True, ""),
            ("b2", True, "b1"),
            ("b3", False, ""),
        ]
        assert told["links"] == [{"a": "b1", "b": "b2", "cost_us": 5, "in_tree": True}]
        assert told["kept"] == [{"broker": "b2", "topics": "t/#", "since_us": 9, "answering": True}]

    told(story)


def test_topics_are_assigned_to_a_store() -> None:
    async def story(node: Node, caller: Caller) -> None:
        for body, status, sentence in (
            ({"topics": ["t/#", "u"], "plan": "p7"}, 200, "b1 keeps t/# u p7"),
            ({"topics": []}, 200, "b1 keeps nothing "),
            ({"topics": ["a"], "broker": "b2"}, 200, "b2 keeps a "),
            ({"topics": ["#/a"]}, 409, "b1 keeps #/a "),
        ):
            assert (await caller.ask("/api/v1/store", "POST", json=body))[0] == status
            assert node.done.pop() == sentence
        assert (await caller.ask("/api/v1/store", "POST", json={"topics": ["a"]}, token=None))[0] == 401
        assert (await caller.ask("/api/v1/store", "POST", json={}))[0] == 400, "nothing is withdrawn by an oversight"
        assert node.done == []

    told(story)


@pytest.mark.parametrize(
    ("classes", "kept_from_us", "since_us"),
    [
        ((), 4, 4),
        ((ClassView("a", 7), ClassView("b", 9)), 4, 9),
        ((ClassView("a", 7),), 8, 8),
        ((ClassView("a", 7, ((10, 12),)),), 4, 12),
        ((ClassView("a", 7, ((10, 0),)),), 4, 0),
    ],
)
def test_a_store_is_complete_where_all_its_classes_are(
    classes: tuple[ClassView, ...], kept_from_us: int, since_us: int
) -> None:
    assert complete_since(classes, kept_from_us) == since_us


def test_a_session_is_ended() -> None:
    async def story(node: Node, caller: Caller) -> None:
        status, body, _ = await caller.ask("/api/v1/end-session", "POST", json={"client": "a", "reason": "moved"})
        assert (status, body, node.done) == (200, {"done": "the session is ended"}, ["end a: moved"])
        status, body, _ = await caller.ask("/api/v1/end-session", "POST", json={"client": "who"})
        assert (status, body) == (404, {"problem": "no client 'who' at this broker"})

    told(story)


def test_sessions_are_listed_and_filtered_by_client() -> None:
    async def story(node: Node, caller: Caller) -> None:
        status, body, _ = await caller.ask("/api/v1/sessions", params={"limit": "2"})
        assert (status, len(body["items"]), body["next"]) == (200, 2, body["items"][1]["client"])
        status, body, _ = await caller.ask("/api/v1/sessions", params={"client": "b/c"})
        assert (status, [(item["client"], item["where"]) for item in body["items"]]) == (200, [("b/c", "here")])
        assert (await caller.ask("/api/v1/sessions", params={"client": "who"}))[1] == {"items": [], "next": ""}

    told(story)


def test_homes_are_shown_and_clients_moved_gently() -> None:
    async def story(node: Node, caller: Caller) -> None:
        status, body, _ = await caller.ask("/api/v1/homes")
        assert (status, body["proposals"][0]["to"], body["peers"][0]["load"]) == (200, "b2", 1.5)
        command = {"client": "a", "to": "b2", "gently": True}
        assert (await caller.ask("/api/v1/move-session", "POST", json=command))[0] == 202
        assert node.done == ["a to b2 gently"]

    told(story)


@pytest.mark.parametrize(
    ("path", "command", "status", "answer"),
    [
        ("move-session", {"client": "a", "to": "b2"}, 202, {"done": "the session is on its way to b2"}),
        ("move-session", {"client": "a", "to": "b9"}, 409, {"problem": "there is no way from b1 to b9 now"}),
        ("move-session", {"client": "who", "to": "b2"}, 404, {"problem": "no client 'who' at this broker"}),
        ("release-session", {"client": "a"}, 200, {"done": "the session is this broker's again"}),
        ("release-session", {"client": "b/c"}, 409, {"problem": "b1 has promised no session of b/c to anybody"}),
        ("release-session", {"client": "who"}, 404, {"problem": "no client 'who' at this broker"}),
        ("drain", {"on": True}, 200, {"done": "new clients are refused"}),
        ("drain", {"on": False}, 200, {"done": "new clients are accepted"}),
    ],
)
def test_sessions_are_moved_and_brokers_drained(
    path: str, command: dict[str, Any], status: int, answer: dict[str, str]
) -> None:
    async def story(node: Node, caller: Caller) -> None:
        assert (await caller.ask(f"/api/v1/{path}", "POST", json=command))[:2] == (status, answer)
        assert bool(node.done) is (status != 409)

    told(story)


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("move-session", {"client": "a"}),
        ("move-session", {"client": "", "to": "b2"}),
        ("drain", {}),
        ("drain", {"on": 7}),
    ],
)
def test_commands_about_sessions_are_checked(path: str, command: dict[str, Any]) -> None:
    async def story(node: Node, caller: Caller) -> None:
        status, body, _ = await caller.ask(f"/api/v1/{path}", "POST", json=command)
        assert (status, list(body)) == (400, ["problem"])

    assert told(story).done == []


def test_a_client_is_told_to_use_another_server() -> None:
    async def story(node: Node, caller: Caller) -> None:
        command = {"client": "a", "reason": "drained", "use_another_server": True, "to": "b2"}
        assert (await caller.ask("/api/v1/disconnect", "POST", json=command))[0] == 200
        assert node.done == ["a: drained (use another server b2)"]

    told(story)


def test_any_name_is_told_as_it_is() -> None:
    async def story(node: Node, caller: Caller) -> None:
        status, body, _ = await caller.ask("/api/v1/client", params={"id": NASTY})
        assert (status, body["id"]) == (200, NASTY)
        status, body, _ = await caller.ask("/api/v1/client", params={"id": "<b>"})
        assert (status, body) == (404, {"problem": "no client '<b>' at this broker"})

    told(story)


def test_pages_go_through_the_whole_list() -> None:
    async def story(node: Node, caller: Caller) -> None:
        seen: list[str] = []
        after = ""
        while True:
            status, body, _ = await caller.ask("/api/v1/clients", params={"after": after, "limit": "1"})
            assert status == 200
            seen += [client["id"] for client in body["items"]]
            after = body["next"]
            if not after:
                break
        assert seen == sorted(node.known)

    told(story)


def test_page_of() -> None:
    assert page_of(["c", "a", "b"], "", 2) == (["a", "b"], "b")
    assert page_of(["c", "a", "b"], "b", 2) == (["c"], "")
    assert page_of(["c", "a", "b"], "", 3) == (["a", "b", "c"], "")
    assert page_of([], "", 1) == ([], "")


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", "", "١", "9" * 5000])
def test_limits(limit: str) -> None:
    async def story(node: Node, caller: Caller) -> None:
        status, body, _ = await caller.ask("/api/v1/clients", params={"limit": limit})
        assert (status, body) == (400, {"problem": "limit must be a number from 1 to 1000"})

    told(story)


# --- what is done ---


def test_commands() -> None:
    async def story(node: Node, caller: Caller) -> None:
        assert (await caller.ask("/api/v1/reload", "POST", json={}))[:2] == (200, {"done": "5 users"})
        status, body, _ = await caller.ask("/api/v1/disconnect", "POST", json={"client": "b/c", "reason": "tidying"})
        assert (status, body) == (200, {"done": "the client is disconnected"})
        status, body, _ = await caller.ask("/api/v1/disconnect", "POST", json={"client": "who"})
        assert (status, body) == (404, {"problem": "no client 'who' at this broker"})
        status, body, _ = await caller.ask("/api/v1/reload", "POST", json={})
        assert (status, body) == (409, {"problem": "access.users: line 3 has no password"})
        no_body = {"Content-Type": "application/json"}
        assert (await caller.ask("/api/v1/shutdown", "POST", headers=no_body))[0] == 202

    node = told(story)
    assert node.done == ["reload", "b/c: tidying", "who: an operator has closed the connection", "shutdown"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"client": "a", "client": "b"}', "twice"),
        (b'{"client": "a", "reason": NaN}', "NaN"),
        (b'{"client": "a", "reason": -Infinity}', "Infinity"),
        (b'{"client": 1}', "str"),
        (b'{"client": ""}', "length"),
        (b'{"client": "a", "force": true}', "force"),
        (b'{"client": "\\ud800"}', "cannot be used"),
        (b'{"client": "\xff"}', "utf-8"),
        (b"[]", "object"),
        (b"", "client"),
        (b"{", "Expecting"),
        (b"[" * 100_000, "deep"),
        (b'{"client": ' + b"9" * 10_000 + b"}", "cannot be used"),
    ],
)
def test_bodies_that_are_no_command(body: bytes, words: str) -> None:
    async def story(node: Node, caller: Caller) -> None:
        headers = {"Content-Type": "application/json"}
        status, answer, _ = await caller.ask("/api/v1/disconnect", "POST", data=body, headers=headers)
        assert status == 400
        assert words in answer["problem"]

    assert told(story).done == []


def test_a_body_has_a_limit() -> None:
    async def story(node: Node, caller: Caller) -> None:
        data = io.BytesIO(json.dumps({"client": "x" * admin_http.BODY_MAX}).encode())
        headers = {"Content-Type": "application/json"}
        status, answer, _ = await caller.ask("/api/v1/disconnect", "POST", data=data, headers=headers)
        assert (status, answer) == (413, {"problem": "a body may have at most 1048576 bytes"})

    assert told(story).done == []


def test_a_body_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_http, "BODY_S", 0.05)

    async def story(node: Node, caller: Caller) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", caller.port)
        writer.write(
            b"POST /api/v1/shutdown HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 2\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n{"
        )
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        writer.close()
        await writer.wait_closed()

    assert told(story).done == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_what_a_form_can_send_is_no_command(kind: str | None) -> None:
    """Cross-site request forgery: these need no leave of the browser."""

    async def story(node: Node, caller: Caller) -> None:
        headers = {"Content-Type": kind} if kind else {}
        skip = () if kind else ("Content-Type",)
        status, answer, _ = await caller.ask(
            "/api/v1/shutdown", "POST", data=b"{}", headers=headers, skip_auto_headers=skip
        )
        assert status == 415
        assert "application/json" in answer["problem"]

    assert told(story).done == []


# --- the gates ---


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer é"},
        {"Cookie": f"token={TOKEN}; Authorization=Bearer {TOKEN}"},
    ],
)
def test_without_the_token_nothing_is_told(headers: dict[str, str]) -> None:
    async def story(node: Node, caller: Caller) -> None:
        for path in (
            "overview",
            "clients",
            "client?id=a",
            "subscriptions",
            "retained",
            "links",
            "sessions",
            "homes",
            "nonsense",
        ):
            status, body, answer = await caller.ask(f"/api/v1/{path}", token=None, headers=headers)
            assert status == 401
            assert list(body) == ["problem"]
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        for path in ("disconnect", "end-session", "move-session", "release-session", "drain", "reload", "shutdown"):
            assert (await caller.ask(f"/api/v1/{path}", "POST", token=None, headers=headers, json={}))[0] == 401
        assert (await caller.ask(f"/api/v1/overview?token={TOKEN}&access_token={TOKEN}", token=None))[0] == 401

    assert told(story).done == []


@pytest.mark.parametrize("token", ["", "x" * 15])
def test_a_token_is_long(token: str) -> None:
    with pytest.raises(SettingsError, match=r"admin\.token: has fewer than 16"):
        Admin(Node(), token)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1234", 200),
        ("[::1]:1234", 200),
        ("broker.example", 200),
        ("127.0.0.1:1234", 200),  # the address it listens on
        ("0.0.0.0", 421),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("broker.example.", 421),
        ("[", 421),
        ("", 421),
    ],
)
def test_hosts(host: str, status: int) -> None:
    """DNS rebinding: the page's name points here, but it is not ours."""

    async def story(node: Node, caller: Caller) -> None:
        for path in ("/healthz", "/metrics", "/api/v1/overview"):
            found, body, _ = await caller.ask(path, headers={"Host": host})
            assert found == status
            if status != 200:
                assert "admin.hosts" in body["problem"]

    told(story, hosts=["localhost", "[::1]", "Broker.example"])


def test_every_address_is_not_a_name() -> None:
    """Who listens on 0.0.0.0 lists the names; a page can address this machine as 0.0.0.0 from everywhere."""

    async def story() -> None:
        admin = Admin(Node(), TOKEN)
        port = await admin.start("0.0.0.0", 0)
        try:
            async with asyncio.timeout(60), aiohttp.ClientSession() as session:
                caller = Caller(session, port)
                assert (await caller.ask("/healthz"))[0] == 200
                assert (await caller.ask("/healthz", headers={"Host": "0.0.0.0"}))[0] == 421
        finally:
            await admin.stop()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://good.example", 200),
        ("http://localhost:80", 200),
        ("https://localhost:80", 200),
        ("http://localhost", 403),
        ("http://localhost:81", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_origins(origin: str, status: int) -> None:
    async def story(node: Node, caller: Caller) -> None:
        headers = {"Origin": origin, "Host": "localhost:80"}
        found, _, answer = await caller.ask("/api/v1/overview", headers=headers)
        assert found == status
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        preflight = headers | {"Access-Control-Request-Method": "POST"}
        _, _, answer = await caller.ask("/api/v1/shutdown", "OPTIONS", headers=preflight)
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]

    told(story, origins=["https://good.example"])


def test_metrics() -> None:
    async def story(node: Node, caller: Caller) -> None:
        status, body, answer = await caller.ask("/metrics", token=None)
        assert status == 200
        assert b"latecomer_bytes_total" in body
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        for header in ("X-Forwarded-For", "Forwarded"):
            assert (await caller.ask("/metrics", token=None, headers={header: "for=10.0.0.1"}))[0] == 401
            assert (await caller.ask("/metrics", headers={header: "for=10.0.0.1"}))[0] == 200

    told(story)


@pytest.mark.parametrize(("public", "status"), [(False, 401), (True, 200)])
def test_metrics_from_elsewhere(public: bool, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_is_loopback", lambda address: False)

    async def story(node: Node, caller: Caller) -> None:
        assert (await caller.ask("/metrics", token=None))[0] == status
        assert (await caller.ask("/api/v1/overview", token=None))[0] == 401

    told(story, metrics_public=public)


# --- errors ---


def test_every_answer_has_the_headers() -> None:
    async def story(node: Node, caller: Caller) -> None:
        for path, token in (("/healthz", TOKEN), ("/api/v1/overview", None), ("/nonsense", TOKEN), ("/metrics", TOKEN)):
            _, _, answer = await caller.ask(path, token=token)
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'self'" in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["Server"] == "latecomer"

    told(story)


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nonsense", 404), ("DELETE", "/api/v1/clients", 405)])
def test_what_there_is_not(method: str, path: str, status: int) -> None:
    async def story(node: Node, caller: Caller) -> None:
        found, body, answer = await caller.ask(path, method)
        assert found == status
        assert list(body) == ["problem"]
        assert "path" in body["problem"]
        assert ("Allow" in answer.headers) == (status == 405)

    told(story)


def test_our_mistakes_are_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    async def story(node: Node, caller: Caller) -> None:
        status, body, _ = await caller.ask("/api/v1/client?id=poison")
        assert (status, body) == (500, {"problem": "the broker could not answer this; its log says why"})

    told(story)
    assert "a secret of the inside" in caplog.text


def test_a_port_that_is_taken() -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            admin = Admin(Node(), TOKEN)
            with pytest.raises(SettingsError, match=r"admin\.port: cannot listen on 127"):
                await admin.start("127.0.0.1", taken.getsockname()[1])
            await admin.stop()

    asyncio.run(story())


def test_a_movement_model_is_loaded_shown_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    path, raw = "/api/v1/movement-model", {"Content-Type": "application/octet-stream"}
    monkeypatch.setattr(admin_model, "MODEL_MAX", 100_000)

    async def story(node: Node, caller: Caller) -> None:
        assert (await caller.ask(path, token=None))[0] == 401
        assert (await caller.ask(path, "PUT", token=None, data=b"abc", headers=raw))[0] == 401
        assert (await caller.ask(path, "DELETE", token=None))[0] == 401
        assert (await caller.ask(path))[1]["source"] == ""
        status, body, _ = await caller.ask(path, "DELETE")
        assert (status, body["problem"][:29]) == (409, "no movement model was loaded:")
        assert (await caller.ask(path, "PUT", data=b"abc", headers={"Content-Type": "text/plain"}))[0] == 415
        assert (await caller.ask(path, "PUT", data=b"spoilt", headers=raw))[0] == 409
        status, body, _ = await caller.ask(path, "PUT", data=b"x" * 100_001, headers=raw)
        assert (status, body) == (413, {"problem": "a model may have at most 100000 bytes"})
        assert node.model == b""
        status, body, _ = await caller.ask(path, "PUT", data=b"x" * 90_000, headers=raw)
        assert (status, body["source"], body["places"]) == (200, "loaded", 90_000)
        assert (await caller.ask(path))[1] == body
        assert (await caller.ask(path, "DELETE"))[1]["source"] == ""
        assert node.model == b""

    told(story)


def test_neighbours_are_added_and_taken_away() -> None:
    path = "/api/v1/neighbours"

    async def story(node: Node, caller: Caller) -> None:
        for method in ("GET", "POST", "DELETE"):
            assert (await caller.ask(path, method, token=None))[0] == 401
        assert (await caller.ask("/api/v1/forget", "POST", token=None))[0] == 401
        status, body, _ = await caller.ask(path)
        assert (status, body["proof"], body["port"]) == (200, "secret", 1884)
        assert (await caller.ask(path, "POST", json={"id": "b7", "host": "h", "port": 9, "cost_us": 5}))[0] == 200
        status, body, _ = await caller.ask(path, "POST", json={"id": "b1"})
        assert (status, body["problem"]) == (409, "id: 'b1' is this broker itself; name another one")
        for wrong in (
            {},
            {"id": "b7", "port": 0},
            {"id": "b7", "cost_us": 0},
            {"id": "", "host": "h"},
            {"id": "b", "x": 1},
        ):
            assert (await caller.ask(path, "POST", json=wrong))[0] == 400, wrong
        assert (await caller.ask(f"{path}?id=b7", "DELETE"))[0] == 200
        assert (await caller.ask("/api/v1/forget", "POST", json={"broker": "b7"}))[0] == 200
        assert (await caller.ask("/api/v1/forget", "POST", json={"broker": "b2"}))[:2] == (
            409,
            {"problem": "b2 is there"},
        )
        assert node.done == ["add b7 h 9 5", "remove b7", "forget b7"]

    told(story)
