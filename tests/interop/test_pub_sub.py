"""`latecomer pub` and `latecomer sub`: what they do, and the sentences when it cannot be done."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
import trustme

from latecomer.cli.main import VERBS, run
from latecomer.model.topology_generators import line
from latecomer.runtime.network_file import Seat
from latecomer.runtime.users import hash_password, write_users
from tests.network.net import HOST, QUICK, free_port, network_of, running
from tests.network.peer import FENCE, LIMIT_SECONDS, Peer, told, user_properties

Capture = pytest.CaptureFixture[str]
paho_forgets_its_socket = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""paho does not close a socket whose TLS handshake failed."""
LATECOMER = (sys.executable, "-m", "latecomer")


def pub(seat: Seat, *words: str) -> int:
    return run(VERBS, ["pub", *words, "--port", str(seat.port), "--host", seat.host])


@contextmanager
def subscribed(
    seat: Seat, topic: str, *words: str, stdout: int | IO[bytes] = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    """`latecomer sub` as a process, once it is subscribed."""
    command = [*LATECOMER, "sub", topic, *words, "--port", str(seat.port), "--host", seat.host]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def lines_of(process: subprocess.Popen[bytes], number: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip(b"\n") for _ in range(number)]


def sync(peer: Peer, process: subprocess.Popen[bytes], topic: str, **more: Any) -> None:
    """Publish until it is printed: then the subscription is there. Marks that come late are left to the caller."""
    assert process.stdout is not None
    seen = threading.Event()

    def first() -> None:
        assert process.stdout is not None
        process.stdout.readline()
        seen.set()

    thread = threading.Thread(target=first)
    thread.start()
    until = time.monotonic() + LIMIT_SECONDS
    while not seen.wait(0.1):
        assert process.poll() is None, "it has ended"
        assert time.monotonic() < until, "it prints nothing"
        peer.publish(topic, "probe", 1, **more)
    thread.join()


def news(process: subprocess.Popen[bytes], number: int) -> list[bytes]:
    """The next lines that are not probes."""
    got: list[bytes] = []
    while len(got) < number:
        (line,) = lines_of(process, 1)
        assert line or process.poll() is None, "it has ended"
        if b"probe" not in line:
            got.append(line)
    return got


# -- what they do


@pytest.mark.parametrize("version", [[], ["--v311"]])
def test_what_is_published_far_away_is_printed(seats: tuple[Seat, ...], topic: str, version: list[str]) -> None:
    with (
        Peer(seats[0].port) as peer,
        subscribed(seats[-1], f"{topic}/#", "--qos", "2", "--format", "verbose", *version) as process,
    ):
        sync(peer, process, f"{topic}/p")
        assert pub(seats[0], f"{topic}/a", "hello", "--qos", "2", *version) == 0
        assert pub(seats[0], f"{topic}/b", "ü", "--qos", "1", "--count", "2", *version) == 0
        expected = [f"{topic}/a hello", f"{topic}/b ü", f"{topic}/b ü"]
        assert news(process, 3) == [line.encode() for line in expected]
        process.send_signal(signal.SIGINT)  # the usual end
        assert process.wait(LIMIT_SECONDS) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_json_says_everything(seats: tuple[Seat, ...], topic: str) -> None:
    with Peer(seats[0].port) as peer, subscribed(seats[-1], topic, "--format", "json", "--qos", "1") as process:
        sync(peer, process, topic)
        peer.publish(topic, "{\x1b}", 1, UserProperty=[("a", "1"), ("a", "2")], ContentType="x", CorrelationData=b"\0")
        peer.publish(topic, b"\xff", 1)
        first, second = (json.loads(line) for line in news(process, 2))
    assert first == {
        "topic": topic, "payload": "{\x1b}", "qos": 1, "retain": False, "content_type": "x",
        "correlation_data_base64": "AA==", "user_properties": [["a", "1"], ["a", "2"]],
    }  # fmt: skip
    assert second["payload_base64"] == "/w=="


def test_a_terminal_is_given_no_orders(seats: tuple[Seat, ...], topic: str) -> None:
    main, side = pty.openpty()
    with os.fdopen(main, "rb", buffering=0) as screen, os.fdopen(side, "wb") as paper, Peer(seats[0].port) as peer:
        peer.publish(f"{topic}/\u009b2J", b"\x1b[31mred\x07\r\n", 1, retain=True)
        with subscribed(
            seats[0], f"{topic}/#", "--format", "verbose", "--count", "1", "--wait", "20", stdout=paper
        ) as process:
            assert process.wait(LIMIT_SECONDS + 10) == 0
        assert screen.read(1000) == rf"{topic}/\x9b2J \x1b[31mred\x07\r\n".encode() + b"\r\n"
        peer.publish(f"{topic}/\u009b2J", b"", 1, retain=True)


def test_a_content_filter(seats: tuple[Seat, ...], topic: str) -> None:
    with Peer(seats[0].port) as peer, subscribed(seats[0], topic, "--qos", "1", "--where", "price < 10") as process:
        sync(peer, process, topic, UserProperty=[("price", "1")])
        assert pub(seats[0], topic, "dear", "--property", "price=10", "--qos", "1") == 0
        assert pub(seats[0], topic, "cheap", "--property", "price=9.5", "--qos", "1") == 0
        assert news(process, 1) == [b"cheap"]


def test_properties_files_and_lines(
    seats: tuple[Seat, ...], topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer(seats[0].port) as peer:
        peer.subscribe(topic, 2)
        peer.ready(peer)
        assert pub(seats[0], topic, "x", "--property", "a=1", "--property", "a==2", "--expiry", "500") == 0
        (message,) = peer.take()
        assert user_properties(message) == [("a", "1"), ("a", "=2")]
        assert 0 < told(message).MessageExpiryInterval <= 500
        (tmp_path / "payload").write_bytes(bytes(range(256)))
        assert pub(seats[0], topic, "--file", str(tmp_path / "payload"), "--qos", "1") == 0
        assert peer.payloads() == [bytes(range(256))]
        wanted = [f"line {number}" for number in range(500)]
        (tmp_path / "lines").write_text("\n".join(wanted), encoding="utf-8")
        with (tmp_path / "lines").open() as source:
            monkeypatch.setattr("sys.stdin", source)
            assert pub(seats[0], topic, "--stdin", "--qos", "2") == 0
        assert [payload.decode() for payload in peer.payloads(500)] == wanted


def test_a_retained_message_is_set_and_deleted(seats: tuple[Seat, ...], topic: str) -> None:
    with Peer(seats[0].port) as peer:
        peer.subscribe(topic, 1, retainAsPublished=True)
        peer.ready(peer)
        assert pub(seats[0], topic, "kept", "--retain", "--qos", "1") == 0
        assert pub(seats[0], topic, "", "--retain", "--qos", "1") == 0
        assert [(bytes(m.payload), m.retain) for m in peer.take(2)] == [(b"kept", True), (b"", True)]


def test_messages_wait_for_a_session(seats: tuple[Seat, ...], topic: str, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["sub", topic, FENCE + "#", "--port", str(seats[0].port), "--client-id", topic[2:], "--session", "300"]
    assert run(VERBS, [*words, "--qos", "1", "--wait", "0"]) == 0
    assert pub(seats[0], topic, "waiting", "--qos", "1") == 0
    assert run(VERBS, [*words, "--qos", "1", "--count", "1", "--wait", "20"]) == 0
    assert capfd.readouterr().out == "waiting\n"
    with Peer(seats[0].port, topic[2:]):
        pass


def test_too_few_messages_is_a_no(seats: tuple[Seat, ...], topic: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(VERBS, ["sub", topic, "--port", str(seats[0].port), "--count", "10", "--wait", "0.1"]) == 1
    assert capfd.readouterr().err == "latecomer: 0 of 10 messages in 0.1 s\n"


def test_it_comes_back_when_the_broker_does(tmp_path: Path, topic: str) -> None:
    with running(network_of(line(1)), tmp_path) as supervisor:
        (seat,) = supervisor.network.brokers
        with subscribed(seat, topic, "--qos", "1") as process:
            with Peer(seat.port) as peer:
                sync(peer, process, topic)
            supervisor.kill("b1")
            supervisor.revive("b1")
            with Peer(seat.port) as peer:
                sync(peer, process, topic)
                peer.publish(topic, "again", 1)
                assert news(process, 1) == [b"again"]
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            assert b"trying again" in process.stderr.read()


# -- what cannot be done


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["pub", "a/#", "x"], "TOPIC: a topic name must not contain the wildcard '#'"),
        (["pub", "a"], "MESSAGE: is missing"),
        (["pub", "a", "x", "--stdin"], "MESSAGE: say one of"),
        (["pub", "a", "--stdin", "--count", "2"], "--count: has no meaning with --stdin"),
        (["pub", "a", "x", "--property", "b"], "--property: 'b' is not NAME=VALUE"),
        (["pub", "a", "x", "--property", "b=c", "--v311"], "--property: needs MQTT 5"),
        (["pub", "a", "x", "--expiry", "1", "--v311"], "--expiry: needs MQTT 5"),
        (["pub", "a", "x", "--password-file", "f"], "--password-file: needs --user"),
        (["pub", "a", "x", "--user", "u", "--password-file", "no/file"], "no/file: No such file"),
        (["pub", "a", "x", "--tls-ca", "no/file"], "no/file: No such file"),
        (["pub", "a", "x", "--tls-ca", __file__], "has no certificates in PEM format"),
        (["pub", "a", "x", "--qos", "3"], "--qos"),
        (["pub", "a", "x", "--host", "nowhere.invalid"], "there is no host 'nowhere.invalid'"),
        (["sub", "a/#/b"], "filter: "),
        (["sub", "a", "--filter", "b <"], "filter: "),
        (["sub", "a", "--share", "b/c"], "--share: "),
        (["sub", "a", "--session", "5"], "--session: needs --client-id"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(words: list[str], complaint: str, capsys: Capture) -> None:
    assert run(VERBS, words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert complaint in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("verb", [["pub", "a", "x"], ["sub", "a"]])
def test_no_broker(verb: list[str], capsys: Capture) -> None:
    port = free_port()
    assert run(VERBS, [*verb, "--port", str(port)]) == 2
    assert f"start one with 'latecomer broker --port {port}'" in capsys.readouterr().err


@contextmanager
def door(greet: bytes = b"", context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that is no broker: says something, and hangs up."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            try:
                guest, _ = server.accept()
                with guest, context.wrap_socket(guest, server_side=True) if context else guest as spoken:
                    spoken.recv(1000)
                    spoken.sendall(greet)
            except OSError:
                pass  # the guest did not like what it saw

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_somebody_else_answers(capsys: Capture) -> None:
    with door() as port:
        assert run(VERBS, ["pub", "a", "x", "--port", str(port)]) == 2
    assert "hung up instead of answering; perhaps that port is to be used with TLS" in capsys.readouterr().err


@paho_forgets_its_socket
def test_a_stranger_is_not_trusted(tmp_path: Path, capsys: Capture) -> None:
    stranger, trusted = trustme.CA(), trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    stranger.issue_cert(HOST).configure_cert(context)
    trusted.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with door(context=context) as port:
        words = ["pub", "a", "x", "--host", HOST, "--port", str(port), "--tls-ca", str(tmp_path / "ca.pem")]
        assert run(VERBS, words) == 2
    assert "is not to be trusted" in capsys.readouterr().err


@paho_forgets_its_socket
def test_no_tls_there(seats: tuple[Seat, ...], tmp_path: Path, capsys: Capture) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    assert pub(seats[0], "a", "x", "--tls-ca", str(tmp_path / "ca.pem")) == 2
    assert "does not speak TLS" in capsys.readouterr().err


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seat]:
    """A broker with one user, and no room for much."""
    folder = tmp_path_factory.mktemp("strict")
    write_users(folder / "users", {"ann": hash_password(b"sesame open")})
    settings = {
        **QUICK,
        "access": {"anonymous": "deny", "users_file": str(folder / "users")},
        "limits": {"packet_bytes": 2048},
    }
    with running(network_of(line(1), settings), folder) as supervisor:
        yield supervisor.network.brokers[0]


@pytest.fixture
def ann(strict: Seat, tmp_path: Path) -> list[str]:
    (tmp_path / "password").write_text("sesame open\n", encoding="utf-8")
    return ["--user", "ann", "--password-file", str(tmp_path / "password")]


@pytest.mark.parametrize("version", [[], ["--v311"]])
def test_who_may_not_connect_is_told_why(
    strict: Seat, ann: list[str], version: list[str], tmp_path: Path, capsys: Capture
) -> None:
    assert pub(strict, "a", "x", *ann, *version) == 0
    (tmp_path / "password").write_text("sesame shut\n", encoding="utf-8")
    for words in ([], ann):
        assert pub(strict, "a", "x", *words, *version) == 2
        said = capsys.readouterr().err
        assert f"the broker at {HOST}:{strict.port} refused the connection: " in said
        assert "check --user and --password-file" in said


def test_what_is_too_large_is_told(strict: Seat, ann: list[str], capsys: Capture) -> None:
    assert pub(strict, "a", "x" * 5000, "--qos", "1", *ann) == 2
    assert "larger than this broker takes" in capsys.readouterr().err


def test_a_dollar_topic_is_refused(strict: Seat, ann: list[str], capsys: Capture) -> None:
    assert pub(strict, "$SYS/x", "x", "--qos", "1", *ann) == 2
    assert "not authorized" in capsys.readouterr().err


def test_tls(tmp_path: Path, topic: str, capfd: Capture) -> None:
    authority, port = trustme.CA(), free_port()
    certificate = authority.issue_cert("localhost", HOST)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    (tmp_path / "server.pem").chmod(0o600)
    (tmp_path / "settings.toml").write_text(
        f'broker.data = "data"\nadmin.enabled = false\nevent_log.enabled = false\n'
        f'[[listeners]]\nkind = "tls"\nport = {port}\ncertificate = "server.pem"\nkey = "server.pem"\n',
        encoding="utf-8",
    )
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            [*LATECOMER, "broker", "--config", str(tmp_path / "settings.toml")], stdout=log, stderr=log
        ) as process,
    ):
        try:
            until = time.monotonic() + LIMIT_SECONDS
            where = ["--host", "localhost", "--port", str(port), "--tls-ca", str(tmp_path / "ca.pem")]
            while run(VERBS, ["pub", topic, "kept", "--retain", "--qos", "1", *where]) != 0:
                assert time.monotonic() < until, (tmp_path / "log").read_text(encoding="utf-8")
                time.sleep(0.1)
            capfd.readouterr()
            assert run(VERBS, ["sub", topic, "--count", "1", "--wait", "20", *where]) == 0
            assert capfd.readouterr().out == "kept\n"
        finally:
            process.terminate()
