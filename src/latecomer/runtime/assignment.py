"""Which topics the store keeps: what the settings say, or what somebody has assigned to the running broker since.

An assignment is a small file in the data directory. It takes the place of `store.topics`, after a restart as well, for
as long as the settings say what they said when it was made: whoever changes the settings has the last word.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from latecomer.core.directory import TOPICS_MAX, WORD_MAX
from latecomer.core.inputs import StoreAssigned
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import Instant
from latecomer.model.when import format_when
from latecomer.runtime.private_files import read_text, write_text
from latecomer.runtime.settings import Settings
from latecomer.runtime.settings_check import check_store_topics

if TYPE_CHECKING:
    from latecomer.runtime.driver import Driver
    from latecomer.runtime.store import Keeper

FILE = "assignment.json"
VERSION = 1
BYTES_MAX = 4 * 1024 * 1024

log = logging.getLogger("latecomer")


class Assignment(msgspec.Struct, frozen=True):
    """As it stands in the file."""

    topics: tuple[str, ...]
    settings: tuple[str, ...]
    """`store.topics` when it was made."""
    plan: str = ""
    """Which plan it belongs to, if any."""
    at_us: int = 0
    version: int = VERSION


def read_assignment(settings: Settings) -> Assignment | None:
    """What was assigned last, in force or not."""
    file = settings.broker.data / FILE
    if not file.exists():
        return None
    text = read_text(file, "broker.data", bytes_max=BYTES_MAX)
    try:
        found = msgspec.json.decode(text, type=Assignment)
        if found.version > VERSION:
            raise SettingsError("broker.data", f"{str(file)!r} is of a newer version of this program: use that one")
        check_store_topics(found.topics, "broker.data")
    except (msgspec.DecodeError, SettingsError) as error:
        why = error.problem if isinstance(error, SettingsError) else str(error)
        told = f"{str(file)!r} does not say what the store keeps: {why}; without this file store.topics counts"
        raise SettingsError("broker.data", told) from None
    return found


def in_force(settings: Settings, found: Assignment | None) -> bool:
    return found is not None and found.settings == settings.store.topics


def told(settings: Settings) -> str:
    """A sentence about what was assigned at run time; empty if nothing was."""
    found = read_assignment(settings)
    if found is None:
        return ""
    when = f"assigned {format_when(found.at_us)}" + (f" by plan {found.plan}" if found.plan else "")
    if not in_force(settings, found):
        return f"store.topics has changed since other topics were {when}, and counts from now on"
    return f"the store keeps {', '.join(found.topics) or 'nothing'}, {when}, in place of store.topics"


class Assigner:
    """Opens the store of a broker, at its start or later, and changes what it keeps."""

    def __init__(self, settings: Settings, clock: Callable[[], Instant]) -> None:
        self.settings = settings
        self.clock = clock
        self.keeper: Keeper | None = None
        self.driver: Driver | None = None
        """As long as the broker runs."""
        found = read_assignment(settings)
        if sentence := told(settings):
            log.info("%s", sentence)
        self.plan = ""
        self.topics = settings.store.topics
        if found is not None and in_force(settings, found):
            self.topics, self.plan = found.topics, found.plan
        elif found is not None:
            self._file.unlink(missing_ok=True)
        if self.topics or (found is not None and _anything(settings.store_directory)):
            from latecomer.runtime.store import open_keeper  # a broker without a store does without the engine

            # Also where nothing is kept any more: what was kept is let go of when its time has come.
            self.keeper = open_keeper(settings, self.topics, clock)
        self._turn = asyncio.Lock()

    @property
    def _file(self) -> Path:
        return self.settings.broker.data / FILE

    def room(self) -> int:
        """Bytes that a store here may still take in, as far as can be seen."""
        from latecomer.runtime.store import usual_reserve

        store, place = self.settings.store, self.settings.store_directory
        there = place if place.exists() else self.settings.broker.data
        free = shutil.disk_usage(there).free
        room = free - (usual_reserve(there) if store.reserve_bytes is None else store.reserve_bytes)
        if store.capacity_bytes:
            room = min(room, store.capacity_bytes - (self.keeper.status.bytes if self.keeper is not None else 0))
        return max(0, room)

    async def assign(self, topics: tuple[str, ...], plan: str = "") -> None:
        """Keep these topics from now on, and no others; safe before it is done. Errors are sentences."""
        check_store_topics(topics, "topics")
        if len(topics) > TOPICS_MAX or sum(map(len, topics)) > WORD_MAX:
            told = f"a store keeps at most {TOPICS_MAX} topic filters of {WORD_MAX} characters together"
            raise SettingsError("topics", told)
        async with self._turn:
            await self._assign(topics, plan)

    async def _assign(self, topics: tuple[str, ...], plan: str) -> None:
        loop = asyncio.get_running_loop()
        engine = None
        if topics and self.keeper is None:
            from latecomer.runtime.store import open_engine

            engine = await loop.run_in_executor(None, open_engine, self.settings)
        written = Assignment(topics, self.settings.store.topics, plan, self.clock())
        try:
            await loop.run_in_executor(None, write_text, self._file, msgspec.json.encode(written).decode())
        except OSError as error:
            if engine is not None:
                engine.close()
            raise LatecomerError(f"the assignment cannot be written to {self._file}: {error.strerror}") from None
        driver = self.driver
        if driver is None:
            if engine is not None:
                engine.close()
            raise LatecomerError("the broker is stopping; what was assigned counts when it is back")
        self.topics, self.plan = topics, plan
        log.info("the store is to keep %s%s", ", ".join(topics) or "nothing", f", by plan {plan}" if plan else "")
        if engine is not None:
            from latecomer.runtime.store import Keeper

            self.keeper = Keeper(engine, topics, self.clock)
            driver.employ(self.keeper)
        elif self.keeper is not None:
            self.keeper.topics = topics
            driver.tell(StoreAssigned(topics))


def _anything(directory: Path) -> bool:
    return directory.is_dir() and any(directory.iterdir())
