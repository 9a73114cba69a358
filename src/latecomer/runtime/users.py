"""The users file, and the question whether a password is right.

One line per user, made by `latecomer user`: name, `scrypt`, its three parameters, salt and hash.

Theory of operation. scrypt is slow on purpose, so it runs in threads of its own, few at a time and few waiting; beyond
that the answer is "busy". A password that was right is remembered as a keyed digest, so that a thousand reconnections
are not a thousand hashes; the key is drawn anew with each start and never leaves the process. A wrong one costs the
address one of its failures, which come back with time. Asking many times at once gains nothing: a failure is set aside
for every password that is being looked at, and returned if it was right. While none is left, the others from that
address wait: for one that was right, which lets the next one go on, or for the last one that was wrong, which sends all
of them away. So fifty clients with the right password get in one after the other, and eleven guesses at once are ten.
A user who does not exist costs what one who does costs.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import msgspec

from latecomer.model.access import RESERVED
from latecomer.model.errors import SettingsError
from latecomer.model.topology import quoted
from latecomer.runtime.private_files import read_text, stamp, write_text

KEY = "access.users_file"
FILE_BYTES_MAX = 64 * 1024 * 1024
NAME_BYTES_MAX = 256
PASSWORD_BYTES_MAX = 1024

COST = 2**14
"""scrypt with 16 MiB: about 50 ms. More would protect a stolen file better and let fewer clients log in per second."""
COST_MIN, COST_MAX = 2**10, 2**20
BLOCK, PARALLEL = 8, 1
MEMORY_MAX = 256 * 1024 * 1024

THREADS = 2
WAITING_MAX = 128
"""Passwords being looked at or waiting for it: a few seconds' worth."""
IN_LINE_MAX = 1024
"""Clients of one address that wait for their turn."""
ADDRESSES_MAX = 10_000
"""Addresses whose failures are remembered."""


class Verdict(Enum):
    """The answer to a name and a password; true if they are good."""

    WELCOME = "welcome"
    WRONG = "wrong name or password"
    LOCKED = "too many wrong passwords from this address; wait a little"
    BUSY = "too many logins at once; try again"

    def __bool__(self) -> bool:
        return self is Verdict.WELCOME


class Hashed(msgspec.Struct, frozen=True):
    """A password as the file has it."""

    cost: int
    block: int
    parallel: int
    salt: bytes
    digest: bytes

    def matches(self, password: bytes) -> bool:
        """Slow on purpose."""
        return hmac.compare_digest(_scrypt(password, self), self.digest)


def hash_password(password: bytes, cost: int = COST) -> Hashed:
    """A password with a salt of its own."""
    if not password:
        raise SettingsError("password", "must not be empty")
    if len(password) > PASSWORD_BYTES_MAX:
        raise SettingsError("password", f"must have at most {PASSWORD_BYTES_MAX} bytes")
    blank = Hashed(cost, BLOCK, PARALLEL, secrets.token_bytes(16), bytes(32))
    return msgspec.structs.replace(blank, digest=_scrypt(password, blank))


def stranger(users: Mapping[str, Hashed]) -> Hashed:
    """Nobody's password, as costly to look at as the costliest of these."""
    costliest = max(users.values(), key=lambda each: each.cost * each.block * each.parallel, default=None)
    blank = costliest or Hashed(COST, BLOCK, PARALLEL, b"", bytes(32))
    return msgspec.structs.replace(blank, salt=secrets.token_bytes(16), digest=secrets.token_bytes(32))


def _scrypt(password: bytes, how: Hashed) -> bytes:
    # scrypt begins with an HMAC, whose key is filled up with zeros: 'x' and 'x\0' would be one password.
    plain = hashlib.sha256(password).digest()
    memory = 128 * how.block * (how.cost + how.parallel) + 1024 * 1024
    return hashlib.scrypt(
        plain, salt=how.salt, n=how.cost, r=how.block, p=how.parallel, maxmem=memory, dklen=len(how.digest)
    )


