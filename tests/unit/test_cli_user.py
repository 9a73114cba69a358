"""`latecomer user`, as it is typed."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import typer

from latecomer.cli.main import VERBS, run
from latecomer.cli.user import add
from latecomer.runtime.users import Hashed, Users, read_users

Capture = pytest.CaptureFixture[str]


def verify(path: Path, name: str, password: bytes) -> bool:
    users = Users(path)
    try:
        return bool(asyncio.run(users.verify(name, password, "10.0.0.1")))
    finally:
        users.close()


def user(*words: object) -> int:
    return run(VERBS, ["user", *map(str, words)])


@pytest.fixture
def password(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("open sesame\nsecond line\n", encoding="utf-8")
    return path


def test_a_life(tmp_path: Path, password: Path, capsys: Capture) -> None:
    path = tmp_path / "new" / "users"
    assert user("add", "bob", "--file", path, "--password-file", password) == 0
    assert user("add", "alice", "--file", path, "--password-file", password) == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert verify(path, "bob", b"open sesame")
    password.write_text("changed", encoding="utf-8")
    assert user("add", "bob", "--file", path, "--password-file", password) == 0
    assert verify(path, "bob", b"changed")
    capsys.readouterr()
    assert user("list", "--file", path) == 0
    assert capsys.readouterr().out == "alice\nbob\n"
    assert user("remove", "bob", "--file", path) == 0
    assert list(read_users(path)) == ["alice"]


def test_the_settings_may_name_the_file(tmp_path: Path, password: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[access]\nusers_file = "users"\n', encoding="utf-8")
    assert user("add", "bob", "--config", settings, "--password-file", password) == 0
    assert list(read_users(tmp_path / "users")) == ["bob"]


def test_a_password_from_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"from a pipe\r\nmore")
    os.close(writing)
    with os.fdopen(reading) as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        assert user("add", "bob", "--file", tmp_path / "users") == 0
    assert verify(tmp_path / "users", "bob", b"from a pipe")


def test_a_password_from_the_keyboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    def prompt(text: str, **how: object) -> str:
        asked.append(how)
        return "typed"

    monkeypatch.setattr(typer, "prompt", prompt)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert user("add", "bob", "--file", tmp_path / "users") == 0
    assert asked == [{"hide_input": True, "confirmation_prompt": True, "err": True}]
    assert verify(tmp_path / "users", "bob", b"typed")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["list"], "--file: is missing: name the users file"),
        (["list", "--file", "a", "--config", "b"], "--file: cannot be given together with --config"),
        (["list", "--file", "absent"], "access.users_file: 'absent' cannot be read"),
        (["list", "--config", "settings.toml"], "settings.toml: access.users_file: is not set"),
        (["remove", "bob", "--file", "users"], "name: there is no user 'bob' in users"),
        (["add", "*", "--file", "users"], "name: '*' is a word of the access rules"),
        (["add", "bob", "--file", "users", "--password-file", "absent"], "absent: No such file"),
        (["add", "bob", "--file", "users", "--password-file", "empty"], "password: must not be empty"),
        ([], "Missing command"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("users", "settings.toml", "empty"):
        Path(name).touch(mode=0o600)
    assert user(*words) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"latecomer: {sentence}")
    assert shown.count("\n") == 1
    assert Path("users").read_bytes() == b""


def test_two_who_add_a_user_at_once_lose_none(tmp_path: Path, password: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has read the file before the other writes it, unless one waits for the other."""
    path = tmp_path / "users"
    both_have_read = threading.Barrier(2, timeout=0.5)

    def read_together(file: Path) -> dict[str, Hashed]:
        found = read_users(file) if file.exists() else {}
        with suppress(threading.BrokenBarrierError):
            both_have_read.wait()
        return found

    add(name="first", file=path, password_file=password)
    monkeypatch.setattr("latecomer.cli.user.read_users", read_together)
    threads = [
        threading.Thread(target=add, kwargs={"name": name, "file": path, "password_file": password})
        for name in ("ann", "bob")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read_users(path)) == ["ann", "bob", "first"]
