"""`latecomer history`, and the past in `latecomer sub`: what is asked, what is written down, and the exit code."""

from __future__ import annotations

import csv
import json
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow.parquet as pq
import pytest

from latecomer.cli import history_output
from latecomer.cli.main import VERBS, run
from latecomer.messages.mqtt import V5, Connack, Connect, Packet, Properties, Publish, Reason, Suback, Subscribe
from latecomer.model.history import NOT_SO_FAR
from latecomer.wire.mqtt import Reader, encode

Capture = pytest.CaptureFixture[str]

PATIENCE_S = 60.0
FIRST = "2026-11-16T06:00:00.000001Z"


def past(number: int, payload: bytes, topic: str = "t/x", **more: object) -> Publish:
    """A message as it is replayed."""
    added = (("own", "1"), ("published", f"2026-11-16T06:00:00.{number:06}Z"), ("event", f"b1.1#{number}"))
    return Publish(topic, payload, 1, packet_id=number, properties=Properties(user=added, **more))  # type: ignore[arg-type]


def end(**said: object) -> Publish:
    told = {"filter": "t/#", "events": 2, "from": FIRST, "complete": True, "stores": ["b2"], "hops": 2, "problem": ""}
    return Publish("$history/end", json.dumps(told | said).encode(), 1, packet_id=60_000)


class HistoryServer:
    """Serves its clients one after the other, in a thread; each has an answer of its own."""

    def __init__(self, *answers: Sequence[Packet], granted: Reason | int = 1, why: str | None = None) -> None:
        self.answers = answers
        self.granted = granted
        self.why = why
        self.asked: list[Subscribe] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(PATIENCE_S)
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        for answer in self.answers:
            client, _ = self.socket.accept()
            with client, suppress(ConnectionError):  # a client that has heard enough does not hear us out
                client.settimeout(PATIENCE_S)
                self._talk(client, answer)

    def _talk(self, client: socket.socket, answer: Sequence[Packet]) -> None:
        reader = Reader()
        while data := client.recv(65_536):
            for packet in reader.feed(data):
                if isinstance(packet, Connect):
                    client.sendall(encode(Connack(False, Reason.SUCCESS), V5))
                elif isinstance(packet, Subscribe):
                    self.asked.append(packet)
                    words = Properties(reason_string=self.why) if self.why else Properties()
                    suback = Suback(packet.packet_id, tuple(Reason(self.granted) for _ in packet.requests), words)
                    client.sendall(b"".join(encode(each, V5) for each in (suback, *answer)))
                    if not any(isinstance(each, Publish) and each.topic == "$history/end" for each in answer):
                        return  # it breaks down in the middle

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.thread.join(PATIENCE_S)
        self.socket.close()


TWO = (past(1, b"one"), past(2, b"two", content_type="text/plain"))


def ask(server: HistoryServer, *words: str, verb: str = "history") -> int:
    with server:
        return run(VERBS, [verb, "t/#", *words, "--host", "127.0.0.1", "--port", str(server.port)])


def test_the_past_is_printed_up_to_its_end_and_nothing_of_the_present(capfd: Capture) -> None:
    live = Publish("t/x", b"live", 1, packet_id=9)
    server = HistoryServer((*TWO, end(), live))
    assert ask(server, "--since", "-1h", "--until", "now", "--last", "5", "--where", "value > 30") == 0
    said = capfd.readouterr()
    assert said.out == ("2026-11-16T06:00:00.000001Z t/x one\n2026-11-16T06:00:00.000002Z t/x two\n")
    assert said.err == ""
    (asked,) = server.asked
    assert [(each.filter, each.qos, each.retain_handling) for each in asked.requests] == [("t/#", 1, 2)]
    assert asked.properties.user == (("since", "-1h"), ("until", "now"), ("last", "5"), ("filter", "value > 30"))


def test_whoever_says_nothing_gets_everything(capfd: Capture) -> None:
    server = HistoryServer((end(events=0),))
    assert ask(server) == 0
    assert server.asked[0].properties.user == (("since", "0"),)
    assert capfd.readouterr().out == ""


def test_json_has_everything(capfd: Capture) -> None:
    assert ask(HistoryServer((*TWO, past(3, b"\xff"), end())), "--format", "json") == 0
    one, two, three = map(json.loads, capfd.readouterr().out.splitlines())
    assert one == {
        "topic": "t/x",
        "published": "2026-11-16T06:00:00.000001Z",
        "event": "b1.1#1",
        "payload": "one",
        "qos": 1,
        "user_properties": [["own", "1"]],
    }
    assert two["content_type"] == "text/plain"
    assert (three["payload_base64"], "payload" in three) == ("/w==", False)


def test_csv_survives_commas_and_line_ends(tmp_path: Path, capfd: Capture) -> None:
    file = tmp_path / "h.csv"
    server = HistoryServer((past(1, b'a,"b"\nc'), past(2, b"\xff"), end()))
    assert ask(server, "--format", "csv", "--output", str(file)) == 0
    with file.open(newline="", encoding="utf-8") as opened:
        first, second = csv.DictReader(opened)
    assert (first["topic"], first["event"], first["payload"]) == ("t/x", "b1.1#1", 'a,"b"\nc')
    assert json.loads(first["user_properties"]) == [["own", "1"]]
    assert (second["payload"], second["payload_base64"]) == ("", "/w==")
    assert capfd.readouterr().out == ""


