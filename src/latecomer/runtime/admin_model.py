"""The movement model over the admin API: `/api/v1/movement-model`, behind the gates of `admin`."""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec
from aiohttp import web

from latecomer.runtime.predicting import MODEL_MAX, ModelView

PATH = "/api/v1/movement-model"
BODY_S = 60
"""How long a model may take to arrive."""
PART = 65_536


class Modelled(Protocol):
    """What is asked of a node."""

    def movement_model(self) -> ModelView: ...

    async def load_model(self, data: bytes) -> ModelView:
        """Use this model from now on, after a restart as well."""
        ...

    def remove_model(self) -> bool:
        """Forget the model that was loaded; False if there is none."""
        ...


def model_routes(node: Modelled) -> list[web.RouteDef]:
    """A browser asks before it sends PUT, DELETE or this type of content to another site, and is told no: no CSRF."""
    loading = asyncio.Lock()

    async def show(request: web.Request) -> web.Response:
        return _json(node.movement_model())

    async def load(request: web.Request) -> web.Response:
        if request.content_type != "application/octet-stream":
            raise web.HTTPUnsupportedMediaType(
                text="send the file as it is, with 'Content-Type: application/octet-stream'"
            )
        if loading.locked():
            raise web.HTTPConflict(text="another model is being loaded: try again when that is done")
        async with loading:
            return _json(await node.load_model(await _model(request)))

    async def remove(request: web.Request) -> web.Response:
        if not node.remove_model():
            raise web.HTTPConflict(text="no movement model was loaded: one in the settings is removed there")
        return _json(node.movement_model())

    return [web.get(PATH, show), web.put(PATH, load), web.delete(PATH, remove)]


async def _model(request: web.Request) -> bytes:
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.content.iter_chunked(PART):
                data += part
                if len(data) > MODEL_MAX:
                    raise web.HTTPRequestEntityTooLarge(MODEL_MAX, text=f"a model may have at most {MODEL_MAX} bytes")
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"the model did not arrive within {BODY_S} s") from None
    return bytes(data)


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
