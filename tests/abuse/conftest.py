"""One broker for each module, with the settings that the module asks for, and a probe that no bad input may disturb."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.abuse.house import House, Probe, running


@pytest.fixture(scope="module")
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The module's broker: its `SETTINGS` are settings by section, or its `prepare` writes files and returns them."""
    folder = tmp_path_factory.mktemp("house")
    prepare = getattr(request.module, "prepare", None)
    settings: dict[str, Any] = prepare(folder) if prepare else getattr(request.module, "SETTINGS", {})
    with running(folder, **settings) as found:
        yield found


@pytest.fixture(scope="module")
def probe(house: House, request: pytest.FixtureRequest) -> Iterator[Probe]:
    found = Probe(house, **getattr(request.module, "PROBE", {}))
    yield found
    found.client.close()


@pytest.fixture(autouse=True)
def undisturbed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Other clients are served as before, on the connection they have; who was bad leaves."""
    if "house" not in request.fixturenames:
        yield
        return
    house, probe = request.getfixturevalue("house"), request.getfixturevalue("probe")
    probe.round_trip()
    yield
    probe.round_trip()
    for client in house.clients:
        client.close()
    house.clients.clear()
