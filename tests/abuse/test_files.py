"""Bad inputs 29, 36 and 37: files of the operator that are missing, wrong, too large, or open to others."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from latecomer.cli.main import VERBS, run
from latecomer.runtime.users import hash_password, write_users
from tests.abuse.house import House, running
from tests.conformance.conftest import START_S


def refusal(folder: Path, text: str = "") -> str:
    """What the broker says instead of starting: one sentence, not a traceback."""
    house = House(folder)
    command = house.command
    if text:
        (folder / "broker.toml").write_text(text, "utf-8")
    done = subprocess.run(command, capture_output=True, timeout=START_S, check=False)
    said = done.stderr.decode()
    assert done.returncode == 2, f"{done.returncode}: {said}{done.stdout.decode()}"
    assert "Traceback" not in said
    assert "ready" not in done.stdout.decode()
    return said


def rules(text: str) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / "rules").write_text(text, "utf-8")
        (folder / "rules").chmod(0o600)
        return f'[access]\nrules_file = "{folder}/rules"\n'

    return write


def users(text: str, mode: int = 0o600) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        (folder / "users").write_text(text, "utf-8")
        (folder / "users").chmod(mode)
        return f'[access]\nusers_file = "{folder}/users"\n'

    return write


def open_rules(folder: Path) -> str:
    text = rules("allow * all #\n")(folder)
    (folder / "rules").chmod(0o666)
    return text


WRONG: dict[str, tuple[Callable[[Path], str], tuple[str, ...]]] = {
    "no rules file": (lambda folder: f'[access]\nrules_file = "{folder}/none"\n', ("none", "cannot be read")),
    "a directory": (lambda folder: f'[access]\nrules_file = "{folder}"\n', ("rules_file",)),
    "a rule of three words": (rules("allow * all #\n\nallow bob #\n"), ("rules", ":3: ", "four words")),
    "a rule of another kind": (rules("# nothing\npermit * all #\n"), ("rules", ":2: ", "allow or deny")),
    "a rule about $": (rules("allow * all $SYS/#\n"), ("rules", ":1: ", "publishes")),
    "rules others can change": (open_rules, ("rules", "chmod go-w")),
    "no users file": (lambda folder: f'[access]\nusers_file = "{folder}/none"\n', ("none", "cannot be read")),
    "a user without password": (users("alice\n"), ("users", ":1: ")),
    "a user with a plain password": (users("# users\nalice:password\n"), ("users", ":2: ")),
    "users others can read": (users("", 0o644), ("users", "chmod 600")),
    "a certificate that is none": (
        lambda folder: f'[[listeners]]\nkind = "tls"\ncertificate = "{folder}/none"\nkey = "{folder}/no"\n',
        ("certificate",),
    ),
    "a secret others can read": (
        lambda folder: secret(folder, 0o644, "0123456789abcdef"),
        ("link.secret_file", "chmod 600"),
    ),
    "a short secret": (lambda folder: secret(folder, 0o600, "short"), ("link.secret_file", "16 characters")),
    "links without secret": (
        lambda folder: '[[link.neighbours]]\nid = "b"\n',
        ("link.secret_file", "missing"),
    ),
    "insecure links to elsewhere": (
        lambda folder: '[link]\ninsecure = true\n[[link.neighbours]]\nid = "b"\nhost = "192.0.2.1"\n',
        ("loopback",),
    ),
    "an unknown key": (lambda folder: "[limits]\nconections = 3\n", ("broker.toml", "conections")),
    "not a number": (lambda folder: "[limits]\nconnect_s = nan\n", ("connect_s",)),
    "a key of 20,000 parts": (lambda folder: ".".join("a" * 20_000) + " = 1\n", ("broker.toml",)),
    "100,000 brackets": (lambda folder: "a = " + "[" * 100_000, ("broker.toml",)),
    "300 KiB": (lambda folder: "#" * 300 * 1024, ("broker.toml",)),
    "the same key twice": (lambda folder: "[limits]\nconnect_s = 1\nconnect_s = 2\n", ("broker.toml", ":3: ")),
}


def secret(folder: Path, mode: int, text: str) -> str:
    (folder / "secret").write_text(text, "utf-8")
    (folder / "secret").chmod(mode)
    return f'[link]\nsecret_file = "{folder}/secret"\n[[link.neighbours]]\nid = "b"\n'


@pytest.mark.parametrize("name", WRONG)
def test_29_36_the_settings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """In one sentence, which names file and line."""
    write, words = WRONG[name]
    config = tmp_path / "broker.toml"
    config.write_text(write(tmp_path), "utf-8")
    assert run(VERBS, ["broker", "--check", "--config", str(config), "--data", str(tmp_path / "data")]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    for word in words:
        assert word in said


def test_36_the_broker_does_not_start(tmp_path: Path) -> None:
    write, words = WRONG["a rule of three words"]
    said = refusal(tmp_path, write(tmp_path))
    for word in words:
        assert word in said


def test_36_empty_rules_mean_nobody(tmp_path: Path) -> None:
    """An empty file is a decision: nothing is allowed. It is not the same as no file."""
    (tmp_path / "rules").touch(0o600)
    with running(tmp_path, access={"rules_file": tmp_path / "rules"}) as house:
        client = house.join()
        assert client.subscribe(("#", 0), ("a", 0)) == [0x87, 0x87]
        answer = client.publish("a", b"x")
        assert answer is not None
        assert answer.reason == 0x87


def test_36_37_an_empty_users_file_and_private_data(tmp_path: Path) -> None:
    """Nobody is known, so nobody is let in by name; and what the broker writes, only its user reads."""
    write_users(tmp_path / "users", {})
    with running(tmp_path, access={"anonymous": "deny", "users_file": tmp_path / "users"}) as house:
        assert house.knock()[1].reason == 0x87
        assert house.knock(user="alice", password=b"x")[1].reason == 0x86
        write_users(tmp_path / "users", {"alice": hash_password(b"x")})
        data = tmp_path / "data"
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in data.rglob("*") if path.is_file()}
        assert len(modes) >= 2
        assert not {name: oct(mode) for name, mode in modes.items() if mode & 0o077}


def test_37_data_that_others_can_read(tmp_path: Path) -> None:
    """Its directory, its database or its token."""
    house, data = House(tmp_path), tmp_path / "data"
    house.start()
    house.stop()
    for path in (data, data / "admin-token", data / "broker.db"):
        private = path.stat().st_mode
        path.chmod(private | 0o044)
        assert "chmod" in refusal(tmp_path), path
        path.chmod(private)
