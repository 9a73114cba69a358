"""One line of aiomqtt that can be led from broker to broker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Callable
from typing import Any

import aiomqtt
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.client import ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from latecomer.client.addresses import Address
from latecomer.client.course import Profile
from latecomer.client.journey import Ended
from latecomer.client.packets import credentials, ended_by, message_of, publication_refusal, will_properties
from latecomer.client.words import Message

log = logging.getLogger("latecomer.client")


class Line(aiomqtt.Client):
    """aiomqtt's client, led to another address for each connection.

    One object serves all connections, because paho's state of QoS 1 and 2 is in it: with another one for each, a
    message of QoS 2 that is half delivered when the session moves would be lost. aiomqtt has no public way to change
    the address, and keeps to itself what CONNACK and DISCONNECT say; only this class reaches into it.
    """

    def __init__(
        self, profile: Profile, place: Address, tls: ssl.SSLContext | None, came: Callable[[Message], None]
    ) -> None:
        user, password = credentials(profile) or (None, None)
        will = profile.will
        super().__init__(
            place.host, place.port, username=user, password=password, identifier=profile.client_id,
            protocol=aiomqtt.ProtocolVersion.V5, timeout=profile.answer_s, keepalive=profile.keep_alive_s,
            clean_start=False, tls_context=tls,
            will=aiomqtt.Will(will.topic, will.payload, will.qos, will.retain, will_properties(will)) if will else None,
        )  # fmt: skip
        self.came = came
        self.welcome: tuple[bool, Properties | None] = (False, None)
        self.ended = Ended()
        self.gone: asyncio.Future[None] = asyncio.Future()
        """Done when this connection has ended, whoever notices first."""
        self.suback: Properties | None = None
        self.since_s = 0.0
        self._coming = False

    async def come(self, place: Address, properties: Properties, *, clean_start: bool) -> bool:
        """Whether the broker there accepts it; otherwise `ended` says why not."""
        self._hostname, self._port = place.host, place.port
        self._properties, self._clean_start = properties, clean_start
        # aiomqtt does not renew them when it is used again behind a connection that broke.
        self._connected, self._disconnected = asyncio.Future(), asyncio.Future()
        end = self._disconnected
        end.add_done_callback(self._note_end)
        self.gone, self.ended, self._coming = asyncio.Future(), Ended(), True
        try:
            await self.__aenter__()
        except (aiomqtt.MqttError, ValueError) as error:
            self.close()
            if self.ended.reason is None:
                self.ended = Ended(told=str(error))
            return False
        except BaseException:
            self.close()
            raise
        finally:
            self._coming = False
        if end.done():  # with the CONNACK, and aiomqtt has put another one in its place
            self._disconnected = end
            self._note_end(end)
        return True

    def _note_end(self, end: asyncio.Future[None]) -> None:
        """Also for what aiomqtt notices itself, as a broken pipe."""
        told = "" if end.cancelled() else str(end.exception() or "")
        if end is self._disconnected:
            self._end(Ended(welcomed=True, told=told, lasted_s=time.monotonic() - self.since_s))

    def _end(self, ended: Ended) -> None:
        if not self.gone.done():
            self.ended = ended
            self.gone.set_result(None)

    def close(self) -> None:
        """Behind a connection that has ended, or was never made."""
        self._client.connect_async(self._hostname, self._port)  # closes the socket that it has, and connects nothing
        if self._lock.locked():
            self._lock.release()

    async def leave(self, properties: Properties | None) -> None:
        """Say goodbye."""
        self._client.disconnect(properties=properties)
        with contextlib.suppress(aiomqtt.MqttError):
            await self._wait_for(asyncio.shield(self.gone), None)
        self._end(Ended(welcomed=True))

    def _on_connect(
        self, client: PahoClient, userdata: Any, flags: ConnectFlags, reason_code: ReasonCode,
        properties: Properties | None = None,
    ) -> None:  # fmt: skip
        self.welcome, self.since_s = (bool(flags.session_present), properties), time.monotonic()
        if reason_code.is_failure:
            self.ended = ended_by(reason_code, properties, welcomed=False)
        super()._on_connect(client, userdata, flags, reason_code, properties)

    def _on_disconnect(
        self, client: PahoClient, userdata: Any, flags: DisconnectFlags, reason_code: ReasonCode,
        properties: Properties | None = None,
    ) -> None:  # fmt: skip
        if self._connected.done() and self._connected.exception() is None:
            lasted_s = time.monotonic() - self.since_s
            if flags.is_disconnect_packet_from_server:
                self._end(ended_by(reason_code, properties, welcomed=True, lasted_s=lasted_s))
            else:
                self._end(Ended(welcomed=True, lasted_s=lasted_s))
        elif self._coming and not self._connected.done():
            self._connected.set_exception(aiomqtt.MqttError("it hung up instead of answering"))
        super()._on_disconnect(client, userdata, flags, reason_code, properties)

    def _on_message(self, client: PahoClient, userdata: Any, message: MQTTMessage) -> None:
        """aiomqtt's own iterator ends with each connection."""
        payload = bytes(message.payload)
        self.came(message_of(message.topic, payload, message.qos, message.retain, message.properties))

    def _on_subscribe(
        self, client: PahoClient, userdata: Any, mid: int, reason_codes: list[ReasonCode],
        properties: Properties | None = None,
    ) -> None:  # fmt: skip
        self.suback = properties
        super()._on_subscribe(client, userdata, mid, reason_codes, properties)

    def _on_publish(
        self, client: PahoClient, userdata: Any, mid: int, reason_code: ReasonCode, properties: Properties
    ) -> None:
        if reason_code.is_failure:  # aiomqtt takes any answer for a good one
            log.warning("the broker refused a message: %s", publication_refusal(reason_code, properties))
        super()._on_publish(client, userdata, mid, reason_code, properties)
