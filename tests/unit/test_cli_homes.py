"""`latecomer homes`: what an operator reads, and a sentence for everything that goes wrong; without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from latecomer.cli.homes_live import print_homes
from latecomer.cli.main import VERBS, run
from latecomer.core.homes.settings import Mode
from latecomer.pipeline.homes_job import HomeMove, HomesAdvice, HomesState
from latecomer.runtime.admin_views import Page, SubscriptionView
from latecomer.runtime.homes_views import HomesView, PeerView, ProposalView
from tests.unit.admin_hand import answering, token_file

Capture = pytest.CaptureFixture[str]

SUBSCRIPTIONS = "client,broker,topic\nc,b1,t\nd,b2,t\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "subscriptions.csv").write_text(SUBSCRIPTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("latecomer.cli.homes.opened", lambda *_: nullcontext())
    monkeypatch.setattr("latecomer.pipeline.homes_job.held_of", lambda *_: None)
    return tmp_path


def advise(*arguments: str) -> int:
    return run(VERBS, ["homes", "advise", "--subscriptions", "subscriptions.csv", *arguments])


def test_what_an_operator_reads(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    moves = tuple(HomeMove(f"c{number}", "b1", "b2", 0.25, 1.0, 0.75) for number in range(25))
    told = HomesAdvice(400, 5, 60, moves, HomesState(80, 1.5, 30), HomesState(71, 1.25, 12), 2, 11, 90)
    monkeypatch.setattr("latecomer.pipeline.homes_job.advise", lambda *_: told)
    assert advise("--out", "moves.csv") == 0
    said = capsys.readouterr().out
    assert "400 clients at 5 brokers; 60 would be better elsewhere, 25 should move now" in said
    assert "The moves begin 2 subscriptions of brokers and end 11." in said
    rows = {" ".join(words[:-2]): words[-2:] for line in said.splitlines() if len(words := line.split()) > 2}
    assert rows["subscriptions of brokers"] == ["80", "71"]
    assert rows["broker subscription changes"] == ["30", "12"]
    assert "… 5 more clients" in said
    written = (here / "moves.csv").read_text().splitlines()
    assert written[:2] == ["client,home,broker,similarity_before,similarity_after,gain", "c0,b1,b2,0.25,1.0,0.75"]
    assert len(written) == 26


@pytest.mark.parametrize(
    ("file", "text", "arguments", "told"),
    [
        ("subscriptions.csv", "broker,topic\nb1,t\n", (), "says nothing of clients; the first line must be"),
        ("subscriptions.csv", "client,broker,topic\nc,b1,t\nc,b2,u\n", (), "the client 'c' is at 'b1' and at 'b2'"),
        ("subscriptions.csv", "", (), "nobody subscribes to anything; name at least one subscription"),
        ("subscriptions.csv", "client,broker,topic\n,b1,t\n", (), "subscriptions.csv:2: the client is empty"),
        ("subscriptions.csv", "client,broker,topic\n", (), "nobody subscribes to anything"),
        ("subscriptions.csv", "client,broker,topic\nc,b1,t\n", (), "only b1 has clients, so nobody can move"),
        ("clusters.csv", "broker,cluster\nb1,x\n", ("--clusters", "clusters.csv"), "has subscriptions but no cluster"),
        ("clusters.csv", "broker,cluster\nb1,x\nb1,y\n", ("--clusters", "clusters.csv"),
         "clusters.csv:3: clusters: the broker 'b1' is in two clusters"),
        ("clusters.csv", "a,b\n", ("--clusters", "clusters.csv"), ":1: the first line must be broker,cluster"),
        ("changes.csv", "client,topic,change\nx,t,+\n", ("--changes", "changes.csv"), "the client 'x' has no home"),
        ("changes.csv", "client,topic,change\nc,t,on\n", ("--changes", "changes.csv"), "is not a change; write + for"),
        ("changes.csv", "", ("--changes", "nowhere.csv"), "--changes: 'nowhere.csv' cannot be read"),
        ("changes.csv", "", ("--load-weight", "-2"), "--load-weight: -2.0; it must not be negative"),
        ("changes.csv", "", ("--most", "7"), "--most: 7.0 is not a share"),
        ("changes.csv", "", ("--from-log", "log"), "--from-log: the log has both; leave out --subscriptions"),
    ],
)  # fmt: skip
def test_what_cannot_be_advised_is_told_in_a_sentence(
    file: str, text: str, arguments: tuple[str, ...], told: str, here: Path, capsys: Capture
) -> None:
    (here / file).write_text(text)
    assert advise(*arguments) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_nothing_named(here: Path, capsys: Capture) -> None:
    assert run(VERBS, ["homes", "advise"]) == 2
    assert "--subscriptions: say who subscribes to what" in capsys.readouterr().err


# -- a running network -------------------------------------------------------------------------------------------------


def view(broker: str, mode: Mode = "advise", *proposals: ProposalView, peers: bool = True) -> HomesView:
    known = (PeerView("b9", 3, 9, 1.5, 7),) if peers else ()
    return HomesView(broker, mode, 1200, 3000, 0.75, 0.25, known, proposals, len(proposals), 2, 1)


def shown(capsys: Capture, *views: HomesView) -> str:
    print_homes(views)
    return capsys.readouterr().out


def test_a_running_network_is_shown(capsys: Capture) -> None:
    waits = ProposalView("phone", "b2", 0.25, 0.75, 0.4, "its will waits only 3 s for it")
    said = shown(capsys, view("b1", "move", waits, ProposalView("\x1bodd", "b2", 0.0, 1.0, 0.9)), view("b2", "move"))
    rows = [line.split() for line in said.splitlines()]
    assert ["b1", "move", "1,200", "3,000", "0.75", "0.25", "2", "2", "1"] in rows
    assert "its will waits only 3 s" in said
    assert "it will be sent" in said
    assert "\x1b" not in said
    assert said.index("odd") < said.index("phone"), "those that gain most come first"


def test_what_is_proposed_can_be_copied(capsys: Capture) -> None:
    said = shown(capsys, view("b1", "advise", ProposalView("phone", "b2", 0.25, 0.75, 0.4)))
    assert "latecomer sessions move phone b2" in said


def test_where_it_is_off_subscriptions_are_judged_here(tmp_path: Path, capsys: Capture) -> None:
    """By the rule of the brokers: without a client's own, and with load."""
    held = {
        "b1": (("phone", "news/#", ""), ("phone", "a", "x > 1"), ("other", "b", ""), ("more", "b", "")),
        "b2": (("there", "news/#", ""), ("there", "a", "x > 1"), ("shared", "b", "")),
    }

    def answer(broker: str) -> Callable[[str, Any], tuple[int, Any]]:
        def answers(path: str, _: Any) -> tuple[int, Any]:
            if path.endswith("homes"):
                return 200, HomesView(broker, "off", 3, 0, 0.0, None, (), (), 0, 0, 0)
            share = "g" if broker == "b2" else ""
            items = [
                SubscriptionView(client, text, 1, content, share if client == "shared" else "")
                for client, text, content in held[broker]
            ]
            return 200, Page(tuple(items))

        return answers

    with answering(answer("b1")) as one, answering(answer("b2")) as two:
        token = ["--token-file", str(token_file(tmp_path))]
        assert run(VERBS, ["homes", "--admin", two, "--admin", one, *token, "--json"]) == 0
        first, second = json.loads(capsys.readouterr().out)
        assert run(VERBS, ["homes", "--admin", two, "--admin", one, *token]) == 0
    assert [(p["client"], p["to"], p["similarity"], p["there"]) for p in first["proposals"]] == [("phone", "b2", 0, 1)]
    assert [p["client"] for p in second["proposals"]] == ["there"]
    assert (round(first["load"], 2), round(second["load"], 2)) == (1.33, 0.67)
    assert (round(first["similarity"], 2), second["similarity"]) == (0.67, 0)
    assert "Re-homing is off at b1, b2" in capsys.readouterr().out


def test_brokers_that_take_no_part_are_named(capsys: Capture) -> None:
    said = shown(capsys, *(view(f"b{number}", "off") for number in range(7)), view("c", peers=False))
    assert "off at b0, b1, b2, b3, b4 and 2 more" in said
    assert "Nobody has told c yet" in said
    assert "should be" in shown(capsys, view("b1"))


def test_nobody_answers(capsys: Capture, tmp_path: Path) -> None:
    arguments = ["--admin", "http://127.0.0.1:9", "--token-file", str(token_file(tmp_path))]
    assert run(VERBS, ["homes", *arguments]) == 2
    assert "no broker answers" in capsys.readouterr().err
    assert run(VERBS, ["homes", *arguments, "advise"]) == 2
