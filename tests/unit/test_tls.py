"""TLS contexts, with certificates made for the test."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from latecomer.model.errors import SettingsError
from latecomer.runtime.settings import LinkSection, Listener, Settings, loads
from latecomer.runtime.tls import LinkTls, common_name, link_tls, listener_context, peer_names


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.touch(mode=0o600)
    path.write_bytes(data)
    return path


class Files:
    """A certificate with its key and authority, as files."""

    def __init__(self, folder: Path, authority: trustme.CA, *names: str, common: str | None = None) -> None:
        issued = authority.issue_cert(*names, common_name=common)
        stem = (names or (common or "",))[0]
        chain = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
        self.certificate = put(folder, f"{stem}.pem", chain)
        self.key = put(folder, f"{stem}.key", issued.private_key_pem.bytes())
        self.ca = put(folder, "ca.pem", authority.cert_pem.bytes())

    def listener(self, **changed: object) -> Listener:
        fields = {"kind": "tls", "certificate": self.certificate, "key": self.key, **changed}
        return Listener(**fields)  # type: ignore[arg-type]

    def link(self, **changed: object) -> LinkSection:
        fields = {"certificate": self.certificate, "key": self.key, "ca": self.ca, **changed}
        return LinkSection(**fields)  # type: ignore[arg-type]


@pytest.fixture
def files(tmp_path: Path, authority: trustme.CA) -> Files:
    return Files(tmp_path, authority, "broker.example")


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """A TLS handshake in memory; raises what either end raises."""
    pipes = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = server.wrap_bio(pipes[0], pipes[1], server_side=True)
    here = client.wrap_bio(pipes[1], pipes[0], server_hostname="broker.example")
    finished = [False, False]
    for _ in range(10):
        for which, end in enumerate((here, there)):
            try:
                end.do_handshake()
                finished[which] = True
            except ssl.SSLWantReadError:
                pass
    assert all(finished)
    return there, here


def client_of(authority: trustme.CA, files: Files | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
    return context


# -- listeners


def test_a_client_that_trusts_the_authority_gets_in(files: Files, authority: trustme.CA) -> None:
    context = listener_context(files.listener())
    there, _ = shake_hands(context, client_of(authority))
    assert there.version() in ("TLSv1.2", "TLSv1.3")
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert peer_names(there.getpeercert()) == ()


def test_two_lines_are_enough(files: Files) -> None:
    settings = loads(f'[tls]\ncertificate = "{files.certificate}"\nkey = "{files.key}"')
    assert settings.listening() == (files.listener(port=8883),)


def test_a_listener_may_have_its_own(files: Files) -> None:
    tls = f'[tls]\ncertificate = "{files.certificate}"\nkey = "{files.key}"\n'
    both = loads(tls + '[[listeners]]\n[[listeners]]\nkind = "wss"').listening()
    assert [(each.kind, each.certificate) for each in both] == [("tcp", None), ("wss", files.certificate)]
    own = f'[[listeners]]\nkind = "tls"\ncertificate = "{files.certificate}"\nkey = "{files.key}"'
    assert loads(own).listening() == (files.listener(port=8883),)


def test_client_certificates(files: Files, authority: trustme.CA, tmp_path: Path) -> None:
    device = Files(tmp_path, authority, "device.example", common="device-7")
    optional = listener_context(files.listener(client_ca=files.ca))
    there, _ = shake_hands(optional, client_of(authority))
    assert common_name(there.getpeercert()) is None
    there, _ = shake_hands(optional, client_of(authority, device))
    assert common_name(there.getpeercert()) == "device-7"
    required = listener_context(files.listener(client_ca=files.ca, require_client_certificate=True))
    with pytest.raises(ssl.SSLError):
        shake_hands(required, client_of(authority))


def test_strangers_certificates_are_refused(files: Files, authority: trustme.CA, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    stranger = Files(tmp_path / "other", trustme.CA(), "device.example", common="device-7")
    with pytest.raises(ssl.SSLError):
        shake_hands(listener_context(files.listener(client_ca=files.ca)), client_of(authority, stranger))


# -- links


def test_both_ends_of_a_link_show_who_they_are(authority: trustme.CA, tmp_path: Path) -> None:
    one, two = Files(tmp_path, authority, "b1"), Files(tmp_path, authority, "host.example", common="broker two")
    server, client = link_tls(one.link()), link_tls(two.link())
    assert isinstance(server, LinkTls)
    assert isinstance(client, LinkTls)
    there, here = shake_hands(server.accepting, client.calling)
    assert peer_names(here.getpeercert()) == ("b1",)
    assert peer_names(there.getpeercert()) == ("broker two", "host.example")


def test_a_link_without_a_certificate_is_refused(files: Files, authority: trustme.CA) -> None:
    server = link_tls(files.link())
    assert server is not None
    with pytest.raises(ssl.SSLError):
        shake_hands(server.accepting, client_of(authority))


def test_without_certificates_links_have_no_tls() -> None:
    assert link_tls(Settings().link) is None


# -- files that cannot be used


def test_what_is_missing(files: Files) -> None:
    for changed, key in (
        ({"certificate": None}, "x.certificate"),
        ({"key": None}, "x.key"),
        ({"require_client_certificate": True}, "x.client_ca"),
    ):
        with pytest.raises(SettingsError) as caught:
            listener_context(files.listener(**changed), "x")
        assert caught.value.key == key
    for name in ("certificate", "key", "ca"):
        with pytest.raises(SettingsError) as caught:
            link_tls(files.link(**{name: None}))
        assert str(caught.value).startswith(f"link.{name}: is missing")


def test_what_cannot_be_used(files: Files, authority: trustme.CA, tmp_path: Path) -> None:
    other = Files(tmp_path, authority, "other.example")
    key = load_pem_private_key(files.key.read_bytes(), None)
    sealed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    locked = put(tmp_path, "locked.key", sealed)
    broken = put(tmp_path, "broken.pem", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    nonsense = put(tmp_path, "nonsense", b"nonsense")
    bare = put(tmp_path, "bare.pem", files.certificate.read_bytes().partition(b"-----END")[0])
    for changed, problem in (
        ({"certificate": tmp_path / "absent"}, "link.certificate: .* cannot be read: No such file"),
        ({"key": tmp_path / "absent"}, "link.key: .* cannot be read: No such file"),
        ({"ca": tmp_path / "absent"}, "link.ca: .* cannot be read: No such file"),
        ({"key": other.key}, "link.key: .*other.example.key' is not the key of '.*broker.example.pem'"),
        ({"key": locked}, "link.key: .* has a passphrase"),
        ({"key": nonsense}, "link.key: .* is not a PEM key"),
        ({"certificate": nonsense}, "link.certificate: .* is not a PEM certificate"),
        ({"certificate": broken}, "link.certificate: .* is not a PEM certificate"),
        ({"certificate": bare}, "link.certificate: .* is not a PEM certificate"),
        ({"ca": nonsense}, "link.ca: .* does not hold PEM certificates"),
        ({"ca": files.certificate}, "link.ca: .* holds no certificate of an authority"),
    ):
        with pytest.raises(SettingsError, match=problem):
            link_tls(files.link(**changed))


def test_a_key_that_everybody_can_read_is_refused(files: Files) -> None:
    files.key.chmod(0o640)  # a group for services that need the key
    listener_context(files.listener())
    files.key.chmod(0o644)
    with pytest.raises(SettingsError, match=r"can be read by every user; run: chmod 600"):
        listener_context(files.listener())


def test_a_wrong_authority_keeps_the_broker_from_starting(files: Files, tmp_path: Path) -> None:
    nonsense = put(tmp_path, "nonsense", b"nonsense")
    text = f'[tls]\ncertificate = "{files.certificate}"\nkey = "{files.key}"\nclient_ca = "{nonsense}"'
    with pytest.raises(SettingsError, match=r"^f:4: tls\.client_ca: .* does not hold PEM certificates"):
        loads(text, "f")


def test_names_of_no_certificate() -> None:
    assert peer_names(None) == ()
    assert common_name({}) is None
    twice = {"subject": ((("commonName", "a"),), (("commonName", "b"),))}
    assert common_name(twice) is None
