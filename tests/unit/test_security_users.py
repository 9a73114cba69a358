"""Users and passwords."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from latecomer.model.errors import SettingsError
from latecomer.runtime import users as module
from latecomer.runtime.users import (
    COST_MIN,
    PASSWORD_BYTES_MAX,
    Hashed,
    Patience,
    Users,
    Verdict,
    check_name,
    hash_password,
    read_users,
    whose,
    write_users,
)

HERE = "10.0.0.1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "users"
    write_users(file, {name: hash_password(f"of {name}".encode(), COST_MIN) for name in ("bob", "alice")})
    return file


@pytest.fixture
def users(path: Path) -> Iterator[Users]:
    opened = Users(path, failures=3)
    yield opened
    opened.close()


def ask(users: Users, name: str, password: bytes, address: str = HERE) -> Verdict:
    return asyncio.run(users.verify(name, password, address))


class Counting:
    """How often a password was looked at the slow way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        slow = Hashed.matches

        def matches(hashed: Hashed, password: bytes) -> bool:
            self.count += 1
            return slow(hashed, password)

        monkeypatch.setattr(Hashed, "matches", matches)


def test_the_right_password_of_the_right_user(users: Users) -> None:
    assert ask(users, "bob", b"of bob") is Verdict.WELCOME
    assert ask(users, "bob", b"of alice") is Verdict.WRONG
    assert ask(users, "nobody", b"of bob") is Verdict.WRONG
    assert "bob" in users
    assert "nobody" not in users


@pytest.mark.parametrize("password", [b"", b"x" * (PASSWORD_BYTES_MAX + 1), b"of bob\0"])
def test_passwords_that_are_none(users: Users, password: bytes) -> None:
    assert not ask(users, "bob", password)


