"""`latecomer user`: who may connect with a password."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from latecomer.model.errors import SettingsError
from latecomer.model.topology import quoted
from latecomer.runtime.settings import load
from latecomer.runtime.users import PASSWORD_BYTES_MAX, check_name, hash_password, read_users, write_users

user = typer.Typer(help="Add, remove and list the users of a broker.", add_completion=False)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
File = Annotated[Path | None, typer.Option("--file", metavar="USERS", help="The users file.")]
Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="SETTINGS.toml", help="The settings that name it as access.users_file."),
]


@user.command("add")
def add(
    name: Name,
    file: File = None,
    config: Config = None,
    password_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take the password from the first line of this file; '-' is standard input."),
    ] = None,
) -> None:
    """Add a user, or give one a new password."""
    path = users_file(file, config)
    check_name(name)
    hashed = hash_password(ask(name) if password_file is None else first_line(password_file))
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path):
        users = read_users(path) if path.exists() else {}
        known = name in users
        users[name] = hashed
        write_users(path, users)
    typer.echo(f"{name} has a new password" if known else f"{name} was added to {path}")


@user.command("remove")
def remove(name: Name, file: File = None, config: Config = None) -> None:
    """Remove a user."""
    path = users_file(file, config)
    with locked(path):
        users = read_users(path)
        if users.pop(name, None) is None:
            raise SettingsError("name", f"there is no user {quoted(name)} in {path}")
        write_users(path, users)
    typer.echo(f"{name} was removed from {path}")


@user.command("list")
def list_users(file: File = None, config: Config = None) -> None:
    """List the names of all users."""
    for name in sorted(read_users(users_file(file, config))):
        typer.echo(name)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else changes the file meanwhile: two who read it and write it at once would lose one of the changes. The
    lock is on the directory, since the file itself is replaced."""
    try:
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise SettingsError("--file", f"{str(path.parent)!r} cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def users_file(file: Path | None, config: Path | None) -> Path:
    """The file that is meant."""
    if file is not None and config is not None:
        raise SettingsError("--file", "cannot be given together with --config; choose one")
    if file is not None:
        return file
    if config is None:
        raise SettingsError("--file", "is missing: name the users file, or the settings with --config")
    found = load(config, checked=False).access.users_file
    if found is None:
        raise SettingsError("access.users_file", "is not set; set it, or name the file with --file", source=str(config))
    return found


def ask(name: str) -> bytes:
    """The password, typed twice; from a pipe, its first line."""
    if not sys.stdin.isatty():
        return first_line(Path("-"))
    password: str = typer.prompt(f"Password for {name}", hide_input=True, confirmation_prompt=True, err=True)
    return password.encode()


def first_line(path: Path) -> bytes:
    """One line of a file, without its end."""
    standard = str(path) == "-"
    with os.fdopen(sys.stdin.fileno(), "rb", closefd=False) if standard else path.open("rb") as file:
        return file.readline(PASSWORD_BYTES_MAX + 3).rstrip(b"\r\n")
