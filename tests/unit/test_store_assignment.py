"""Which topics a store keeps: what the settings say, what somebody has assigned since, and who has the last word."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from latecomer.cli.main import VERBS, run
from latecomer.core.directory import TOPICS_MAX
from latecomer.core.inputs import Wanted
from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.event import Event
from latecomer.model.ids import EventId
from latecomer.runtime.assignment import FILE, Assigner, read_assignment, told
from latecomer.runtime.errands import AT_ONCE_MAX, Errands, Unreachable, Wish
from latecomer.runtime.node import Node
from latecomer.runtime.settings import Settings, loads
from latecomer.runtime.store_views import StoresView


def settings(folder: Path, *topics: str, more: str = "") -> Settings:
    text = f"""
[broker]
id = "b1"
data = "{folder}"
durability = "process"
[admin]
port = 0
[event_log]
enabled = false
[store]
topics = {msgspec.json.encode(list(topics)).decode()}
{more}
[[listeners]]
port = 0
"""
    return loads(text, "test", folder)


def live(made: Settings, story: Callable[[Node], Awaitable[None]]) -> None:
    """A broker, from its start to its end."""

    async def run() -> None:
        node = Node(made)
        await node.start()
        try:
            await story(node)
        finally:
            await node.stop()

    asyncio.run(run())


def classes(node: Node) -> dict[str, bool]:
    """What the core keeps, and whether it answers for it."""
    return {name: name in node.core.advertisements.own for name in node.core.history.store.rows}


def event(number: int, topic: str = "t/x") -> Event:
    return Event(EventId("b9", 1, number), topic, published_us=1_000_000 + number)


# -- a running broker --------------------------------------------------------------------------------------------------


def test_a_broker_without_a_store_gets_one_and_has_it_after_a_restart(tmp_path: Path) -> None:
    made = settings(tmp_path)

    async def assigned(node: Node) -> None:
        assert node.keeper is None
        assert node.views.metrics().count(b"latecomer_store_events") == 0
        view = await node.views.assign(("t/#",), "p7")
        assert view.store is not None
        assert (view.store.plan, [each.topics for each in view.store.classes]) == ("p7", ["t/#"])
        assert classes(node) == {"t/#": True}, "there is nobody to be filled from"
        assert b"latecomer_store_events 0" in node.views.metrics()
        assert node.keeper is not None
        done = asyncio.Event()
        node.keeper.append([event(1), event(2)], None, lambda full: done.set())
        await done.wait()
        counted = (await node.views.stores(["t/#", "u"])).sizes
        assert (counted["t/#"][0], counted["u"]) == (2, (0, 0))

    async def again(node: Node) -> None:
        assert (node.assigner.topics, node.assigner.plan) == (("t/#",), "p7")
        assert classes(node) == {"t/#": True}
        view = await node.views.stores()
        assert view.store is not None
        assert view.store.events == 2

    live(made, assigned)
    live(made, again)


def test_what_answers_goes_on_and_what_is_withdrawn_stays_on_the_disk(tmp_path: Path) -> None:
    made = settings(tmp_path, "t/#", "u/#")

    async def changed(node: Node) -> None:
        before = node.keeper
        since = node.core.history.store.rows["t/#"].since_us
        await node.views.assign(("t/#", "v/#"), "")
        assert node.keeper is before
        assert classes(node) == {"t/#": True, "v/#": True}
        assert node.core.history.store.rows["t/#"].since_us == since
        await node.views.assign((), "")
        assert classes(node) == {}

    async def after(node: Node) -> None:
        assert node.keeper is not None, "what is still there must be let go of in its time"
        assert classes(node) == {}
        said = node.core.history.directory.said
        assert said is None or said.topics == ()
        await node.views.assign(("u/#",), "")
        assert classes(node) == {"u/#": True}

    live(made, changed)
    live(made, after)


def test_settings_that_have_changed_have_the_last_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def assigned(node: Node) -> None:
        await node.views.assign(("v/#",), "p7")

    async def changed(node: Node) -> None:
        assert classes(node) == {"w/#": True}

    caplog.set_level(logging.INFO, "latecomer")
    live(settings(tmp_path, "t/#"), assigned)
    live(settings(tmp_path, "w/#"), changed)
    assert "store.topics has changed since other topics were assigned" in caplog.text
    assert not (tmp_path / FILE).exists(), "it does not come back with the settings of before"


def test_what_cannot_be_kept_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        for topics, sentence in (
            (("a", "a"), "'a' is named twice"),
            (("#/a",), "'#' must be the last"),
            (("$SYS/#",), "is not published, and cannot be kept"),
            (tuple(map(str, range(TOPICS_MAX + 1))), f"at most {TOPICS_MAX} topic filters"),
        ):
            with pytest.raises(SettingsError, match=sentence):
                await node.views.assign(topics, "")
        assert classes(node) == {"t/#": True}
        assert read_assignment(node.settings) is None

    live(settings(tmp_path, "t/#"), story)


def test_a_store_that_cannot_be_opened_is_not_assigned(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("in the way")

    async def story(node: Node) -> None:
        with pytest.raises(SettingsError, match=r"store\.directory"):
            await node.views.assign(("t/#",), "")
        assert read_assignment(node.settings) is None
        assert classes(node) == {}

    live(settings(tmp_path), story)


def test_an_assignment_that_cannot_be_written_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async def story(node: Node) -> None:
        monkeypatch.setattr("latecomer.runtime.assignment.write_text", fail)
        with pytest.raises(LatecomerError, match=r"cannot be written to .*: No space left on device"):
            await node.views.assign(("t/#",), "")
        assert node.keeper is None
        assert classes(node) == {}

    live(settings(tmp_path), story)


# -- the file ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "does not say what the store keeps"),
        ('{"topics": ["#/a"], "settings": []}', "'#' must be the last character"),
        ('{"topics": [], "settings": [], "version": 9}', "is of a newer version of this program"),
    ],
)
def test_a_file_that_is_none_is_said(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / FILE
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(SettingsError, match=sentence):
        read_assignment(settings(tmp_path))


def test_the_check_of_settings_says_what_was_assigned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = settings(tmp_path / "data", "t/#")
    assert told(made) == ""

    async def assigned(node: Node) -> None:
        await node.views.assign(("v/#",), "p7")

    (tmp_path / "data").mkdir(mode=0o700)
    live(made, assigned)
    config = tmp_path / "broker.toml"
    config.write_text(f'[broker]\nid = "b1"\ndata = "{tmp_path / "data"}"\n[store]\ntopics = ["t/#"]\n')
    assert run(VERBS, ["broker", "--config", str(config), "--check"]) == 0
    said = capsys.readouterr().out
    assert "the store keeps v/#, assigned 20" in said
    assert "by plan p7, in place of store.topics" in said


def test_room_is_what_disk_and_capacity_leave(tmp_path: Path) -> None:
    assert Assigner(settings(tmp_path, more='capacity = "5MB"'), lambda: 0).room() == 5_000_000
    assert Assigner(settings(tmp_path, more='reserve = "900PB"'), lambda: 0).room() == 0


# -- errands -----------------------------------------------------------------------------------------------------------


class Wire:
    """A driver whose core hands every wish to another broker at once."""

    def __init__(self) -> None:
        self.there: Errands | None = None
        self.here: Errands | None = None

    def tell(self, fact: Any) -> None:
        from latecomer.core.effects import CarryOut, Report

        if isinstance(fact, Wanted):
            assert self.there is not None
            self.there.carry_out(CarryOut("b1", fact.token, fact.body))
        else:
            assert self.here is not None
            self.here.report(Report(fact.number, fact.body, fact.problem))


async def say(wish: Wish) -> StoresView:
    if wish.topics == ("no",):
        raise SettingsError("topics", "no")
    return StoresView("b2", None, (), (), 5, dict.fromkeys(wish.sizes, (1, 2)))


def pair(*, open: bool = True) -> tuple[Wire, Errands]:
    wire = Wire()
    wire.there = Errands(wire, say, open=open)  # type: ignore[arg-type]
    wire.here = Errands(wire, say, open=True)  # type: ignore[arg-type]
    return wire, wire.here


def test_a_wish_is_carried_out_elsewhere() -> None:
    async def story() -> None:
        _, here = pair()
        assert (await here.ask("b2", Wish(sizes=("t/#",)))).sizes == {"t/#": (1, 2)}
        assert (await here.ask("b2", Wish(("t/#",), "p7"))).broker == "b2"
        with pytest.raises(LatecomerError, match="b2 says: topics: no"):
            await here.ask("b2", Wish(("no",)))

    asyncio.run(story())


def test_a_broker_may_refuse_what_operators_elsewhere_decide() -> None:
    async def story() -> None:
        _, here = pair(open=False)
        with pytest.raises(LatecomerError, match=r"store\.remote of this broker is false"):
            await here.ask("b2", Wish(()))
        assert (await here.ask("b2", Wish())).broker == "b2", "it may be asked"

    asyncio.run(story())


def test_who_does_not_answer_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        wire, here = pair()
        wire.there = Errands(wire, say, open=True)  # type: ignore[arg-type]
        wire.there.carry_out = lambda effect: None  # type: ignore[method-assign]
        monkeypatch.setattr("latecomer.runtime.errands.ANSWER_SECONDS", 0.01)
        with pytest.raises(Unreachable, match="b2 did not answer within"):
            await here.ask("b2", Wish())
        monkeypatch.setattr("latecomer.runtime.errands.ANSWER_SECONDS", 60)
        asking = asyncio.get_running_loop().create_task(here.ask("b2", Wish()))
        await asyncio.sleep(0)
        here.stop()
        with pytest.raises(Unreachable, match="the broker is stopping"):
            await asking

    asyncio.run(story())


def test_there_is_an_end_to_what_operators_elsewhere_want() -> None:
    async def story() -> None:
        gate = asyncio.Event()

        async def wait(wish: Wish) -> StoresView:
            await gate.wait()
            return await say(wish)

        wire, here = pair()
        wire.there = Errands(wire, wait, open=True)  # type: ignore[arg-type]
        asked = [asyncio.ensure_future(here.ask("b2", Wish())) for _ in range(AT_ONCE_MAX + 3)]
        while not any(future.done() for future in asked):
            await asyncio.sleep(0)
        gate.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, LatecomerError)]
        assert len(refused) == 3
        assert "too many operators want something" in str(refused[0])

    asyncio.run(story())