def test_a_user_who_is_not_there_costs_what_one_who_is_costs(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Counting(monkeypatch)
    ask(users, "bob", b"wrong")
    assert looked.count == 1
    ask(users, "nobody", b"wrong")
    assert looked.count == 2
    assert users._nobody.cost == read_users(users.path)["bob"].cost


def test_a_thousand_reconnections_are_not_a_thousand_hashes(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Counting(monkeypatch)
    for _ in range(1000):
        assert ask(users, "bob", b"of bob")
    assert looked.count == 1
    assert not ask(users, "bob", b"of alice")
    assert looked.count == 2


def test_a_thousand_at_once_are_one_hash_too(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Counting(monkeypatch)
    users.patience.failures = 1000

    async def rush() -> list[Verdict]:
        return await asyncio.gather(*(users.verify("bob", b"of bob", HERE) for _ in range(1000)))

    assert set(asyncio.run(rush())) == {Verdict.WELCOME}
    assert looked.count == 1


def test_too_many_at_once_are_told_so(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_MAX", 2)

    async def rush() -> list[Verdict]:
        return await asyncio.gather(*(users.verify("bob", b"%d" % n, f"10.0.0.{n}") for n in range(3)))

    assert asyncio.run(rush()) == [Verdict.WRONG, Verdict.WRONG, Verdict.BUSY]
    assert ask(users, "bob", b"of bob", "10.0.0.2")  # busy is not a failure, and passes


def test_who_leaves_while_waiting_does_not_take_the_answer_along(users: Users) -> None:
    async def leave() -> Verdict:
        first = asyncio.create_task(users.verify("bob", b"of bob", HERE))
        second = asyncio.create_task(users.verify("bob", b"of bob", HERE))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(leave()) is Verdict.WELCOME


# -- failures


def test_guessing_ends_soon(users: Users) -> None:
    users.patience.clock = lambda: 0.0
    assert [ask(users, "bob", b"guess") for _ in range(3)] == [Verdict.WRONG] * 3
    assert ask(users, "bob", b"guess") is Verdict.LOCKED
    assert ask(users, "bob", b"of bob") is Verdict.LOCKED  # or the guesser would learn that it is right
    assert ask(users, "bob", b"of bob", "10.0.0.2")


def test_asking_many_times_at_once_gains_nothing(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Counting(monkeypatch)
    users.patience.clock = lambda: 0.0

    async def rush() -> list[Verdict]:
        return await asyncio.gather(*(users.verify("bob", b"guess %d" % n, HERE) for n in range(20)))

    assert asyncio.run(rush()).count(Verdict.LOCKED) == 17
    assert looked.count == 3


def test_fifty_with_the_right_password_all_get_in(path: Path) -> None:
    """At once, from one address, with another user and password each: nobody has failed, so nobody is refused."""
    names = [f"user{number}" for number in range(50)]
    write_users(path, {name: hash_password(f"of {name}".encode(), COST_MIN) for name in names})
    users = Users(path, failures=3)

    async def rush() -> list[Verdict]:
        return await asyncio.gather(*[users.verify(name, f"of {name}".encode(), HERE) for name in names])

    assert set(asyncio.run(rush())) == {Verdict.WELCOME}
    assert not users.patience.left
    assert not users._lines
    users.close()


def test_guesses_among_the_right_passwords_are_no_more_than_before(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a right password to be found gets no more guesses for it."""
    names = [f"user{number}" for number in range(20)]
    write_users(path, {name: hash_password(f"of {name}".encode(), COST_MIN) for name in names})
    users = Users(path, failures=3)
    slow = Counting(monkeypatch)

    async def rush() -> list[Verdict]:
        right = [users.verify(name, f"of {name}".encode(), HERE) for name in names]
        wrong = [users.verify(names[0], f"guess {number}".encode(), HERE) for number in range(50)]
        return await asyncio.gather(*right[:10], *wrong, *right[10:])

    verdicts = asyncio.run(rush())
    assert verdicts.count(Verdict.WRONG) == 3
    assert verdicts[:10] == [Verdict.WELCOME] * 10, "they came before the guesses"
    assert set(verdicts[13:]) == {Verdict.LOCKED}
    assert slow.count == 13
    assert not users._lines
    users.close()


def test_a_line_that_is_too_long(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_LINE_MAX", 2)

    async def rush() -> list[Verdict]:
        return await asyncio.gather(*[users.verify("bob", f"guess {number}".encode(), HERE) for number in range(7)])

    verdicts = asyncio.run(rush())
    assert verdicts == [Verdict.WRONG] * 3 + [Verdict.LOCKED] * 2 + [Verdict.BUSY] * 2


def test_who_leaves_while_in_line_does_not_hold_up_the_others(users: Users) -> None:
    async def leave() -> list[Verdict]:
        asking = [asyncio.create_task(users.verify("bob", b"of bob", HERE)) for _ in range(3)]
        asking += [asyncio.create_task(users.verify("alice", b"of alice", HERE)) for _ in range(4)]
        await asyncio.sleep(0)
        assert len(users._lines) == 1
        for task in asking[2:5]:
            task.cancel()
        return [task for task in await asyncio.gather(*asking, return_exceptions=True) if isinstance(task, Verdict)]

    assert asyncio.run(leave()) == [Verdict.WELCOME] * 4
    assert not users._lines


def test_failures_are_forgiven_one_by_one() -> None:
    now = 0.0
    patience = Patience(2, 10.0, lambda: now)
    assert [patience.take("a") for _ in range(3)] == [True, True, False]
    now = 9.0
    assert not patience.take("a")
    now = 10.0
    assert patience.take("a")
    assert not patience.take("a")
    now = 1000.0
    assert [patience.take("a") for _ in range(3)] == [True, True, False]


def test_success_costs_nothing_and_leaves_nothing_behind() -> None:
    patience = Patience(2, 10.0, lambda: 0.0)
    for _ in range(10):
        assert patience.take("a")
        patience.give_back("a")
    assert not patience.left


def test_addresses_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ADDRESSES_MAX", 3)
    patience = Patience(1, 10.0, lambda: 0.0)
    for name in "abcde":
        patience.take(name)
    assert list(patience.left) == ["c", "d", "e"]


@pytest.mark.parametrize(
    ("address", "answers"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("a socket", "a socket"),
    ],
)
def test_who_answers_for_an_address(address: str, answers: str) -> None:
    assert whose(address) == answers


# -- the file


def test_the_file_is_for_its_owner_alone(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert "of bob" not in path.read_text("utf-8")
    assert list(read_users(path)) == ["alice", "bob"]
    assert [each.name for each in path.parent.iterdir()] == ["users"]
    path.chmod(0o640)
    with pytest.raises(SettingsError, match=r"other users can read .*; run: chmod 600"):
        read_users(path)


def test_a_write_that_fails_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_users(path, {})
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["users"]


GOOD = "bob scrypt 1024 8 1 AAAAAAAAAAAAAAAAAAAAAA== " + "A" * 43 + "="


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("bob", "not a line of a users file"),
        ("bob:secret", "not a line of a users file"),
        (GOOD.replace("scrypt", "md5"), "not a line of a users file"),
        (GOOD + " more", "not a line of a users file"),
        (GOOD.replace("1024", "x"), "a number, the salt or the hash cannot be read"),
        (GOOD.replace("AAAA", "!AAA", 1), "a number, the salt or the hash cannot be read"),
        (GOOD.replace("1024", "2"), "these scrypt parameters are too weak, too costly or impossible"),
        (GOOD.replace("1024", "1023"), "these scrypt parameters are too weak, too costly or impossible"),
        (GOOD.replace("1024 8", "1048576 64"), "these scrypt parameters are too weak, too costly or impossible"),
        (GOOD.replace("AAAAAAAAAAAAAAAAAAAAAA==", "AAAA", 1), "the salt or the hash has the wrong length"),
        (GOOD.replace("bob", "*"), "'*' is a word of the access rules"),
        (GOOD + "\n" + GOOD, "the user 'bob' is there twice"),
    ],
)
def test_a_line_that_is_not_understood_is_named(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "users"
    file.write_text(f"# users\n\n{line}\n", encoding="utf-8")
    file.chmod(0o600)
    with pytest.raises(SettingsError) as caught:
        read_users(file)
    number = 3 + line.count("\n")
    assert str(caught.value).startswith(f"{file}:{number}: {problem}")


def test_the_good_line_is_one(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text(GOOD, encoding="utf-8")
    file.chmod(0o600)
    assert list(read_users(file)) == ["bob"]


@pytest.mark.parametrize("name", ["", "*", "anonymous", "a b", "a\n", "#a", "a\u2028b", "x" * 257])
def test_names_that_cannot_be_used(name: str) -> None:
    with pytest.raises(SettingsError):
        check_name(name)


def test_no_password_is_no_password() -> None:
    with pytest.raises(SettingsError, match="must not be empty"):
        hash_password(b"")
    with pytest.raises(SettingsError, match="at most"):
        hash_password(b"x" * (PASSWORD_BYTES_MAX + 1))


# -- changes while the broker runs


def test_a_changed_file_is_read_again(users: Users, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(users, "bob", b"of bob")
    assert ask(users, "alice", b"of alice")
    assert not users.reload_if_changed()
    kept = read_users(users.path)
    write_users(users.path, {"alice": kept["alice"], "bob": hash_password(b"new", COST_MIN)})
    assert users.reload_if_changed()
    looked = Counting(monkeypatch)
    assert ask(users, "alice", b"of alice")
    assert looked.count == 0  # her line is as it was
    assert not ask(users, "bob", b"of bob")
    assert ask(users, "bob", b"new")
    write_users(users.path, {})
    assert users.reload_if_changed()
    assert not ask(users, "alice", b"of alice")


def test_a_user_removed_while_waiting_is_not_let_in(users: Users) -> None:
    async def remove() -> Verdict:
        waiting = asyncio.create_task(users.verify("bob", b"of bob", HERE))
        await asyncio.sleep(0)
        write_users(users.path, {})
        users.reload_if_changed()
        return await waiting

    assert asyncio.run(remove()) is Verdict.WRONG


def test_an_old_password_still_being_looked_at_is_not_good_for_the_new_line(users: Users) -> None:
    async def change() -> list[Verdict]:
        early = asyncio.create_task(users.verify("bob", b"of bob", HERE))
        await asyncio.sleep(0)
        write_users(users.path, {"bob": hash_password(b"new", COST_MIN)})
        users.reload_if_changed()
        return [await users.verify("bob", b"of bob", HERE), await early]

    assert asyncio.run(change()) == [Verdict.WRONG, Verdict.WRONG]


def test_a_file_that_became_wrong_is_complained_about_once(users: Users) -> None:
    users.path.write_text("nonsense", encoding="utf-8")
    with pytest.raises(SettingsError, match="users:1:"):
        users.reload_if_changed()
    assert not users.reload_if_changed()
    assert ask(users, "bob", b"of bob")
