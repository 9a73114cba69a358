"""Neighbours over the admin API: `/api/v1/neighbours` and `/api/v1/forget`, behind the gates of `admin`."""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec
from aiohttp import web

from latecomer.model.ids import BrokerId
from latecomer.runtime.admin_http import body_of
from latecomer.runtime.neighbourhood import NeighboursView
from latecomer.runtime.settings import Neighbour

PATH = "/api/v1/neighbours"


class Linked(Protocol):
    """What is asked of a node."""

    def neighbours(self) -> NeighboursView: ...

    async def add_neighbour(self, neighbour: Neighbour) -> None:
        """Have a link with a broker from now on, after a restart as well."""
        ...

    def remove_neighbour(self, peer: BrokerId) -> None:
        """Have no link with a broker any more, after a restart as well."""
        ...

    def forget(self, broker: BrokerId) -> None:
        """Have all brokers forget one that is away and will not come back."""
        ...


class Forget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    broker: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


def link_routes(node: Linked) -> list[web.RouteDef]:
    """A browser asks before it sends DELETE to another site, and is told no: no CSRF."""

    async def show(request: web.Request) -> web.Response:
        return _json(node.neighbours())

    async def add(request: web.Request) -> web.Response:
        await node.add_neighbour(await body_of(request, Neighbour))
        return _json(node.neighbours())

    async def remove(request: web.Request) -> web.Response:
        node.remove_neighbour(request.query.get("id", ""))
        return _json(node.neighbours())

    async def forget(request: web.Request) -> web.Response:
        command = await body_of(request, Forget)
        node.forget(command.broker)
        return _json({"done": f"{command.broker} is forgotten"})

    return [
        web.get(PATH, show),
        web.post(PATH, add),
        web.delete(PATH, remove),
        web.post("/api/v1/forget", forget),
    ]


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
