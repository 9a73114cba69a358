"""The admin interfaces of brokers: where they are, what opens them, and how they are asked."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from latecomer.model.errors import LatecomerError, SettingsError
from latecomer.runtime.network_file import read_network
from latecomer.runtime.private_files import read_secret, read_text
from latecomer.runtime.security import ADDRESS_FILE, TOKEN_FILE
from latecomer.runtime.settings import Settings, http_address, load
from latecomer.runtime.store_views import StoresView

ANSWER_SECONDS = 5.0
ANSWER_BYTES = 16 * 1024 * 1024
ADMIN = "http://127.0.0.1:3883"
NETWORK_FILE = "network.toml"

T = TypeVar("T")


class Door(msgspec.Struct, frozen=True):
    """Where a broker's admin interface is, and what opens it."""

    url: str
    token: str


class Refused(LatecomerError):
    """A broker has answered, and says no."""


class Unknown(Refused):
    """A broker has answered, and does not know this client."""


class Silent(LatecomerError):
    """No broker has answered."""


def found_doors(network: Path, configs: Sequence[Path], urls: Sequence[str], token_file: Path | None) -> list[Door]:
    """The admin interfaces that are meant."""
    if urls:
        token = read_secret(token_file or network / TOKEN_FILE, "--token-file")
        return [Door(checked(url, "--admin"), token) for url in urls]
    if token_file is not None:
        raise SettingsError("--token-file", "needs --admin")
    if configs:
        return [door_of(load(config, checked=False), config) for config in configs]
    if (network / NETWORK_FILE).exists():
        seats = read_network(network / NETWORK_FILE).brokers
        files = [network / seat.id / "settings.toml" for seat in seats]
        return [door_of(load(file, checked=False), file) for file in files]
    if (network / ADDRESS_FILE).exists():
        return [door_in(network)]
    raise SettingsError(
        "--network",
        f"{network} is not the data folder of a broker or of 'latecomer up'; name it, or --config, or --admin",
    )


def door_in(folder: Path) -> Door:
    """The admin interface of the broker with this data folder, as it wrote it down when it last started."""
    address = read_text(folder / ADDRESS_FILE, "--network", bytes_max=1024).strip()
    if not (folder / TOKEN_FILE).exists():
        raise SettingsError(
            "--network", f"{folder} has no {TOKEN_FILE}: name the settings of the broker with --config, or --token-file"
        )
    return Door(checked(address, "--network"), read_secret(folder / TOKEN_FILE, "--network"))


def door_of(settings: Settings, source: Path) -> Door:
    """The admin interface that a broker with these settings has."""
    admin = settings.admin
    if not admin.enabled:
        raise SettingsError("admin.enabled", "is false: this broker cannot be asked", source=str(source))
    written = settings.broker.data / ADDRESS_FILE
    if settings.admin_port:
        url = http_address(admin.host, settings.admin_port)
    elif written.exists():
        url = checked(read_text(written, "broker.data", bytes_max=1024).strip(), "broker.data")
    else:
        raise SettingsError("admin.port", "is 0 and the broker has not run yet; start it", source=str(source))
    if admin.token is not None:
        return Door(url, admin.token)
    return Door(url, read_secret(admin.token_file or settings.broker.data / TOKEN_FILE, "admin.token_file"))


def checked(url: str, key: str) -> str:
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise SettingsError(key, f"{url!r} is not an address as in {ADMIN}")
    return url.rstrip("/")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The token is for this address, and for no other that it may name."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def ask(door: Door) -> StoresView:
    """What one broker says about stores."""
    return call(door, "stores", StoresView)


def call(
    door: Door,
    path: str,
    kind: type[T],
    query: Mapping[str, str | Sequence[str]] | None = None,
    body: Mapping[str, Any] | None = None,
    seconds: float = ANSWER_SECONDS,
    method: str | None = None,
    data: bytes | None = None,
) -> T:
    """Ask a broker something, or tell it to do something (`body`); or send it a file (`data`)."""
    headers = {"Authorization": f"Bearer {door.token}"}
    if body is not None:
        headers["Content-Type"] = "application/json"
        data = msgspec.json.encode(body)
    elif data is not None:
        headers["Content-Type"] = "application/octet-stream"
    address = f"{door.url}/api/v1/{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
    request = urllib.request.Request(address, data, headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
    try:
        with opener.open(request, timeout=seconds) as answer:
            return msgspec.json.decode(answer.read(ANSWER_BYTES), type=kind)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 503:
                raise Silent(f"the broker at {door.url} cannot: {_why(error, path)}") from None
            if error.code == 404 and (problem := _told(error)).startswith("no client"):
                raise Unknown(problem) from None
            raise Refused(f"the broker at {door.url} refuses: {_why(error, path)}") from None
    except (OSError, ValueError) as error:
        raise Silent(f"no broker answers at {door.url}: {_reason(error)}") from None


class _Problem(msgspec.Struct, frozen=True):
    problem: str


def _why(error: urllib.error.HTTPError, path: str) -> str:
    if error.code == 401:
        return "the token is not the right one"
    if error.code == 404:
        return f"it knows no {path}; is it of an older version?"
    return _told(error) or f"{error.code}"


def _told(error: urllib.error.HTTPError) -> str:
    try:
        return msgspec.json.decode(error.read(ANSWER_BYTES), type=_Problem).problem
    except (OSError, ValueError):
        return ""


def _reason(error: Exception) -> str:
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", None) or inner).lower()