def check_name(name: str) -> str:
    """A user name that can stand in the users file and in access rules."""
    if not name:
        raise SettingsError("name", "must not be empty")
    if name in RESERVED:
        raise SettingsError("name", f"{quoted(name)} is a word of the access rules; choose another")
    if not name.isprintable() or " " in name or name[0] == "#":
        raise SettingsError("name", f"{quoted(name)} has a space, a control character or a leading '#' in it")
    if len(name.encode()) > NAME_BYTES_MAX:
        raise SettingsError("name", f"must have at most {NAME_BYTES_MAX} bytes")
    return name


# -- the file


def read_users(path: Path) -> dict[str, Hashed]:
    """All users of a file; a line that is not understood is never skipped."""
    users: dict[str, Hashed] = {}
    for number, line in enumerate(read_text(path, KEY, bytes_max=FILE_BYTES_MAX).split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            name, hashed = _parse_line(line)
        except SettingsError as error:
            raise SettingsError("", error.problem, source=str(path), line=number) from None
        if name in users:
            raise SettingsError("", f"the user {quoted(name)} is there twice", source=str(path), line=number)
        users[name] = hashed
    return users


def write_users(path: Path, users: Mapping[str, Hashed]) -> None:
    """Replace the file, sorted by name."""
    lines = ["# Users and their passwords, made by: latecomer user add NAME\n"]
    for name, hashed in sorted(users.items()):
        texts = [base64.b64encode(value).decode() for value in (hashed.salt, hashed.digest)]
        lines.append(f"{name} scrypt {hashed.cost} {hashed.block} {hashed.parallel} {' '.join(texts)}\n")
    write_text(path, "".join(lines))


def _parse_line(line: str) -> tuple[str, Hashed]:
    words = line.split()
    if len(words) != 7 or words[1] != "scrypt":
        raise SettingsError("", "not a line of a users file: name, scrypt, three numbers, salt, hash")
    name = check_name(words[0])
    try:
        cost, block, parallel = (int(word) for word in words[2:5])
        salt, digest = (base64.b64decode(word, validate=True) for word in words[5:])
    except (ValueError, binascii.Error):
        raise SettingsError("", "a number, the salt or the hash cannot be read") from None
    good = COST_MIN <= cost <= COST_MAX and cost & (cost - 1) == 0 and 1 <= block <= 64 and 1 <= parallel <= 16
    if not good or 128 * cost * block > MEMORY_MAX:
        raise SettingsError("", "these scrypt parameters are too weak, too costly or impossible")
    if not (8 <= len(salt) <= 64 and 16 <= len(digest) <= 64):
        raise SettingsError("", "the salt or the hash has the wrong length")
    return name, Hashed(cost, block, parallel, salt, digest)


# -- failures


@dataclass(slots=True)
class Patience:
    """How many more wrong passwords each address has; they come back one by one."""

    failures: int
    forgiven_s: float
    clock: Callable[[], float] = time.monotonic
    left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    """Failures left, and when that was so; addresses not in here have them all."""

    def take(self, address: str) -> bool:
        """One failure less, in advance; False if there is none."""
        now = self.clock()
        had, at = self.left.pop(address, (float(self.failures), now))
        had = min(float(self.failures), had + (now - at) / self.forgiven_s)
        self.left[address] = (had - 1 if had >= 1 else had, now)
        if len(self.left) > ADDRESSES_MAX:
            self.left.popitem(last=False)
        return had >= 1

    def give_back(self, address: str) -> None:
        """It was no failure."""
        had, at = self.left.get(address, (float(self.failures), 0.0))
        if had + 1 >= self.failures:
            self.left.pop(address, None)
        else:
            self.left[address] = (had + 1, at)


def whose(address: str) -> str:
    """Who answers for an address: itself, or for IPv6 the /64 around it, all of which one host may use."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


@dataclass(slots=True)
class Line:
    """The clients of one address: how many passwords are being looked at, and who waits for what comes of that."""

    members: int = 0
    looking: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)

    def go_on(self, count: int) -> None:
        """So many that wait may try again."""
        while count and self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                count -= 1


# -- the question


class Users:
    """The users of a file; `verify` belongs to one event loop."""

    def __init__(self, path: Path, *, failures: int = 10, forgiven_s: float = 6.0) -> None:
        self.path = path
        self.patience = Patience(failures, forgiven_s)
        self._stamp = stamp(path)
        self._users = read_users(path)
        self._key = secrets.token_bytes(32)
        self._good: dict[str, bytes] = {}
        """Per user what was right last, as keyed digest; forgotten when the user's line changes."""
        self._running: dict[tuple[bytes, Hashed | None], asyncio.Future[bool]] = {}
        """Passwords being looked at, by what was asked and the line it is compared with."""
        self._lines: dict[str, Line] = {}
        """By address; only those from which somebody asks at the moment."""
        self._threads = ThreadPoolExecutor(THREADS, "password")
        self._nobody = stranger(self._users)

    async def verify(self, name: str, password: bytes, address: str) -> Verdict:
        """Is this the password of this user? `address` is where the client is, without port."""
        who = whose(address)
        line = self._lines.setdefault(who, Line())
        line.members += 1
        try:
            while not self.patience.take(who):
                if not line.looking:
                    return Verdict.LOCKED
                if len(line.waiting) >= IN_LINE_MAX:
                    return Verdict.BUSY
                turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                line.waiting.append(turn)
                await turn
            return await self._in_turn(line, who, name, password)
        finally:
            line.members -= 1
            if not line.members:
                del self._lines[who]
            elif not line.looking:
                line.go_on(len(line.waiting))

    async def _in_turn(self, line: Line, who: str, name: str, password: bytes) -> Verdict:
        verdict = Verdict.WRONG
        line.looking += 1
        try:
            verdict = await self._look(name, password)
            return verdict
        finally:
            line.looking -= 1
            if verdict is not Verdict.WRONG:
                self.patience.give_back(who)
                line.go_on(1)

    async def _look(self, name: str, password: bytes) -> Verdict:
        if len(password) > PASSWORD_BYTES_MAX:
            return Verdict.WRONG
        encoded = name.encode("utf-8", "surrogatepass")
        digest = hmac.digest(self._key, len(encoded).to_bytes(4) + encoded + password, "sha256")
        hashed = self._users.get(name)
        known = self._good.get(name)
        if known is not None and hmac.compare_digest(known, digest):
            return Verdict.WELCOME
        asked = (digest, hashed)
        running = self._running.get(asked)
        if running is None:  # and if somebody asks the same already, one answer will do for both
            if len(self._running) >= WAITING_MAX:
                return Verdict.BUSY
            running = asyncio.get_running_loop().run_in_executor(
                self._threads, (hashed or self._nobody).matches, password
            )
            self._running[asked] = running
            running.add_done_callback(lambda _: self._running.pop(asked, None))
        # Whoever asked first may leave; the others still wait for the same answer.
        right = await asyncio.shield(running)
        if not right or hashed is None or self._users.get(name) is not hashed:
            return Verdict.WRONG
        self._good[name] = digest
        return Verdict.WELCOME

    def reload_if_changed(self) -> bool:
        """Read the file again if it has changed. If it cannot be read, the error is told once and the users stay."""
        seen = stamp(self.path)
        if seen == self._stamp:
            return False
        self._stamp = seen
        before, fresh = self._users, read_users(self.path)
        # A line that is as it was stays the same object: who is waiting for an answer about it gets it.
        self._users = {name: old if (old := before.get(name)) == new else new for name, new in fresh.items()}
        self._good = {name: digest for name, digest in self._good.items() if before[name] == fresh.get(name)}
        self._nobody = stranger(fresh)
        return True

    def __contains__(self, name: str) -> bool:
        return name in self._users

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
