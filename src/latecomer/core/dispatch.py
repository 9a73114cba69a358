"""Who in a broker takes which fact, and which frame of a neighbour."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from latecomer.core.inputs import (
    AddressesKnown,
    Advertised,
    ClientConnected,
    ClientDisconnected,
    Confirmed,
    ForgetWanted,
    LinkConnected,
    LinkDisconnected,
    Measured,
    MoveWanted,
    MqttConnected,
    MqttFailed,
    MqttLost,
    MqttReceived,
    NeighbourAdded,
    NeighbourRemoved,
    Published,
    Relayed,
    ReleaseWanted,
    RepositionAborted,
    RepositionWanted,
    RulesChanged,
    RunOpened,
    SessionEnded,
    Started,
    Subscribed,
    Unadvertised,
    Unsubscribed,
    Woken,
)
from latecomer.core.interest import Interest
from latecomer.core.mobility.frames import frames_of
from latecomer.core.ring.interest import RingInterest
from latecomer.core.runs import Runs
from latecomer.messages.homes import Addresses
from latecomer.messages.link import (
    Adopted,
    Advertise,
    AdvertisementsComplete,
    Complete,
    Confirm,
    Done,
    Fence,
    Fenced,
    LinkStates,
    Lost,
    Retained,
    RetainedSummary,
    Run,
    Sharing,
    SharingChange,
    Subscribe,
    Summary,
    Unadvertise,
    Unsubscribe,
    Void,
)
from latecomer.messages.ring import Flush, Flushed, FlushWanted, Round, Wants, WantsChange
from latecomer.model.ids import BrokerId

if TYPE_CHECKING:
    from latecomer.core.broker import Broker


def input_handlers(broker: Broker) -> dict[type, Callable[[Any], None]]:
    """Who takes which fact; `LinkReceived` is not here, see `step`."""
    runs = Runs(broker.events)
    return {
        Started: broker.started,
        Woken: broker.woken,
        LinkConnected: lambda fact: broker.neighbours.connected(fact.peer, fact.connection),
        LinkDisconnected: lambda fact: broker.neighbours.disconnected(fact.peer, fact.connection),
        ClientConnected: lambda fact: broker.clients.connected(fact.client, fact.connection),
        ClientDisconnected: lambda fact: broker.clients.disconnected(fact.client),
        Subscribed: lambda fact: broker.clients.subscribe(fact.client, fact.filter),
        Unsubscribed: lambda fact: broker.clients.unsubscribe(fact.client, fact.filter),
        Advertised: lambda fact: broker.clients.advertise(fact.client, fact.filter),
        Unadvertised: lambda fact: broker.clients.unadvertise(fact.client, fact.filter),
        Published: broker.events.publish,
        Confirmed: lambda fact: broker.clients.confirm(fact.client, fact.number),
        MqttConnected: broker.sessions.on_connected,
        MqttReceived: broker.sessions.on_received,
        MqttFailed: broker.sessions.on_failed,
        MqttLost: broker.sessions.on_lost,
        Relayed: runs.relay,
        RunOpened: runs.on_opened,
        RulesChanged: broker.sessions.on_rules_changed,
        SessionEnded: broker.sessions.on_ended,
        MoveWanted: lambda fact: broker.mobility.wishes.move(fact.client, fact.to),
        ReleaseWanted: lambda fact: broker.mobility.wishes.release(fact.client),
        AddressesKnown: lambda fact: broker.addresses.speak(fact.entries, open=fact.open),
        NeighbourAdded: broker.neighbour_added,
        NeighbourRemoved: lambda fact: broker.neighbours.remove(fact.peer),
        ForgetWanted: lambda fact: broker.membership.bury(fact.broker),
        RepositionWanted: lambda fact: broker.reposition.want(dict(fact.places)),
        RepositionAborted: lambda fact: broker.reposition.abandon("the operator does not want it any more"),
        Measured: broker.sessions.subscribing.figures.on_measured,
        **broker.history.inputs(),
    }


def frame_handlers(broker: Broker) -> dict[type, Callable[[BrokerId, Any], None]]:
    """Who takes which session frame; `Publication` is not here, see `_link_received`."""
    runs = Runs(broker.events)
    return {
        LinkStates: broker.membership.on_link_states,
        Summary: broker.membership.on_summary,
        Adopted: broker.interest.on_adopted,
        Subscribe: broker.interest.on_subscribe,
        Unsubscribe: broker.interest.on_unsubscribe,
        Advertise: broker.interest.on_advertise,
        Unadvertise: broker.interest.on_unadvertise,
        Confirm: broker.interest.on_confirm,
        Fence: broker.fences.on_fence,
        Fenced: broker.fences.on_fenced,
        AdvertisementsComplete: broker.interest.on_advertisements_complete,
        Complete: broker.interest.on_complete,
        Done: broker.events.on_done,
        RetainedSummary: broker.retained.on_summary,
        Retained: broker.retained.on_retained,
        Sharing: broker.shares.on_sharing,
        SharingChange: broker.shares.on_change,
        Lost: broker.losses.on_lost,
        Run: runs.on_run,
        Addresses: broker.addresses.on_addresses,
        Void: lambda peer, frame: None,
        FlushWanted: broker.flushes.on_wanted,
        Flush: broker.flushes.on_flush,
        Flushed: broker.flushes.on_flushed,
        **_ring_frames(broker.interest),
        **broker.history.frames(),
        **broker.reposition.frames(),
        **broker.homes.frames(),
        **frames_of(broker.mobility),
    }


def _ring_frames(interest: Interest) -> dict[type, Callable[[BrokerId, Any], None]]:
    """With other routings these frames say nothing: only neighbours of the same routing are linked."""
    if not isinstance(interest, RingInterest):
        return dict.fromkeys((Round, Wants, WantsChange), lambda peer, frame: None)
    words = interest.words
    return {Round: interest.on_round, Wants: words.on_wants, WantsChange: words.on_change}
