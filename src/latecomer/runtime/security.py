"""Who is let in, and what they may do: users, anonymous clients, certificates, access rules, tokens and secrets."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec

from latecomer.model.access import OPEN, Rules, parse_rules
from latecomer.model.errors import SettingsError
from latecomer.model.ids import ClientId
from latecomer.runtime.private_files import (
    OTHERS_WRITE,
    check_secret,
    private_directory,
    read_secret,
    read_text,
    stamp,
    write_text,
)
from latecomer.runtime.settings import AccessSection, LinkSection, Settings, is_loopback
from latecomer.runtime.users import Users, Verdict, check_name

RULES_BYTES_MAX = 1024 * 1024
TOKEN_FILE = "admin-token"
ADDRESS_FILE = "admin-address"
"""Where the admin interface listens, for the commands that are given the data folder."""

BAD_CLIENT_ID, BAD_PASSWORD, NOT_AUTHORIZED, BUSY, RATE_EXCEEDED = 0x85, 0x86, 0x87, 0x89, 0x9F
"""Reason codes of CONNACK (MQTT 5, section 3.2.2.2)."""

_REASONS = {Verdict.WRONG: BAD_PASSWORD, Verdict.LOCKED: RATE_EXCEEDED, Verdict.BUSY: BUSY}


class Admission(msgspec.Struct, frozen=True):
    """The answer at the door. A client without user is anonymous; a reason other than 0 means that it stays out."""

    user: str | None = None
    reason: int = 0
    sentence: str = ""


class Gate:
    """Users and rules of a broker; both are read again when their files change."""

    def __init__(self, access: AccessSection) -> None:
        self.access = access
        self.users = (
            Users(access.users_file, failures=access.failures, forgiven_s=access.failure_forgiven_s)
            if access.users_file
            else None
        )
        self._rules_stamp = stamp(access.rules_file) if access.rules_file else None
        self.rules = load_rules(access.rules_file)

    async def admit(
        self,
        name: str | None,
        password: bytes | None,
        *,
        client: ClientId,
        address: str,
        certified: str | None = None,
    ) -> Admission:
        """May this client in, and as whom? `certified` is whom its verified certificate names."""
        admission = await self._admit(name, password, address, certified)
        if admission.reason:
            return admission
        problem = self.rules.pattern_problem(admission.user, client)
        return Admission(None, BAD_CLIENT_ID, problem) if problem else admission

    async def _admit(self, name: str | None, password: bytes | None, address: str, certified: str | None) -> Admission:
        if certified is not None and name in (None, certified) and password is None:
            return _certified(certified)
        if name is not None and self.users is not None:
            verdict = await self.users.verify(name, password or b"", address)
            return Admission(name) if verdict else Admission(None, _REASONS[verdict], verdict.value)
        if name is None and password is not None:
            return Admission(None, BAD_PASSWORD, "a password needs a user name")
        # Without a users file no name can be proved: whoever gives one is as anonymous as those who give none.
        if self.access.anonymous == "allow" or (self.access.anonymous == "loopback" and is_loopback(address)):
            return Admission(None)
        return Admission(None, NOT_AUTHORIZED, "this broker wants a user name and a password")

    def reload_if_changed(self) -> bool:
        """Read changed files again; a file that cannot be read leaves everything as it was, and raises once."""
        changed = self.users.reload_if_changed() if self.users else False
        path = self.access.rules_file
        if path is not None and (seen := stamp(path)) != self._rules_stamp:
            self._rules_stamp = seen
            self.rules = load_rules(path)
            changed = True
        return changed

    def close(self) -> None:
        if self.users:
            self.users.close()


def _certified(name: str) -> Admission:
    try:
        return Admission(check_name(name))
    except SettingsError as error:
        return Admission(None, NOT_AUTHORIZED, f"the certificate's common name cannot be a user: {error.problem}")


def load_rules(path: Path | None) -> Rules:
    """The rules in a file; without a file, everything is open to whoever is let in."""
    if path is None:
        return OPEN
    return parse_rules(
        read_text(path, "access.rules_file", bytes_max=RULES_BYTES_MAX, forbidden=OTHERS_WRITE), str(path)
    )


def link_secret(link: LinkSection) -> bytes | None:
    """The secret that neighbours must know, or None if there is none."""
    if link.secret is not None and link.secret_file is not None:
        raise SettingsError("link.secret", "is set twice, here and in link.secret_file; keep one")
    if link.secret is not None:
        return check_secret(link.secret, "link.secret").encode()
    return read_secret(link.secret_file, "link.secret_file").encode() if link.secret_file else None


def admin_token(settings: Settings) -> str:
    """The token of the admin interface; drawn by chance and kept in the data directory if none is set."""
    admin = settings.admin
    if admin.token is not None and admin.token_file is not None:
        raise SettingsError("admin.token", "is set twice, here and in admin.token_file; keep one")
    if admin.token is not None:
        return check_secret(admin.token, "admin.token")
    if admin.token_file is not None:
        return read_secret(admin.token_file, "admin.token_file")
    path = private_directory(settings.broker.data, "broker.data") / TOKEN_FILE
    if not path.exists():
        write_text(path, secrets.token_urlsafe(32) + "\n")
    return read_secret(path, "broker.data")
