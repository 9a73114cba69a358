"""`--store`, `--keep` and `--capacity`: one broker, and a network of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.cli.main import VERBS, run
from latecomer.model.errors import SettingsError
from latecomer.runtime.network_file import Network, placed, read_network, shaped, toml, with_stores, write_network
from latecomer.runtime.settings import loads
from latecomer.runtime.supervisor import settings_of

Capture = pytest.CaptureFixture[str]


def four() -> Network:
    return placed(shaped("ring", 4), 20_000)


def test_a_broker_is_told_what_to_keep(capsys: Capture) -> None:
    words = ["--store", "sensors/#", "--store", "log", "--keep", "7d", "--capacity", "20GB"]
    assert run(VERBS, ["broker", *words, "--check"]) == 0
    assert run(VERBS, ["broker", *words, "--keep", "7x", "--check"]) == 2
    assert "store.keep: 'x' is not a unit of time" in capsys.readouterr().err
    assert run(VERBS, ["broker", "--store", "a#", "--check"]) == 2
    assert "store.topics: " in capsys.readouterr().err


def test_the_brokers_that_are_named_have_stores(tmp_path: Path) -> None:
    network = with_stores(four(), ["b2=sensors/#", "b4=a=b", "b2=log"], {"keep": "1h"})
    assert [seat.store for seat in network.brokers] == [(), ("sensors/#", "log"), (), ("a=b",)]
    (tmp_path / "network.toml").write_text(write_network(network), encoding="utf-8")
    assert read_network(tmp_path / "network.toml") == network
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("0123456789abcdef\n", encoding="utf-8")
    made = {
        seat.id: loads(toml(settings_of(network, seat, tmp_path, secret)), seat.id, tmp_path).store
        for seat in network.brokers
    }
    assert {broker: store.topics for broker, store in made.items() if store.topics} == {
        "b2": ("sensors/#", "log"),
        "b4": ("a=b",),
    }
    assert made["b2"].keep_us == 3_600_000_000


def test_who_is_named_anew_keeps_only_that() -> None:
    before = with_stores(four(), ["b2=a", "b3=b"], {"keep": "1h", "capacity": "5GB"})
    after = with_stores(before, ["b2=c"], {"keep": "2h"})
    assert [seat.store for seat in after.brokers] == [(), ("c",), ("b",), ()]
    assert after.settings["store"] == {"keep": "2h", "capacity": "5GB"}
    assert with_stores(four(), [], {}) == four()


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ("sensors/#", "'sensors/#' must name a broker and its topics, as in 'b2=sensors/#'"),
        ("b2=", "'b2=' must name a broker"),
        ("b9=x", "there is no broker 'b9'; "),
    ],
)
def test_what_is_no_store(said: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match="--store") as caught:
        with_stores(four(), [said], {})
    assert sentence in str(caught.value)


def test_a_topic_that_cannot_be_kept_is_told_before_anybody_starts(tmp_path: Path, capsys: Capture) -> None:
    words = ["up", "--brokers", "2", "--base-port", "21000", "--data", str(tmp_path), "--store", "b1=a/#/b"]
    assert run(VERBS, words) == 2
    assert "store.topics: '#' must be the last character" in capsys.readouterr().err
    assert not (tmp_path / "b1" / "broker.log").exists()
