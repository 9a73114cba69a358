"""Plays the texts of the folder `moves`: MQTT clients that wander between brokers. Blocks are those of `theatre`.

network 3                         brokers in a line; `ring` or settings may follow: algorithm=home-broker
CLIENT connect BROKER             user properties may follow (previous-broker=b1), or user=NAME, or will=TOPIC
CLIENT subscribe FILTER           with QoS 1
CLIENT publish TOPIC TEXT         with QoS 1; clients acknowledge what they get
CLIENT goes                       DISCONNECT; user properties may follow (next-broker=b3)
CLIENT vanishes                   its connection is gone
crash BROKER, start BROKER
wait DURATION                     let time pass; every other command lets one second pass, or what follows `in`
sessions                          where each session is, and what waits in it
"""

from __future__ import annotations

from collections.abc import Sequence

from latecomer.core.inputs import MqttReceived
from latecomer.core.mobility.settings import HandOverSettings
from latecomer.messages.mqtt import (
    Connack,
    Disconnect,
    Packet,
    Properties,
    Puback,
    Publish,
    Request,
    Suback,
    Subscribe,
    Will,
)
from latecomer.sim.durations import read_duration
from latecomer.sim.transcript import Transcript
from tests.scenarios.theatre import Block
from tests.simulation.town import SECOND_US, Line, Town


class MqttTheatre(Town):
    """One play."""

    def __init__(self, network: str) -> None:
        number, *words = network.split()
        settings = dict(word.split("=", 1) for word in words if "=" in word)
        super().__init__(int(number), HandOverSettings(**settings), ring="ring" in words)  # type: ignore[arg-type]
        self.output: list[str] = []
        self.names: dict[int, str] = {}
        self.current: dict[str, Line] = {}
        """The last connection of each client."""
        self.transcript = Transcript(self.output.append)
        self.transcript.begin_us = self.world.now
        self.world.observe(self.transcript)

    def perform(self, block: Block) -> str:
        self.output.clear()
        command, _, pause = block.command.partition(" in ")
        words = command.split()
        if words == ["sessions"]:
            return self._sessions()
        until = self.world.now + (read_duration(pause) if pause else SECOND_US)
        match words:
            case ["crash", broker]:
                self.transcript.say(self.world.now, f"{broker} crashed")
                self.world.crash(broker)
            case ["start", broker]:
                self.world.start(broker)
            case ["wait", duration]:
                until = self.world.now + read_duration(duration)
            case [client, "connect", broker, *given]:
                self._connect(client, broker, dict(word.split("=", 1) for word in given))
            case [client, "subscribe", filter]:
                self.say(self.current[client], Subscribe(1, (Request(filter, 1),)), wait=0)
            case [client, "publish", topic, text]:
                self.say(self.current[client], Publish(topic, text.encode(), 1, packet_id=1), wait=0)
            case [client, "goes", *given]:
                said = tuple(dict(word.split("=", 1) for word in given).items())
                self.say(self.current[client], Disconnect(properties=Properties(user=said)), wait=0)
                self.hang_up(self.current[client], wait=0)
            case [client, "vanishes"]:
                self.hang_up(self.current[client], wait=0)
            case _:
                raise AssertionError(f"there is no command {block.command}")
        self.world.run(until)
        return "\n".join(self.output)

    def _connect(self, client: str, broker: str, given: dict[str, str]) -> None:
        user, topic = given.pop("user", ""), given.pop("will", "")
        will = Will(topic, b"gone", 1, False, Properties(will_delay_s=3)) if topic else None
        self.names[len(self.lines) + 1] = client
        self.current[client] = self.connect(broker, client, user=user, will=will, words=tuple(given.items()), wait=0)

    def transmitted(self, connection: int, packets: Sequence[Packet]) -> None:
        super().transmitted(connection, packets)
        line, client = self.lines[connection], self.names[connection]
        for packet in packets:
            self.transcript.say(self.world.now, f"{line.broker} => {client}  {packet_text(packet)}")
            if isinstance(packet, Publish) and packet.qos == 1:
                answer = MqttReceived(connection, (Puback(packet.packet_id),))
                self.world.at(self.world.now, self.world.tell, line.broker, answer)

    def closed(self, connection: int, problem: str) -> None:
        super().closed(connection, problem)
        line = self.lines[connection]
        self.transcript.say(self.world.now, f"{line.broker} closed the connection of {self.names[connection]}")

    def _sessions(self) -> str:
        lines = []
        for id, node in self.world.nodes.items():
            for client, session in node.core.sessions.by_client.items() if node.core else ():
                filters = " ".join(session.subscriptions) or "nothing"
                lines.append(f"{client} at {id}: subscribed to {filters}, {len(session.queue)} waiting")
        return "\n".join(lines)


def packet_text(packet: Packet) -> str:
    """A packet that a client gets, in words."""
    match packet:
        case Connack(reason=0):
            return f"connack, session {'present' if packet.session_present else 'new'}"
        case Connack() | Disconnect():
            word = "connack" if isinstance(packet, Connack) else "disconnect"
            reason = packet.properties.reason_string
            return f"{word} 0x{packet.reason:02X}" + (f": {reason}" if reason else "")
        case Publish():
            return f"publish {packet.topic} {packet.payload.decode()}{' again' if packet.dup else ''}"
        case Suback():
            return "suback"
        case Puback():
            return "puback"
    raise AssertionError(f"no words for {packet}")
