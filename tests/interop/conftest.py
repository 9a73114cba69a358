"""One network for all of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from latecomer.model.topology_generators import line
from latecomer.runtime.network_file import Seat
from tests.network.net import network_of, running


@pytest.fixture(scope="session")
def seats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Seat, ...]]:
    """Three brokers in a row."""
    with running(network_of(line(3)), tmp_path_factory.mktemp("interop")) as supervisor:
        yield supervisor.network.brokers


@pytest.fixture
def topic() -> str:
    """Nobody else's."""
    return f"t/{uuid4().hex[:12]}"
