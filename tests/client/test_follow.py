"""Brokers send clients elsewhere, in all ways that there are; both helpers go there, or say why not."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
import trustme

from latecomer.client import Address, GaveUp, Patience, Refused, Subscription
from latecomer.client.course import read_addresses
from latecomer.messages.mqtt import (
    Connect,
    Disconnect,
    Properties,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Reason,
    Subscribe,
    Unsubscribe,
)
from latecomer.model.errors import SettingsError
from tests.client.server import FRESH, WELCOME, Answer, Server, dismiss, free_address, refuse
from tests.client.talkers import HELPERS, QUICK, Talker, payloads, profile, until

ELSEWHERE = Reason.USE_ANOTHER_SERVER


@pytest.fixture(params=HELPERS)
def helper(request: pytest.FixtureRequest) -> Any:
    """What makes a talker."""
    return HELPERS[request.param]


@pytest.mark.parametrize("how", [refuse, dismiss])
def test_it_goes_where_a_reference_points(helper: Any, how: Any) -> None:
    with Server(WELCOME) as there, Server(how(ELSEWHERE, there.address)) as here:
        with helper([f"b1={here.address}"], profile("walker")) as talker:
            until(lambda: there.came)
            until(lambda: talker.course.journey.at.port == there.port and talker.welcome.address == there.address)
        (first,), (second,) = here.came, there.came
        assert [(each.client_id, each.clean_start) for each in (first, second)] == [("walker", False)] * 2
        assert first.properties.session_expiry_s == second.properties.session_expiry_s == 3600
        assert here.words("follows-references") == there.words("follows-references") == ["yes"]
        assert here.words("previous-broker") == []
        # It was at b1 only if b1 had accepted it.
        assert there.words("previous-broker") == (["b1"] if how is dismiss else [])


@pytest.mark.parametrize("how", [refuse, dismiss])
def test_without_a_reference_it_tries_the_other_addresses(helper: Any, how: Any) -> None:
    with Server(WELCOME) as there, Server(how(ELSEWHERE)) as here:
        with helper([here.address, free_address(), there.address], profile()):
            until(lambda: there.came)
        assert len(here.came) == 1


@pytest.mark.parametrize("text", ["", " ", "b2:port", "[::1", "a..b", "-", "x" * 300, ":1883", "b2:99999", "\x01:1883"])
def test_a_reference_that_cannot_be_read_is_none(helper: Any, text: str) -> None:
    with (
        Server(WELCOME) as there,
        Server(refuse(ELSEWHERE, text)) as here,
        helper([here.address, there.address], profile()),
    ):
        until(lambda: there.came)


def test_of_several_references_one_will_do(helper: Any) -> None:
    with (
        Server(WELCOME) as there,
        Server(dismiss(ELSEWHERE, f"[broken {free_address()} {there.address}")) as here,
        helper(here.address, profile()),
    ):
        until(lambda: there.came)


def test_a_reference_may_be_the_name_of_a_broker_it_knows(helper: Any) -> None:
    with (
        Server(WELCOME) as there,
        Server(refuse(ELSEWHERE, "b3")) as here,
        helper([here.address, f"b2={free_address()}", f"b3={there.address}"], profile()),
    ):
        assert [len(here.came), len(there.came)] == [1, 1]


@pytest.mark.parametrize("how", [refuse, dismiss])
def test_a_circle_of_references_ends_with_a_sentence(helper: Any, how: Any) -> None:
    """Also if each of them accepts the client before it sends it on."""
    patience = Patience(references_max=5, pause_s=0.01, pause_max_s=0.01)
    there = Server()
    with Server(how(ELSEWHERE, there.address)) as here, there:
        there.answers = [how(ELSEWHERE, here.address, "try b1")]
        with (
            pytest.raises(GaveUp, match="6 brokers in a row have sent this client to another one") as told,
            helper(here.address, profile(patience=patience)) as talker,
        ):
            raise talker.over()
        assert "in a circle" in str(told.value)
        assert "try b1" in str(told.value)
        assert f"{here.address} → {there.address}" in str(told.value)
        assert len(here.came) + len(there.came) == 6


def test_only_places_that_it_was_given(helper: Any) -> None:
    with (
        Server(WELCOME) as trap,
        Server(WELCOME) as there,
        Server(refuse(ELSEWHERE, trap.address)) as here,
        helper([here.address, there.address], profile(only_given=True)),
    ):
        assert (len(trap.came), len(there.came)) == (0, 1)


@pytest.mark.parametrize("reason", [Reason.SERVER_UNAVAILABLE, Reason.SERVER_BUSY])
def test_it_waits_for_a_session_whose_owner_is_away(helper: Any, reason: Reason) -> None:
    """At the broker where it is: another one would say the same."""
    answers = [refuse(reason, why="its session is at b3"), refuse(reason), WELCOME]
    with Server(WELCOME) as other, Server(*answers) as here:
        with helper([here.address, other.address], profile()) as talker:
            assert talker.welcome.session_present
        assert (len(here.came), len(other.came)) == (3, 0)


def test_it_goes_through_its_addresses(helper: Any) -> None:
    with (
        Server(WELCOME) as there,
        Server(()) as mute,
        helper([free_address(), mute.address, there.address], profile()) as talker,
    ):
        assert talker.welcome.address == there.address


def test_nobody_is_there(helper: Any) -> None:
    patience = Patience(attempts_max=4, pause_s=0.01, pause_max_s=0.01)
    impatient = helper([free_address(), free_address()], profile(patience=patience))
    with pytest.raises(GaveUp, match="no broker has kept this client in 4 attempts; the last was 127"), impatient:
        pass


def test_what_would_be_refused_again_is_not_tried_again(helper: Any) -> None:
    with Server(refuse(Reason.NOT_AUTHORIZED, why="ask Anna")) as here, Server(WELCOME) as other:
        unwanted = helper([here.address, other.address], profile())
        with (
            pytest.raises(Refused, match=r"refused the connection: not authorized \(0x87: ask Anna\)") as told,
            unwanted,
        ):
            pass
        assert told.value.reason == 0x87
        assert (len(here.came), len(other.came)) == (1, 0)


def test_a_client_whose_place_was_taken_stays_away(helper: Any) -> None:
    with Server(dismiss(Reason.SESSION_TAKEN_OVER)) as here, Server(WELCOME) as other:
        with (
            pytest.raises(Refused, match="ended the connection: session taken over"),
            helper([here.address, other.address], profile()) as talker,
        ):
            raise talker.over()
        assert (len(here.came), len(other.came)) == (1, 0)


def test_a_broken_connection_is_made_again_and_says_what_it_has(helper: Any) -> None:
    with Server(FRESH, WELCOME, FRESH) as here:
        with helper(here.address, profile()) as talker:
            talker.subscribe("cars/#", qos=2, where="price <= 3", identifier=7)
            talker.subscribe("news/+", since="-1h", no_local=True)
            talker.subscribe("old/#")
            talker.unsubscribe("old/#")
            until(lambda: any(isinstance(each, Unsubscribe) for each in here.heard))
            said = len(here.heard)
            here.cut()
            until(lambda: talker.course.connections == 2)
            assert set(here.words("subscription")) == {
                "2,id=7,content cars/# ? price <= 3", "1,no-local news/+"
            }  # fmt: skip
            assert not [each for each in here.heard[said:] if isinstance(each, Subscribe)]  # the session has them
            here.cut()
            until(lambda: len(here.heard) >= said + 2)  # it is gone: everything is said again
        again = {
            each.requests[0].filter: each.properties.user for each in here.heard[said:] if isinstance(each, Subscribe)
        }
        assert again == {"cars/#": (("filter", "price <= 3"),), "news/+": (("since", "-1h"),)}


def test_subscriptions_of_the_profile(helper: Any) -> None:
    wanted = (Subscription(topic="a/#"), Subscription(topic="b/#", last=3))
    with Server(FRESH) as here:
        with helper(here.address, profile(subscriptions=wanted)):
            until(lambda: len(here.heard) == 2)
        asked = [(each.requests[0].filter, each.properties.user) for each in here.heard if isinstance(each, Subscribe)]
        assert asked == [("a/#", ()), ("b/#", (("last", "3"),))]


def test_a_subscription_that_is_refused(helper: Any) -> None:
    with Server(WELCOME, granted=Reason.NOT_AUTHORIZED) as here, helper(here.address, profile()) as talker:
        with pytest.raises(Refused, match="refused 'secret/#': not authorized"):
            talker.subscribe("secret/#")
        with pytest.raises(SettingsError, match="price <"):
            talker.subscribe("cars/#", where="price <")
        assert talker.course.wanted.kept == {}


def test_where_it_goes_and_where_it_was(helper: Any) -> None:
    words = {"previous_broker": "b7", "hand_over": "logging", "owner_away": "go-on"}
    with Server(WELCOME) as here:
        with helper(f"b1={here.address}", profile(**words)) as talker:
            talker.leave(next_broker="b2")
            until(lambda: here.heard)
        assert [here.words(name) for name in ("previous-broker", "hand-over", "owner-away")] == [
            ["b7"], ["logging"], ["go-on"],
        ]  # fmt: skip
        (goodbye,) = here.heard
        assert isinstance(goodbye, Disconnect)
        assert (goodbye.reason, goodbye.properties.user) == (0, (("next-broker", "b2"),))


def test_a_clean_start_is_the_first_one_only(helper: Any) -> None:
    with Server(WELCOME) as there, Server(dismiss(ELSEWHERE, there.address)) as here:
        with helper(here.address, profile(clean_start=True)):
            until(lambda: there.came)
        assert (here.came[0].clean_start, there.came[0].clean_start) == (True, False)


def test_what_is_published_on_the_way_arrives_once(helper: Any) -> None:
    """The connection ends before the broker has acknowledged it; the next broker gets the same message again."""

    def gone(connect: Connect) -> Answer:
        return dismiss(ELSEWHERE, there.address)

    with Server(WELCOME) as there, Server(gone) as here:
        with helper(here.address, profile()) as talker:
            for number in range(5):
                talker.publish("a/b", str(number))
        got = [each.payload for each in there.heard if isinstance(each, Publish)]
        assert got == [b"%d" % number for number in range(5)]


def test_a_message_that_is_half_delivered_arrives_once(helper: Any) -> None:
    """QoS 2: the first broker has sent it and knows that it came; the next one releases it."""
    message = Publish("a/b", b"once", 2, packet_id=9)
    with Server((*WELCOME, Pubrel(9)), replies={Pubcomp: ()}) as there:
        left = (Disconnect(ELSEWHERE, Properties(server_reference=there.address)),)
        with (
            Server((*WELCOME, message), replies={Pubrec: left}) as here,
            helper(here.address, profile()) as talker,
        ):
            assert payloads(talker, 1) == [b"once"]
            until(lambda: there.heard)
            assert isinstance(there.heard[0], Pubcomp)
            assert talker.inbox.empty()


def test_it_follows_over_tls(helper: Any) -> None:
    authority, server = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with (
        Server(WELCOME, tls=server) as there,
        Server(refuse(ELSEWHERE, f"localhost:{there.port}"), tls=server) as here,
        helper(f"localhost:{here.port}", profile(), tls=trusting) as talker,
    ):
        assert talker.welcome.address == f"localhost:{there.port}"
    assert read_addresses("localhost", tls=True) == (Address("localhost", 8883),)


def test_what_a_profile_cannot_be(helper: Any) -> None:
    for wrong in ({"client_id": ""}, {"password": "x"}, {"session_s": -1}, {"keep_alive_s": 0}):
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            profile(**wrong)
    for address in ("", "a b", "=host", "host:", "host:0", "host:x", "[::1", "a..b"):
        with pytest.raises(SettingsError, match="is no address"):
            helper([address], profile()).__enter__()
    with pytest.raises(SettingsError, match="at least one broker"):
        helper([], profile()).__enter__()


def test_a_message_is_waited_for_over_connections(helper: Any) -> None:
    def one(connect: Connect) -> Answer:
        return (*WELCOME, Publish("a/b", b"one", 1, packet_id=1))

    def two(connect: Connect) -> Answer:
        return (*WELCOME, Publish("a/b", b"two", 1, packet_id=1))

    with Server(one, two) as here:
        talker: Talker
        with helper(here.address, profile(patience=QUICK)) as talker:
            first = talker.inbox.get(timeout=60)
            here.cut()
            second = talker.inbox.get(timeout=60)
        assert [getattr(each, "payload", b"") for each in (first, second)] == [b"one", b"two"]
