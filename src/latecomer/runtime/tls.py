"""TLS contexts for listeners and links; whatever is wrong with a file is one sentence that names the key.

Nothing here falls back: a certificate, key or authority that was named and cannot be used keeps the broker from
starting, because a broker that starts without it would be open to those it was to keep out.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from latecomer.model.errors import SettingsError
from latecomer.runtime.settings import LinkSection, Listener

_OTHERS = 0o007


class LinkTls(msgspec.Struct, frozen=True):
    """The two sides of mutual TLS between brokers."""

    accepting: ssl.SSLContext
    calling: ssl.SSLContext


def listener_context(listener: Listener, key: str = "listeners") -> ssl.SSLContext:
    """What an encrypted listener of `Settings.listening()` needs; `key` is where errors say it stands."""
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    if listener.certificate is None:
        raise SettingsError(f"{key}.certificate", f"a {listener.kind} listener needs one: set it here or in [tls]")
    if listener.key is None:
        raise SettingsError(f"{key}.key", f"a {listener.kind} listener needs one: set it here or in [tls]")
    _load_chain(context, listener.certificate, listener.key, key)
    if listener.client_ca is not None:
        _load_authorities(context, listener.client_ca, f"{key}.client_ca")
        context.verify_mode = ssl.CERT_REQUIRED if listener.require_client_certificate else ssl.CERT_OPTIONAL
    elif listener.require_client_certificate:
        raise SettingsError(f"{key}.client_ca", "is needed to tell which client certificates are good")
    return context


def link_tls(link: LinkSection) -> LinkTls | None:
    """Contexts for links, or None if no certificate is set. Who the peer is, is asked with `peer_names`."""
    given = {name: getattr(link, name) for name in ("certificate", "key", "ca")}
    missing = [name for name, path in given.items() if path is None]
    if len(missing) == len(given):
        return None
    if missing:
        raise SettingsError(f"link.{missing[0]}", "is missing: certificates on links need certificate, key and ca")
    contexts = []
    for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        context = _context(protocol)
        context.check_hostname = False  # a broker is known by its id, wherever it runs: see peer_names
        context.verify_mode = ssl.CERT_REQUIRED
        _load_chain(context, given["certificate"], given["key"], "link")
        _load_authorities(context, given["ca"], "link.ca")
        contexts.append(context)
    return LinkTls(*contexts)


def peer_names(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The names in a verified certificate, as `SSLObject.getpeercert()` gives it: common name, then DNS names.

    On a link the peer's broker id must be one of them; a client without user name is called by the first.
    """
    if not certificate:
        return ()
    common = [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]
    alternative = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
    return tuple(dict.fromkeys(common + alternative))


def common_name(certificate: Mapping[str, Any] | None) -> str | None:
    """The user whom a verified client certificate names; None if it has not exactly one common name."""
    if not certificate:
        return None
    common = [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]
    return common[0] if len(common) == 1 and common[0] else None


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    return context


def _load_chain(context: ssl.SSLContext, certificate: Path, key: Path, section: str) -> None:
    _readable(certificate, f"{section}.certificate")
    _readable(key, f"{section}.key")
    if key.stat().st_mode & _OTHERS:
        raise SettingsError(f"{section}.key", f"{str(key)!r} can be read by every user; run: chmod 600 {key}")
    try:
        context.load_cert_chain(certificate, key, password=_no_passphrase)
    except _Locked:
        raise SettingsError(f"{section}.key", f"{str(key)!r} has a passphrase; store it without one") from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"{str(key)!r} is not the key of {str(certificate)!r}"
            raise SettingsError(f"{section}.key", problem) from None
        culprit, path = _not_pem(certificate, key)
        raise SettingsError(f"{section}.{culprit}", f"{str(path)!r} is not a PEM {culprit} that can be used") from None


def _not_pem(certificate: Path, key: Path) -> tuple[str, Path]:
    """Which of the two is to blame when OpenSSL does not say."""
    if b"-----BEGIN CERTIFICATE-----" not in certificate.read_bytes():
        return "certificate", certificate
    if b"PRIVATE KEY-----" not in key.read_bytes():
        return "key", key
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(certificate)
    except ssl.SSLError:
        return "certificate", certificate
    return "key", key


def _load_authorities(context: ssl.SSLContext, path: Path, key: str) -> None:
    _readable(path, key)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise SettingsError(key, f"{str(path)!r} does not hold PEM certificates") from None
    if not context.cert_store_stats()["x509_ca"]:
        raise SettingsError(key, f"{str(path)!r} holds no certificate of an authority")


def _readable(path: Path, key: str) -> None:
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise SettingsError(key, f"{str(path)!r} cannot be read: {error.strerror}") from None


class _Locked(Exception):
    pass


def _no_passphrase() -> str:
    """Without this OpenSSL would ask at the terminal, which nobody may be watching."""
    raise _Locked
