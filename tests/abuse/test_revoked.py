"""Bad input 19: rights that are taken away while somebody uses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from latecomer.runtime.users import Hashed, hash_password, write_users
from tests.abuse.house import House, Probe, nothing_came, running, settled
from tests.conformance.codec import PUBACK, PUBCOMP, PUBREC, PUBREL, Hello, P, Will

HASHED: dict[str, Hashed] = {name: hash_password(name.encode()) for name in ("alice", "bob", "probe")}
ALICE: dict[str, Any] = {"user": "alice", "password": b"alice"}
BOB: dict[str, Any] = {"user": "bob", "password": b"bob"}
PROBE: dict[str, Any] = {"user": "probe", "password": b"probe"}
ALWAYS = "allow bob all #\nallow probe all #\nallow * all mark/#\n"
GIVEN = ALWAYS + "allow alice all news/#\nallow alice all diary/#\n"
TAKEN = ALWAYS + "allow alice all diary/#\n"
LASTING = ((P.SESSION_EXPIRY, 600),)


def rule(house: House, text: str) -> None:
    """New rules, and the time until the broker has read them."""
    told = "users and rules were read again"
    before = house.log.count(told)
    (house.folder / "rules").write_text(text, "utf-8")
    settled(lambda: house.log.count(told) > before, "the rules are read")


def prepare(folder: Path) -> dict[str, Any]:
    write_users(folder / "users", HASHED)
    (folder / "rules").write_text(GIVEN, "utf-8")
    (folder / "rules").chmod(0o600)
    access = {"anonymous": "deny", "users_file": folder / "users", "rules_file": folder / "rules"}
    return {"access": access, "broker": {"durability": "process"}}


def test_19_a_subscription_and_a_publication(house: House) -> None:
    """The subscription is gone and the publication refused; what is still allowed goes on, on the same connection."""
    alice, bob = house.join(**ALICE), house.join(**BOB)
    alice.subscribe(("news/#", 1), ("diary/#", 1))
    bob.subscribe(("news/#", 0))
    alice.publish("news/x", b"allowed")
    alice.take(payload=b"allowed")
    bob.take(payload=b"allowed")
    alice.send(alice.publication("news/x", b"half done", qos=2, packet_id=77))
    assert alice.expect_answer(PUBREC, 77).reason == 0
    bob.take(payload=b"half done")
    alice.take(payload=b"half done")
    rule(house, TAKEN)
    bob.publish("news/x", b"after")
    bob.take(payload=b"after")
    bob.publish("diary/x", b"still allowed")
    alice.take(payload=b"still allowed")
    nothing_came(alice)
    with house.noticed("not_authorized"):
        alice.send(alice.publication("news/x", b"forged", qos=1, packet_id=5))
        alice.expect(PUBACK, reason=0x87)
    with house.noticed("not_authorized", times=3):
        alice.send(alice.publication("news/x", b"forged") * 3)
        alice.ping()
    alice.acknowledge(PUBREL, 77)  # it was taken when it was allowed, and is not taken again
    alice.expect(PUBCOMP, packet_id=77)
    nothing_came(bob)
    assert alice.unsubscribe("news/#") == [0x11]
    rule(house, GIVEN)


def test_19_what_waits_and_what_is_retained(house: House) -> None:
    """Queued before, not handed over after; nor by a kept subscription, nor because it is retained, nor as a will."""
    bob = house.join(**BOB)
    watcher = house.join(**BOB)
    watcher.subscribe(("news/will", 0))
    away = house.join(client_id="away", properties=LASTING, **ALICE)
    away.subscribe(("news/#", 1), ("diary/#", 1))
    away.disconnect()
    delayed = Will("news/will", b"late", properties=((P.WILL_DELAY, 1),))
    house.join(client_id="dying", properties=LASTING, will=delayed, **ALICE).close()
    bob.publish("news/kept", b"retained", retain=True)
    bob.publish("diary/x", b"for you")
    before = house.dropped("no longer allowed")
    rule(house, TAKEN)
    assert house.dropped("no longer allowed") == before + 1
    settled(lambda: "will: you may not publish" in house.log, "the will is refused")
    back = house.join(client_id="away", clean=False, properties=LASTING, **ALICE)
    assert back.connack.session_present
    back.take(payload=b"for you")
    assert back.subscribe(("news/kept", 1)) == [0x87]
    nothing_came(back)
    nothing_came(watcher)
    rule(house, GIVEN)
    bob.publish("news/kept", b"", retain=True)


def test_19_a_user_who_is_gone(house: House) -> None:
    """Removed from the users: disconnected, and not let in again."""
    alice, older = house.join(**ALICE), house.join(4, **ALICE)
    with house.noticed("not_authorized", "this user is no longer known", times=2):
        write_users(house.folder / "users", {name: hashed for name, hashed in HASHED.items() if name != "alice"})
        alice.expect_end(0x87)
        older.expect_closed()
    assert house.knock(**ALICE)[1].reason == 0x86
    write_users(house.folder / "users", HASHED)
    settled(lambda: house.knock(**ALICE)[1].reason == 0, "alice is known again")


def test_19_rules_that_cannot_be_read(house: House) -> None:
    """A mistake in the rules opens nothing and closes nothing: what was in force stays, and the log has the line."""
    alice, bob = house.join(**ALICE), house.join(**BOB)
    alice.subscribe(("news/#", 1))
    (house.folder / "rules").write_text(GIVEN + "allow everything\n", "utf-8")
    settled(lambda: "what was in force stays in force" in house.log, "the mistake is told")
    line = GIVEN.count("\n") + 1
    assert f"rules, line {line}" in house.log or f"rules:{line}" in house.log
    bob.publish("news/x", b"as before")
    alice.take(payload=b"as before")
    rule(house, GIVEN)


def test_19_rights_that_changed_while_the_broker_was_away(tmp_path: Path) -> None:
    """Found on disk, allowed then and not now: not handed over."""
    settings = prepare(tmp_path)
    with running(tmp_path, **settings) as house:
        away, bob = house.join(client_id="away", properties=LASTING, **ALICE), house.join(**BOB)
        away.subscribe(("news/#", 1), ("diary/#", 1))
        away.disconnect()
        bob.publish("news/x", b"not any more")
        bob.publish("diary/x", b"for you")
        house.stop(kill=True)
        (tmp_path / "rules").write_text(TAKEN, "utf-8")
        house.start()
        probe = Probe(house, **PROBE)
        back = house.raw()
        back.connect(Hello(client_id="away", clean=False, properties=LASTING, **ALICE))
        assert back.connack.session_present
        back.take(payload=b"for you")
        nothing_came(back)
        probe.round_trip()
        probe.client.close()
