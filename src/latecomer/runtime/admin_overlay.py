"""Positions on the ring over the admin API: `/api/v1/overlay`, behind the gates of `admin`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Protocol

import msgspec
from aiohttp import web

from latecomer.model.ids import BrokerId, Name, Number
from latecomer.runtime.admin_http import body_of
from latecomer.runtime.overlay_views import OverlayView

PATH = "/api/v1/overlay"
PLACES_MAX = 10_000


class Arranged(Protocol):
    """What is asked of a node."""

    def overlay(self) -> OverlayView: ...

    def propose(self, places: Mapping[BrokerId, int]) -> None:
        """Propose that brokers stand there from now on; those that are not named, at the hash of their name."""
        ...

    def abandon(self) -> bool:
        """Withdraw what this broker has proposed; False if there is nothing."""
        ...


class Propose(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    places: Annotated[dict[Name, Number], msgspec.Meta(max_length=PLACES_MAX)]


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a command that needs no words."""


def overlay_routes(node: Arranged) -> list[web.RouteDef]:
    async def show(request: web.Request) -> web.Response:
        return _json(node.overlay())

    async def propose(request: web.Request) -> web.Response:
        node.propose((await body_of(request, Propose)).places)
        return _json({"done": "the positions are proposed"}, status=202)

    async def abort(request: web.Request) -> web.Response:
        await body_of(request, Nothing)
        if not node.abandon():
            raise web.HTTPConflict(text="this broker has proposed nothing, so there is nothing to abort")
        return _json({"done": "the proposal is withdrawn"})

    return [web.get(PATH, show), web.post(PATH, propose), web.post(f"{PATH}-abort", abort)]


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
