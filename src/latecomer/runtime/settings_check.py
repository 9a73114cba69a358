"""What settings mean together: ports that clash, files that cannot be used, doors that stand open or lead nowhere.

A key in an error may say which of several tables is meant, as `listeners[1].port`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from latecomer.client.addresses import parse_references
from latecomer.history.owned import OTHERS
from latecomer.model.errors import FilterError, SettingsError
from latecomer.model.topics import check_filter
from latecomer.model.topology import quoted
from latecomer.runtime.addresses import EVERYWHERE
from latecomer.runtime.amounts import duration_us, size_bytes
from latecomer.runtime.link_challenge import NAME_BYTES_MAX
from latecomer.runtime.predicting import load_model
from latecomer.runtime.security import link_secret, load_rules
from latecomer.runtime.settings import ELSEWHERE, Listener, Settings, is_loopback
from latecomer.runtime.settings_section import Section
from latecomer.runtime.tls import link_tls, listener_context
from latecomer.runtime.users import read_users

STORE_MIN = 1_000_000
"""Bytes of the smallest store: less is a slip of the pen."""


def check(settings: Settings) -> None:
    """Raise a `SettingsError` about the first thing that cannot work. Reads the files that are named."""
    _names(settings)
    _ports(settings)
    for position, listener in enumerate(settings.listening()):
        _listener(settings, position, listener)
    _doors(settings)
    _links(settings)
    _core(settings)
    _store(settings)
    if settings.hand_over.model is not None:
        load_model(settings.hand_over.model)
    if settings.link.reconnect_max_s < settings.link.reconnect_min_s:
        raise SettingsError("link.reconnect_max_s", "must not be shorter than link.reconnect_min_s")
    if settings.admin.enabled and not settings.admin.hosts:
        raise SettingsError("admin.hosts", "must not be empty: no request could be answered")
    load_rules(settings.access.rules_file)


def warnings(settings: Settings) -> list[str]:
    """What works and is worth a thought, one sentence each."""
    found = []
    beyond = [each for each in settings.listening() if not is_loopback(each.host)]
    if settings.access.users_file and any(not each.encrypted for each in beyond):
        found.append("passwords travel in the clear on a listener without TLS that others can reach")
    if settings.access.anonymous == "allow" and beyond:
        found.append("anybody who reaches this broker may use it: access.anonymous is 'allow'")
    link = settings.link
    hosts = [link.host, *(each.host for each in link.neighbours if each.host)]
    if link.neighbours and link.certificate is None and not all(is_loopback(host) for host in hosts):
        found.append("links without certificates are not encrypted, and whoever is on the way can read and change them")
    if settings.admin.enabled and not is_loopback(settings.admin.host):
        found.append("the admin interface can be reached by others, and its token travels in the clear")
    return found


def different(one: Section, other: Section, before: str = "") -> list[str]:
    """The keys whose values differ, as `limits.connections`."""
    found = []
    for name in one.__struct_fields__:
        mine, theirs = getattr(one, name), getattr(other, name)
        if isinstance(mine, Section):
            found += different(mine, theirs, f"{before}{name}.")
        elif mine != theirs:
            found.append(f"{before}{name}")
    return found


def check_secrets(settings: Settings, path: Path) -> None:
    """A file with a secret in it must not be for everybody to read, as a file with nothing else in it."""
    for key, secret in (("link.secret", settings.link.secret), ("admin.token", settings.admin.token)):
        if secret is not None and path.stat().st_mode & OTHERS:
            problem = (
                f"other users can read {str(path)!r}; run: chmod 600 {path}, or put the secret into a file of its own"
            )
            raise SettingsError(key, problem, source=str(path))


def _names(settings: Settings) -> None:
    for key, name in (("broker.id", settings.broker.id), ("broker.network", settings.broker.network)):
        _name(key, name)
    seen = {settings.broker.id: "this broker itself"}
    for position, neighbour in enumerate(settings.link.neighbours):
        key = f"link.neighbours[{position}].id"
        _name(key, neighbour.id)
        if neighbour.id in seen:
            raise SettingsError(key, f"{quoted(neighbour.id)} is {seen[neighbour.id]}; every neighbour has its own id")
        seen[neighbour.id] = "named twice"


def _name(key: str, name: str) -> None:
    if len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise SettingsError(key, f"must have at most {NAME_BYTES_MAX} bytes")
    if not name.isprintable():
        raise SettingsError(key, "must be printable characters only")


def _ports(settings: Settings) -> None:
    taken: list[tuple[str, str, int]] = []
    for key, host, port in _listening(settings):
        if port == 0:
            continue
        for other, there, number in taken:
            if number == port and (there == host or there in EVERYWHERE or host in EVERYWHERE):
                raise SettingsError(key, f"{port} is already the port of {other.partition('[')[0]}; choose another")
        taken.append((key, host, port))


def _listening(settings: Settings) -> Iterator[tuple[str, str, int]]:
    for position, listener in enumerate(settings.listening()):
        yield f"listeners[{position}].port", listener.host, listener.number
    if settings.link.number is not None:
        yield "link.port", settings.link.host, settings.link.number
    if settings.admin.enabled:
        yield "admin.port", settings.admin.host, settings.admin_port


def _listener(settings: Settings, position: int, listener: Listener) -> None:
    key = f"listeners[{position}]"
    if listener.public_address is not None and len(parse_references(listener.public_address, listener.number)) != 1:
        problem = f"{quoted(listener.public_address)} is no address; write HOST or HOST:PORT, and [::1]:1883 for IPv6"
        raise SettingsError(f"{key}.public_address", problem)
    if not listener.path.startswith("/"):
        raise SettingsError(f"{key}.path", "must begin with '/'")
    if listener.encrypted:
        own = settings.listeners and settings.listeners[position].certificate is not None
        listener_context(listener, key if own or not settings.tls.certificate else "tls")
    elif settings.listeners[position:]:
        for name in ("certificate", "key", "client_ca", "require_client_certificate"):
            if getattr(settings.listeners[position], name):
                wanted = "tls" if listener.kind == "tcp" else "wss"
                raise SettingsError(f"{key}.{name}", f"is for encrypted listeners; set kind = {wanted!r}")


def _doors(settings: Settings) -> None:
    """Every listener must let somebody in, and strangers only where the operator said so."""
    access = settings.access
    if access.users_file is not None:
        read_users(access.users_file)
        return
    if access.anonymous == "allow":
        return
    for position, listener in enumerate(settings.listening()):
        if listener.encrypted and listener.client_ca is not None:
            continue
        if access.anonymous == "deny":
            raise SettingsError("access.anonymous", "'deny' lets nobody in; set access.users_file")
        if not is_loopback(listener.host):
            raise SettingsError(
                f"listeners[{position}].host",
                f"{listener.host!r} is for clients from elsewhere, and none of them would be let in; "
                "set access.users_file, or access.anonymous = 'allow'",
            )


def _links(settings: Settings) -> None:
    link = settings.link
    secret, tls = link_secret(link), link_tls(link)
    if link.insecure and (secret is not None or tls is not None):
        raise SettingsError("link.insecure", "is not needed with a secret or certificates; remove it")
    if link.number is None or secret is not None or tls is not None:
        return
    if not link.insecure:
        raise SettingsError(
            "link.secret_file", "is missing: set it, or link.certificate, link.key and link.ca, to know neighbours by"
        )
    hosts = {"link.host": link.host}
    hosts |= {f"link.neighbours[{i}].host": each.host for i, each in enumerate(link.neighbours) if each.host}
    for key, host in hosts.items():
        if not is_loopback(host):
            raise SettingsError(key, f"{host!r} is not a loopback address, and link.insecure allows no other")


def _core(settings: Settings) -> None:
    try:
        settings.core_settings().check()
    except SettingsError as error:
        name = error.key.removeprefix("settings.")
        problem = error.problem
        for field, place in ELSEWHERE.items():
            problem = problem.replace(f"settings.{field}", place)
        elsewhere = name if "." in name else f"core.{name}"
        raise SettingsError(ELSEWHERE.get(name, elsewhere), problem.replace("settings.", "core.")) from None
    if settings.core.event_max < settings.limits.packet_bytes:
        raise SettingsError("limits.packet_bytes", "must not be larger than core.event_max: a packet becomes one event")


def check_store_topics(topics: Sequence[str], key: str) -> None:
    """Whether a store can keep these topic filters; `key` is where they stand."""
    seen: dict[str, None] = {}
    for position, name in enumerate(topics):
        place = f"{key}[{position}]"
        try:
            check_filter(name)
        except FilterError as error:
            raise SettingsError(place, error.problem) from None
        if name[0] == "$":
            raise SettingsError(place, f"{quoted(name)}: what begins with '$' is not published, and cannot be kept")
        if name in seen:
            raise SettingsError(place, f"{quoted(name)} is named twice")
        seen[name] = None


def _store(settings: Settings) -> None:
    store = settings.store
    check_store_topics(store.topics, "store.topics")
    amounts: dict[str, tuple[str | float | None, Callable[[str | float], int]]] = {
        "keep": (store.keep, duration_us),
        "hot": (store.hot, duration_us),
        "capacity": (store.capacity, size_bytes),
        "reserve": (store.reserve, size_bytes),
    }
    for name, (written, read) in amounts.items():
        try:
            if written is not None:
                read(written)
        except ValueError as error:
            raise SettingsError(f"store.{name}", str(error)) from None
    if 0 < store.capacity_bytes < STORE_MIN:
        raise SettingsError("store.capacity", f"must be at least {STORE_MIN} bytes, or 0 for no limit")
    if store.cold is not None and not store.cold:
        raise SettingsError("store.cold", "must not be empty; leave it out if nothing is to move")
    if store.cold is not None and not store.hot_us:
        raise SettingsError("store.hot", "must be more than 0: what is new is kept here first")
