"""Whether a CONNECT can be accepted, as far as that does not depend on the client's session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from latecomer.core.clients import Clients
from latecomer.core.inputs import MqttConnected
from latecomer.core.mobility.strategies import ALGORITHMS
from latecomer.core.session.delivery import Deliveries
from latecomer.core.session.limits import Access, SessionLimits
from latecomer.core.session.publishing import Publishing
from latecomer.core.session.state import Refusal, Session
from latecomer.core.session.terms import HAND_OVER, connack_to, hand_over_of
from latecomer.messages.mqtt import V5, Connect, Reason
from latecomer.model.ids import ClientId

CLIENT_ID_BYTES = 1024


@dataclass(slots=True)
class Admission:
    """Checks what clients ask for when they connect; raises `Refusal`."""

    limits: SessionLimits
    access: Access
    durability: str
    clients: Clients
    deliveries: Deliveries
    publishing: Publishing
    by_client: Mapping[ClientId, Session]
    per_user: Mapping[str, int]

    def check(self, fact: MqttConnected) -> ClientId:
        """The client id, if nothing speaks against it."""
        client = self._client_id(fact)
        self._check_terms(fact, client)
        self._check_connack(fact.packet, client)
        return client

    def _client_id(self, fact: MqttConnected) -> ClientId:
        packet = fact.packet
        if packet.client_id:
            return packet.client_id
        if packet.version != V5 and not packet.clean_start:
            # [MQTT-3.1.3-8] of 3.1.1
            raise Refusal(Reason.CLIENT_IDENTIFIER_NOT_VALID, "a client without an id must ask for a clean session")
        return fact.fresh_id

    def _check_terms(self, fact: MqttConnected, client: ClientId) -> None:
        packet = fact.packet
        if packet.properties.authentication_method is not None:
            raise Refusal(Reason.BAD_AUTHENTICATION_METHOD, "no enhanced authentication here: use a password")
        if len(client.encode()) > CLIENT_ID_BYTES:
            problem = f"a client id has at most {CLIENT_ID_BYTES} bytes here"
            raise Refusal(Reason.CLIENT_IDENTIFIER_NOT_VALID, problem)
        problem = self.access.client_problem(fact.user, client) or ""
        if problem:
            raise Refusal(Reason.CLIENT_IDENTIFIER_NOT_VALID, problem)
        if client in self.clients.mailboxes:
            raise Refusal(Reason.CLIENT_IDENTIFIER_NOT_VALID, "this client id is in use inside the broker")
        limits = self.limits
        too_long = packet.keep_alive_s == 0 or packet.keep_alive_s > limits.keep_alive_max_s
        if packet.version != V5 and too_long and not limits.keep_alive_longer_for_311:
            problem = f"keep-alive must be 1 to {limits.keep_alive_max_s} s"
            raise Refusal(Reason.NOT_AUTHORIZED, problem)  # bad input 6
        wanted = hand_over_of(packet)
        if wanted and wanted not in ALGORITHMS:
            problem = f"{HAND_OVER} must be one of {', '.join(ALGORITHMS)}, not {wanted[:64]!r}"
            raise Refusal(Reason.IMPLEMENTATION_SPECIFIC_ERROR, problem)
        if packet.will is not None:
            reason, problem = self.publishing.will_problem(fact.user, client, packet.will)
            if reason is not Reason.SUCCESS:
                raise Refusal(reason, f"will: {problem}")

    def check_room(self, user: str) -> None:
        """Bad input 11."""
        limits = self.limits
        if len(self.by_client) >= limits.sessions or self.per_user.get(user, 0) >= limits.sessions_per_user:
            raise Refusal(Reason.QUOTA_EXCEEDED, "too many sessions")

    def _check_connack(self, packet: Connect, client: ClientId) -> None:
        """[MQTT-3.1.2-24] A client that takes no packet as large as its CONNACK cannot be served: it is refused before
        a session is made or taken over. What the CONNACK may leave out does not count [MQTT-3.2.2-20]."""
        most = packet.properties.maximum_packet_size
        if most is None:
            return
        whole = connack_to(packet, client, False, self.limits, self.durability)
        brief = msgspec.structs.replace(whole, properties=msgspec.structs.replace(whole.properties, user=()))
        if self.deliveries.measure(brief, packet.version) > most:
            raise Refusal(Reason.PACKET_TOO_LARGE, "the client takes no packet as large as its CONNACK")
