"""`latecomer stores`: who keeps what, how much of it, and for whom."""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.model.ids import BrokerId
from latecomer.runtime.amounts import show_size
from latecomer.runtime.network_file import read_network
from latecomer.runtime.private_files import read_secret
from latecomer.runtime.security import TOKEN_FILE
from latecomer.runtime.settings import Settings, load
from latecomer.runtime.store_views import OtherStoreView, StoresView, StoreView
from latecomer.sim.transcript import plain

ANSWER_SECONDS = 5.0
ANSWER_BYTES = 16 * 1024 * 1024
ADMIN = "http://127.0.0.1:1888"
COLUMNS = ("store", "topics", "events", "size", "oldest", "newest", "complete since", "served", "mean hops")
WIDE = 200
"""Columns of a table that nobody looks at on a terminal."""


class Door(msgspec.Struct, frozen=True):
    """Where a broker's admin interface is, and what opens it."""

    url: str
    token: str


def stores(
    network: Annotated[
        Path, typer.Option(metavar="DIR", help="The data folder of 'latecomer up', or of one broker.")
    ] = Path("latecomer-data"),
    config: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="The settings of a broker instead; may be repeated.")
    ] = None,
    admin: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="An admin interface instead; may be repeated.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What opens it.", show_default="admin-token in DIR")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything that the brokers say, as JSON.")] = False,
) -> None:
    """Show who keeps the history of which topics, how complete it is, and who asked for it."""
    doors = found_doors(network, config or [], admin or [], token_file)
    answers: list[StoresView] = []
    silent: list[str] = []
    for door in doors:
        try:
            answers.append(ask(door))
        except LatecomerError as error:
            silent.append(str(error))
    if not answers:
        raise LatecomerError("; ".join(silent[:3]) + (f"; and {len(silent) - 3} more" if silent[3:] else ""))
    if as_json:
        typer.echo(json.dumps([msgspec.to_builtins(answer) for answer in answers], ensure_ascii=False, indent=2))
    else:
        show(answers, time.time_ns() // 1000)
    for sentence in silent:
        typer.echo(f"latecomer: {plain(sentence)}", err=True)


# -- whom to ask


def found_doors(network: Path, configs: Sequence[Path], urls: Sequence[str], token_file: Path | None) -> list[Door]:
    """The admin interfaces that are meant."""
    if urls:
        token = read_secret(token_file or network / TOKEN_FILE, "--token-file")
        return [Door(_checked(url), token) for url in urls]
    if token_file is not None:
        raise SettingsError("--token-file", "needs --admin")
    if configs:
        return [door_of(load(config, checked=False), config) for config in configs]
    if (network / "network.toml").exists():
        seats = read_network(network / "network.toml").brokers
        files = [network / seat.id / "settings.toml" for seat in seats]
        return [door_of(load(file, checked=False), file) for file in files]
    if (network / TOKEN_FILE).exists():
        return [Door(ADMIN, read_secret(network / TOKEN_FILE, "--network"))]
    raise SettingsError(
        "--network",
        f"{network} is not the data folder of a broker or of 'latecomer up'; name it, or --config, or --admin",
    )


def door_of(settings: Settings, source: Path) -> Door:
    """The admin interface that a broker with these settings has."""
    admin = settings.admin
    if not admin.enabled or not admin.port:
        raise SettingsError("admin.port", "has no fixed number; name the address with --admin", source=str(source))
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(admin.host, admin.host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{admin.port}"
    if admin.token is not None:
        return Door(url, admin.token)
    return Door(url, read_secret(admin.token_file or settings.broker.data / TOKEN_FILE, "admin.token_file"))


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise SettingsError("--admin", f"{url!r} is not an address as in {ADMIN}")
    return url.rstrip("/")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token is for this address, and for no other that it may name."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def ask(door: Door) -> StoresView:
    """What one broker says."""
    request = urllib.request.Request(f"{door.url}/api/v1/stores", headers={"Authorization": f"Bearer {door.token}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
    try:
        with opener.open(request, timeout=ANSWER_SECONDS) as answer:
            return msgspec.json.decode(answer.read(ANSWER_BYTES), type=StoresView)
    except urllib.error.HTTPError as error:
        with error:
            why = {401: "the token is not the right one", 404: "it knows no stores"}.get(error.code, f"{error.code}")
        raise LatecomerError(f"the broker at {door.url} refuses to tell: {why}") from None
    except (OSError, ValueError) as error:
        raise LatecomerError(f"no broker answers at {door.url}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", None) or inner).lower()


# -- what they said


def show(answers: Sequence[StoresView], now_us: int) -> None:
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDE)
    rows = list(rows_of(answers, now_us))
    if not rows:
        console.print("no broker keeps any history; start one with --store 'sensors/#'")
        return
    table = Table(box=SIMPLE_HEAD)
    for column in COLUMNS:
        words = column in ("store", "topics")
        table.add_column(column, justify="left" if words else "right", overflow="fold", no_wrap=not words)
    for row in rows:
        table.add_row(*map(plain, row))
    console.print(table)
    for sentence in remarks(answers):
        console.print(plain(sentence), soft_wrap=True)


def rows_of(answers: Sequence[StoresView], now_us: int) -> Iterator[tuple[str, ...]]:
    """One for each store; of those that were not asked, or did not answer, what the others know."""
    own = {answer.broker: answer.store for answer in answers if answer.store is not None}
    others = _others(answers)
    for broker in sorted({*own, *others}):
        store = own.get(broker)
        yield _row(broker, store, now_us) if store is not None else _rumour(others[broker], now_us)


def remarks(answers: Sequence[StoresView]) -> Iterator[str]:
    """What is not as it should be, one sentence each."""
    for answer in answers:
        store = answer.store
        if store is not None and store.problem:
            yield f"{answer.broker}: {store.problem}"
        if store is not None and store.filling:
            yield f"{answer.broker}: it is filled from other stores, and does not answer before it has what they have"
    for broker in sorted(_others(answers)):
        yield f"{broker}: it was not asked, or did not answer; this is what the others know of it"


def _others(answers: Sequence[StoresView]) -> dict[BrokerId, OtherStoreView]:
    asked = [answer.broker for answer in answers]
    return {other.broker: other for answer in answers for other in answer.others if other.broker not in asked}


def _row(broker: BrokerId, store: StoreView, now_us: int) -> tuple[str, ...]:
    topics = " ".join(each.topics for each in store.classes)
    size = show_size(store.bytes) + (f" + {show_size(store.cold_bytes)} cold" if store.cold_events else "")
    since = age(store.complete_since_us, now_us) or "incomplete"
    hops = f"{store.hops_mean:.2f}" if store.requests_served else ""
    oldest, newest = age(store.oldest_us, now_us), age(store.newest_us, now_us)
    count = str(store.events + store.cold_events)
    return broker, topics, count, size, oldest, newest, since, str(store.requests_served), hops


def _rumour(other: OtherStoreView, now_us: int) -> tuple[str, ...]:
    since = age(other.complete_since_us, now_us) or "incomplete"
    return other.broker, " ".join(other.topics), "?", "?", "?", "?", since, "?", "?"


def age(us: int, now_us: int) -> str:
    """How long ago that was, to two places or so; empty: there is no such instant."""
    if not us:
        return ""
    seconds = max(0, now_us - us) / 1e6
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
