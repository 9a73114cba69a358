"""The gate, and files with secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from latecomer.model.errors import SettingsError
from latecomer.runtime.private_files import private_directory, read_secret, read_text
from latecomer.runtime.security import (
    BAD_CLIENT_ID,
    BAD_PASSWORD,
    NOT_AUTHORIZED,
    RATE_EXCEEDED,
    Admission,
    Gate,
    admin_token,
    link_secret,
)
from latecomer.runtime.settings import AccessSection, LinkSection, Settings, loads
from latecomer.runtime.users import COST_MIN, hash_password, write_users

LOCAL, AWAY = "127.0.0.1", "10.0.0.1"


@pytest.fixture
def users(tmp_path: Path) -> Path:
    write_users(tmp_path / "users", {"bob": hash_password(b"pass", COST_MIN)})
    return tmp_path / "users"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "rules").write_text("allow * all home/%u/#\nallow guest all %c/#\n", encoding="utf-8")
    return tmp_path / "rules"


@pytest.fixture
def gate(users: Path, rules: Path) -> Iterator[Gate]:
    opened = Gate(AccessSection(users_file=users, rules_file=rules, failures=2))
    yield opened
    opened.close()


def admit(
    gate: Gate, name: str | None, password: bytes | None, address: str = AWAY, client: str = "c", by: str | None = None
) -> Admission:
    return asyncio.run(gate.admit(name, password, client=client, address=address, certified=by))


def test_users_are_let_in_by_password(gate: Gate) -> None:
    assert admit(gate, "bob", b"pass") == Admission("bob")
    assert admit(gate, "bob", b"no").reason == BAD_PASSWORD
    assert admit(gate, "bob", None).reason == BAD_PASSWORD
    assert admit(gate, "bob", b"pass").reason == RATE_EXCEEDED


@pytest.mark.parametrize(
    ("anonymous", "address", "reason"),
    [
        ("loopback", LOCAL, 0),
        ("loopback", "::1", 0),
        ("loopback", AWAY, NOT_AUTHORIZED),
        ("allow", AWAY, 0),
        ("deny", LOCAL, NOT_AUTHORIZED),
    ],
)
def test_anonymous_clients(anonymous: Literal["loopback", "allow", "deny"], address: str, reason: int) -> None:
    gate = Gate(AccessSection(anonymous=anonymous))
    assert admit(gate, None, None, address).reason == reason
    # Nobody could have a name here; a name that cannot be proved is not taken for one.
    named = admit(gate, "bob", b"pass", address)
    assert (named.user, named.reason) == (None, reason)


def test_a_password_without_a_name_is_wrong() -> None:
    assert admit(Gate(AccessSection()), None, b"pass", LOCAL).reason == BAD_PASSWORD


def test_a_name_is_never_anonymous_where_there_are_users(gate: Gate) -> None:
    assert admit(gate, "eve", b"", LOCAL).reason == BAD_PASSWORD


def test_a_certificate_names_its_user(gate: Gate) -> None:
    assert admit(gate, None, None, by="device") == Admission("device")
    assert admit(gate, "device", None, by="device") == Admission("device")
    assert admit(gate, "bob", b"pass", by="device") == Admission("bob")
    assert admit(gate, "bob", None, by="device").reason == BAD_PASSWORD
    assert admit(gate, None, None, by="anonymous").reason == NOT_AUTHORIZED


def test_names_that_rules_could_misread_stay_out(gate: Gate) -> None:
    assert admit(gate, None, None, by="a/b").reason == BAD_CLIENT_ID
    assert admit(gate, None, None, by="guest", client="+").reason == BAD_CLIENT_ID
    assert admit(gate, None, None, by="other", client="+").user == "other"


def test_changed_rules_hold_at_once(gate: Gate, rules: Path) -> None:
    assert gate.rules.may_publish("bob", "c", "home/bob/x")
    assert not gate.reload_if_changed()
    rules.write_text("", encoding="utf-8")
    assert gate.reload_if_changed()
    assert not gate.rules.may_publish("bob", "c", "home/bob/x")
    rules.write_text("nonsense", encoding="utf-8")
    with pytest.raises(SettingsError, match="rules:1: a rule is four words"):
        gate.reload_if_changed()
    assert not gate.rules.may_publish("bob", "c", "home/bob/x")


def test_changed_users_hold_at_once(gate: Gate, users: Path) -> None:
    write_users(users, {})
    assert gate.reload_if_changed()
    assert admit(gate, "bob", b"pass").reason == BAD_PASSWORD


def test_rules_that_others_could_change_are_no_rules(rules: Path) -> None:
    rules.chmod(0o666)
    with pytest.raises(SettingsError, match=r"other users can change .*; run: chmod go-w"):
        Gate(AccessSection(rules_file=rules))


def test_a_wrong_users_or_rules_file_keeps_the_broker_from_starting(users: Path, rules: Path) -> None:
    rules.write_text("allow everything", encoding="utf-8")
    with pytest.raises(SettingsError, match="rules:1:"):
        loads(f'[access]\nrules_file = "{rules}"')
    users.write_text("bob:pass", encoding="utf-8")
    with pytest.raises(SettingsError, match="users:1:"):
        loads(f'[access]\nusers_file = "{users}"')


# -- secrets


def test_the_link_secret_from_either_place(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text("0123456789abcdef\n", encoding="utf-8")
    assert link_secret(LinkSection(secret_file=file)) == b"0123456789abcdef"
    assert link_secret(LinkSection(secret="0123456789abcdef")) == b"0123456789abcdef"
    assert link_secret(LinkSection()) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "at least 16"), ("short", "at least 16"), ("0123456789\nabcdefg", "one line"), ("x" * 5000, "larger than")],
)
def test_secrets_that_are_none(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=f"^link.secret_file: .*{problem}"):
        read_secret(file, "link.secret_file")


def test_a_token_is_drawn_once_and_kept(tmp_path: Path) -> None:
    settings = loads(f'[broker]\ndata = "{tmp_path / "data"}"')
    token = admin_token(settings)
    assert len(token) >= 32
    assert admin_token(settings) == token
    assert (tmp_path / "data" / "admin-token").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_a_token_that_is_set_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text("a token of enough characters", encoding="utf-8")
    assert admin_token(loads(f'[admin]\ntoken_file = "{file}"')) == "a token of enough characters"
    assert admin_token(loads('[admin]\ntoken = "0123456789abcdef"')) == "0123456789abcdef"
    with pytest.raises(SettingsError, match="set twice"):
        admin_token(loads(f'[admin]\ntoken = "0123456789abcdef"\ntoken_file = "{file}"'))
    with pytest.raises(SettingsError, match="at least 16"):
        admin_token(loads('[admin]\ntoken = "short"'))


def test_a_data_directory_that_others_can_read_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(SettingsError, match="run: chmod 700"):
        private_directory(tmp_path, "broker.data")
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot be made"):
        private_directory(tmp_path / "file" / "data", "broker.data")


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        read_text(tmp_path, "key", bytes_max=10)
    latin = tmp_path / "latin"
    latin.touch(mode=0o600)
    latin.write_bytes(b"\n\xe4")
    with pytest.raises(SettingsError, match="latin:2: key: not UTF-8"):
        read_text(latin, "key", bytes_max=10)


def test_the_default_settings_need_no_file() -> None:
    gate = Gate(Settings().access)
    assert gate.users is None
    assert not gate.reload_if_changed()
    gate.close()