def test_parquet_comes_in_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_output, "GROUP_ROWS", 2)
    file = tmp_path / "h.parquet"
    server = HistoryServer((*(past(number, b"%d" % number) for number in range(1, 6)), end()))
    assert ask(server, "--format", "parquet", "--output", str(file)) == 0
    assert pq.ParquetFile(file).num_row_groups == 3
    rows = pq.read_table(file).to_pylist()
    assert [row["payload"] for row in rows] == [b"1", b"2", b"3", b"4", b"5"]
    assert rows[0]["published"].isoformat() == "2026-11-16T06:00:00.000001+00:00"
    assert rows[0]["user_properties"] == [{"name": "own", "value": "1"}]


def test_nothing_is_a_parquet_file_too(tmp_path: Path) -> None:
    file = tmp_path / "h.parquet"
    assert ask(HistoryServer((end(events=0),)), "--format", "parquet", "--output", str(file)) == 0
    assert pq.read_table(file).num_rows == 0


@pytest.mark.parametrize(
    ("options", "said", "sentence"),
    [
        ([], {"problem": NOT_SO_FAR}, f"this store has events only since {FIRST[:19]}Z; you asked for everything"),
        (
            ["--since", "2026-11-16T05:00:00Z"],
            {"problem": NOT_SO_FAR},
            f"this store has events only since {FIRST[:19]}Z; you asked from 2026-11-16T05:00:00Z",
        ),
        (
            ["--last", "9"],
            {"problem": NOT_SO_FAR, "stores": ["b1", "b2"]},
            f"these stores have events only since {FIRST[:19]}Z; you asked for the last 9",
        ),
        ([], {"problem": "no store keeps these topics", "stores": []}, "no store keeps these topics"),
        ([], {"problem": "the store is gone"}, f"the store is gone; complete from {FIRST} on"),
    ],
)
def test_an_incomplete_history_is_told_by_the_exit_code(
    options: list[str], said: dict[str, object], sentence: str, capfd: Capture
) -> None:
    assert ask(HistoryServer((*TWO, end(complete=False, **said))), *options) == 3
    found = capfd.readouterr()
    assert len(found.out.splitlines()) == 2
    assert found.err == f"latecomer: the history is incomplete: {sentence}\n"


def test_a_broken_connection_says_where_to_go_on(tmp_path: Path, capfd: Capture) -> None:
    file = tmp_path / "h.csv"
    assert ask(HistoryServer(TWO), "--format", "csv", "--out", str(file)) == 2
    assert "after 2 events; go on with --since 2026-11-16T06:00:00.000002Z" in capfd.readouterr().err
    assert len(file.read_text("utf-8").splitlines()) == 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((Publish("t/x", b"live", 1, packet_id=1), end()), "it does not know of stores"),
        ((Publish("$history/end", b"[", 1, packet_id=1),), "ends the history with b'['"),
    ],
)
def test_a_broker_that_means_something_else(answer: Sequence[Packet], words: str, capfd: Capture) -> None:
    assert ask(HistoryServer(answer)) == 2
    assert words in capfd.readouterr().err


def test_a_refusal_is_told_with_the_words_of_the_broker(tmp_path: Path, capfd: Capture) -> None:
    server = HistoryServer((end(),), granted=Reason.NOT_AUTHORIZED, why="no history for you")
    assert ask(server) == 2
    assert "refused 't/#': not authorized (no history for you)" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["t/#", "--since", "-1x"], "--since: '-1x' is not a time"),
        (["t/#", "--since", "now", "--until", "-1h"], "--since: since must not lie after until"),
        (["t/#", "--last", "0"], "--last: last must be a number from 1 to"),
        (["t/#", "--where", "value >"], "filter: "),
        (["a/#/b"], "filter: '#' must be the last"),
        (["$share/g/t"], "FILTER: a shared subscription has no history"),
        (["t/#", "--format", "xml"], "--format"),
    ],
)
def test_options_that_cannot_be_meant(words: list[str], sentence: str, capfd: Capture) -> None:
    assert run(VERBS, ["history", *words]) == 2
    assert sentence in capfd.readouterr().err


# -- latecomer sub


def test_a_subscription_begins_with_the_past_and_goes_on(capfd: Capture) -> None:
    live = Publish("t/x", b"live", 1, packet_id=9)
    server = HistoryServer((*TWO, end(), live))
    assert ask(server, "--since", "-1h", "--count", "3", verb="sub") == 0
    said = capfd.readouterr()
    assert said.out == "one\ntwo\nlive\n"
    assert said.err == "latecomer: 2 events from b2, 2 hops away; from here on live\n"
    assert server.asked[0].properties.user == (("since", "-1h"),)


def test_after_a_broken_connection_the_past_is_not_printed_twice(capfd: Capture) -> None:
    server = HistoryServer(TWO, (*TWO, past(3, b"three"), end(events=3)))
    assert ask(server, "--since", "-1h", "--count", "3", verb="sub") == 0
    assert capfd.readouterr().out == "one\ntwo\nthree\n"
    assert [asked.properties.user for asked in server.asked] == [(("since", "-1h"),)] * 2


def test_a_group_has_no_past(capfd: Capture) -> None:
    assert run(VERBS, ["sub", "t", "--since", "-1h", "--share", "g"]) == 2
    assert "--share: has no history" in capfd.readouterr().err
