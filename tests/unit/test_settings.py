"""The settings file: what is wrong with it is one sentence with key and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.core.settings import BrokerSettings
from latecomer.model.errors import SettingsError
from latecomer.model.toml_text import SIZE_MAX
from latecomer.runtime.amounts import show_size
from latecomer.runtime.settings import ELSEWHERE, Listener, Settings, is_loopback, load, loads
from latecomer.runtime.settings_check import warnings

SECRET = "0123456789abcdef"


def test_without_a_file_everything_has_a_value_that_works() -> None:
    settings = load()
    assert settings == Settings()
    assert settings.listening() == (Listener(kind="tcp", host="127.0.0.1", port=1883),)
    assert settings.core_settings() == BrokerSettings()
    assert settings.link.number is None
    assert settings.events == Path("latecomer-data/events")
    assert warnings(settings) == []


def test_everything_comes_from_one_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        f"""
[broker]
id = "b1"
network = "shop"
data = "data"
[[listeners]]
kind = "ws"
[[listeners]]
port = 0
[link]
secret = "{SECRET}"
hold_s = 3
[[link.neighbours]]
id = "b2"
host = "127.0.0.1"
port = 1994
[limits]
queue_messages = 7
[core]
settle_us = 1000
routing = {{ kind = "hierarchy", root = "b1" }}
""",
        encoding="utf-8",
    )
    file.chmod(0o600)
    settings = load(file)
    assert settings.broker.data == tmp_path / "data"
    assert [(each.kind, each.port) for each in settings.listening()] == [("ws", 8083), ("tcp", 0)]
    assert settings.link.number == 1884
    assert settings.neighbours() == {"b2": 1000}
    core = settings.core_settings()
    assert (core.network, core.hold_us, core.mailbox_max, core.settle_us) == ("shop", 3_000_000, 7, 1000)
    assert str(core.routing) == "hierarchy, covering, no advertisements, root b1"


def test_what_the_core_is_told_under_other_names() -> None:
    assert set(ELSEWHERE) <= set(BrokerSettings.__struct_fields__)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = 1", "f:1: x: a settings file has no such key; known are broker,"),
        ("[broker]\nidd = 1", "f:2: broker.idd: [broker] has no such key; did you mean 'id'?"),
        ('[broker]\nid = ""', "f:2: broker.id: must not be empty"),
        ('[broker]\nid = "a\\u0007"', "f:2: broker.id: must be printable characters only"),
        (f'[broker]\nnetwork = "{"ä" * 128}"', "f:2: broker.network: must have at most 255 bytes"),
        ('[broker]\ndurability = "safe"', "f:2: broker.durability: there is no durability 'safe'; known are power,"),
        ("[broker]\ndata = 3", "f:2: broker.data: must be text"),
        ("[limits]\nconnections = 0", "f:2: limits.connections: must be at least 1, not 0"),
        ("[limits]\nconnections = 1.5", "f:2: limits.connections: must be a whole number, not a number"),
        ("[limits]\nconnect_s = 0", "f:2: limits.connect_s: must be more than 0, not 0"),
        ("[limits]\nconnect_s = nan", "f:2: limits.connect_s: must be a number that can be counted to"),
        ("[limits]\nconnect_s = inf", "f:2: limits.connect_s: must be a number that can be counted to"),
        ("[limits]\nqueue_bytes = 9223372036854775808", "f:2: limits.queue_bytes: the number does not fit"),
        ("[limits]\npacket_bytes = 2000000", "f:2: limits.packet_bytes: must not be larger than core.event_max"),
        ("[[listeners]]\nport = 70000", "f:2: listeners.port: must be at most 65535, not 70000"),
        ('[[listeners]]\npath = "mqtt"', "f:2: listeners.path: must begin with '/'"),
        ('[[listeners]]\npublic_address = "a b"', "f:2: listeners.public_address: 'a b' is no address; write HOST"),
        ('[[listeners]]\npublic_address = "a:0"', "f:2: listeners.public_address: 'a:0' is no address; write HOST"),
        ("[[listeners]]\n[[listeners]]\n", "f:2: listeners.port: 1883 is already the port of listeners"),
        ('[[listeners]]\n[[listeners]]\nhost = "::"', "f:2: listeners.port: 1883 is already"),
        ("[admin]\nport = 1883", "f:2: admin.port: 1883 is already the port of listeners"),
        ("[admin]\nhosts = []", "f:2: admin.hosts: must not be empty"),
        ('[[listeners]]\ncertificate = "a"', "f:2: listeners.certificate: is for encrypted listeners"),
        ('[[listeners]]\nkind = "tls"', "f:1: listeners.certificate: a tls listener needs one"),
        ('[[listeners]]\nhost = "0.0.0.0"', "f:2: listeners.host: '0.0.0.0' is for clients from elsewhere"),
        ('[[listeners]]\nhost = "example.org"', "f:2: listeners.host: 'example.org' is for clients from elsewhere"),
        ('[access]\nanonymous = "deny"', "f:2: access.anonymous: 'deny' lets nobody in; set access.users_file"),
        ('[access]\nusers_file = "none"', "f:2: access.users_file: 'none' cannot be read: No such file"),
        ('[access]\nrules_file = "none"', "f:2: access.rules_file: 'none' cannot be read: No such file"),
        ('[[link.neighbours]]\nid = "b"', "f: link.secret_file: is missing"),
        ("[link]\nport = 0", "f:1: link.secret_file: is missing"),
        ('[[link.neighbours]]\nid = "broker"', "f:2: link.neighbours.id: 'broker' is this broker itself"),
        ('[[link.neighbours]]\nid = "b"\n[[link.neighbours]]\nid = "b"', "f:4: link.neighbours.id: 'b' is named twice"),
        ("[[link.neighbours]]\nport = 1", "f:1: link.neighbours.id: is missing"),
        ('[link]\nsecret = "short"', "f:2: link.secret: must have at least 16 characters"),
        (f'[link]\nsecret = "{SECRET}"\nsecret_file = "a"', "f:2: link.secret: is set twice"),
        (f'[link]\nsecret = "{SECRET}"\ninsecure = true', "f:3: link.insecure: is not needed"),
        ('[link]\ncertificate = "a"', "f:1: link.key: is missing: certificates on links need"),
        ('[link]\ninsecure = true\nhost = "0.0.0.0"\nport = 0', "f:3: link.host: '0.0.0.0' is not a loopback"),
        ('[link]\ninsecure = true\n[[link.neighbours]]\nid = "b"\nhost = "b.example"',
         "f:5: link.neighbours.host: 'b.example' is not a loopback"),
        ("[link]\nhold_s = 0.1", "f:2: link.hold_s: must not be shorter than link.heartbeat_s"),
        ("[link]\nreconnect_max_s = 0.01", "f:2: link.reconnect_max_s: must not be shorter"),
        ('[core]\nnetwork = "x"', "f:2: core.network: is set as broker.network"),
        ("[core]\nevent_max = -1", "f:2: core.event_max: must be at least 1, not -1"),
        ("[core]\nsettle_max_us = 1", "f:2: core.settle_max_us: must not be shorter than core.settle_us"),
        ('[core.routing]\nkind = "flood"', "f:2: core.routing.kind: there is no routing strategy 'flood'"),
        ("listeners = 3", "f:1: listeners: must be a list, not a whole number"),
        ("= 3", "f:1: not TOML:"),
        ("a = 1\na = 2", "f:2: not TOML:"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        loads(text, "f")
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    "bomb",
    [".".join(["a"] * 20_000) + " = 1", "a = " + "[" * 100_000, "a = " + "{b=" * 50_000, "a = " + "9" * 5000],
    ids=["dotted key", "brackets", "tables", "digits"],
)
def test_bombs_are_defused_before_they_are_parsed(bomb: str) -> None:
    with pytest.raises(SettingsError, match=r"^f:1: .*(parts|nested|digits)"):
        loads(bomb, "f")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (SIZE_MAX + 1))
    with pytest.raises(SettingsError, match="larger than 256 KiB"):
        load(large)
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"\n# \xe4")
    with pytest.raises(SettingsError, match=r"latin\.toml:2: not UTF-8 text"):
        load(latin)
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path / "absent.toml")
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path)


# -- stores


def test_a_store_is_described_as_people_speak() -> None:
    store = loads(
        '[store]\ntopics = ["sensors/#", "+/log"]\nkeep = "1.5h"\ncapacity = "2 GiB"\nevents = 9\nreserve = 5\nhot = 90'
    ).store
    assert store.topics == ("sensors/#", "+/log")
    assert (store.keep_us, store.hot_us) == (5_400_000_000, 90_000_000)
    assert (store.capacity_bytes, store.reserve_bytes, store.events) == (2 * 2**30, 5, 9)
    usual = Settings().store
    assert (usual.topics, usual.keep_us, usual.capacity_bytes) == ((), 7 * 86_400 * 10**6, 20 * 10**9)
    assert usual.reserve_bytes is None
    assert Settings().store_directory == Path("latecomer-data/store")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('topics = ["a/#", "a/#/b"]', "store.topics: '#' must be the last character"),
        ('topics = [""]', "store.topics: a topic filter needs at least one character"),
        ('topics = ["$SYS/#"]', "store.topics: '$SYS/#': what begins with '$' is not published"),
        ('topics = ["a", "a"]', "store.topics: 'a' is named twice"),
        ('keep = "7 parsecs"', "store.keep: 'parsecs' is not a unit of time; write it as in"),
        ('keep = "-7d"', "store.keep: '-7d' is not a duration; write it as in"),
        ("keep = -7", "store.keep: must not be negative, and -7 is"),
        ('keep = "5000w"\nhot = "60000w"', "store.hot: must be at most a thousand years"),
        ("keep = true", "store.keep: must be"),
        ('capacity = "20 GBit"', "store.capacity: 'GBit' is not a unit of size"),
        ('capacity = "20"', "store.capacity: must be at least 1000000 bytes, or 0"),
        ('capacity = "900000000PB"', "store.capacity: is more than any disk has"),
        ('reserve = "much"', "store.reserve: 'much' is not a size"),
        ('cold = ""', "store.cold: must not be empty"),
        ('cold = "/x"\nhot = 0', "store.hot: must be more than 0"),
    ],
)
def test_what_is_wrong_with_a_store(text: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        loads(f"[store]\n{text}", "f")
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("f:")


@pytest.mark.parametrize(
    ("cold", "meant"),
    [("old", "there/old"), ("/old", "/old"), ("s3://bucket/old", "s3://bucket/old")],
)
def test_a_cold_tier_is_a_directory_or_an_address(cold: str, meant: str) -> None:
    assert loads(f"[store]\ncold = '{cold}'", folder=Path("there")).store.cold == meant


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (5_432_100, "5.43 MB"), (999_600, "1 MB"), (20 * 10**9, "20 GB")],
)
def test_sizes_are_shown_with_three_digits(size: int, shown: str) -> None:
    assert show_size(size) == shown


# -- the command line speaks last


def test_an_override_wins_and_is_not_blamed_on_the_file() -> None:
    text = "[limits]\nconnections = 5\n"
    assert loads(text, "f", overrides={"limits.connections": 6}).limits.connections == 6
    assert loads("", overrides={"broker.data": Path("here")}, folder=Path("there")).broker.data == Path("here")
    with pytest.raises(SettingsError) as caught:
        loads(text, "f", overrides={"limits.connections": 0})
    assert str(caught.value) == "limits.connections: must be at least 1, not 0"


def test_an_override_inside_something_that_is_no_table_leaves_the_blame_with_the_file() -> None:
    with pytest.raises(SettingsError, match=r"^f:1: limits: must be a table"):
        loads("limits = 3", "f", overrides={"limits.connections": 6})


# -- what works and is worth a thought


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[access]\nanonymous = "allow"\n[[listeners]]\nhost = "0.0.0.0"', "anybody who reaches this broker"),
        ('[admin]\nhost = "0.0.0.0"', "the admin interface can be reached"),
        (f'[link]\nhost = "0.0.0.0"\nsecret = "{SECRET}"\n[[link.neighbours]]\nid = "b"', "links without certificates"),
    ],
)
def test_warnings(text: str, words: str) -> None:
    (warning,) = warnings(loads(text))
    assert words in warning


def test_a_password_in_the_clear_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "users").touch(mode=0o600)
    text = '[access]\nusers_file = "users"\n[[listeners]]\nhost = "0.0.0.0"'
    (warning,) = warnings(loads(text, "f", tmp_path))
    assert "passwords travel in the clear" in warning


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "::ffff:127.0.0.1"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example", "", "::ffff:10.0.0.1", "127.1"])
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("text", "key"),
    [(f"[link]\nport = 0\nsecret = '{SECRET}'\n", "link.secret"), (f"[admin]\ntoken = '{SECRET}'\n", "admin.token")],
)
def test_a_secret_in_a_file_that_others_can_read(text: str, key: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o644)
    with pytest.raises(SettingsError, match=f"{key}: other users can read .*; run: chmod 600 {file}"):
        load(file)
    assert load(file, checked=False).broker.id == "broker", "who only looks something up is not the one to refuse"
    file.chmod(0o600)
    load(file)
    file.write_text("[broker]\nid = 'b1'\n", encoding="utf-8")
    file.chmod(0o644)
    assert load(file).broker.id == "b1", "without a secret anybody may read it"
