"""paho, aiomqtt and gmqtt as programs: `python speak.py LIBRARY ORDER`.

The order is JSON. A publisher publishes and ends. A subscriber prints what it hears as lines of JSON, and says goodbye
when its standard input ends. Nothing of Latecomer is imported: these are other people's clients.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import Any

Order = dict[str, Any]
HOST = "127.0.0.1"
PATIENCE_SECONDS = 45
"""How long an answer may take on a busy machine."""


def say(**thing: Any) -> None:
    print(json.dumps(thing), flush=True)


def heard(topic: str, payload: bytes, qos: int, retain: bool, user: Any) -> None:
    say(topic=topic, payload=payload.decode(), qos=int(qos), retain=bool(retain), user=[list(pair) for pair in user])


async def end_of_input() -> None:
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def paho_properties(packet: int, order: Order, **values: Any) -> Any:
    from paho.mqtt.properties import Properties

    if order["version"] != 5:
        return None
    properties = Properties(packet)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        for each in value if name == "UserProperty" else [value]:
            setattr(properties, name, tuple(each) if name == "UserProperty" else each)
    return properties


# -- paho


def paho(order: Order) -> None:
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
    from paho.mqtt.packettypes import PacketTypes

    new = order["version"] == 5
    client = Client(
        CallbackAPIVersion.VERSION2,
        client_id=order["id"],
        protocol=MQTTProtocolVersion.MQTTv5 if new else MQTTProtocolVersion.MQTTv311,
        clean_session=None if new else not order["keep"],
        reconnect_on_failure=False,
    )
    connected, session, refusal = threading.Event(), [False], list[str]()

    def on_connect(client: Any, userdata: Any, flags: Any, code: Any, properties: Any) -> None:
        if code.is_failure:
            refusal.append(str(code))
        session[0] = flags.session_present
        connected.set()

    def on_subscribe(client: Any, userdata: Any, mid: int, codes: Any, properties: Any) -> None:
        say(ready=[code.value for code in codes], session=session[0])

    def on_message(client: Any, userdata: Any, message: Any) -> None:
        user = getattr(message.properties, "UserProperty", [])
        heard(message.topic, message.payload, message.qos, message.retain, user)

    client.on_connect, client.on_subscribe, client.on_message = on_connect, on_subscribe, on_message
    if order.get("will"):
        client.will_set(**order["will"])
    expiry = {"SessionExpiryInterval": 300} if order["keep"] else {}
    more: dict[str, Any] = {"clean_start": not order["keep"]} if new else {}
    client.connect(
        HOST, order["port"], 60, properties=paho_properties(PacketTypes.CONNECT, order, **expiry), **more
    )  # fmt: skip
    client.loop_start()
    assert connected.wait(PATIENCE_SECONDS), "no answer"
    if refusal:
        sys.exit(f"refused: {refusal[0]}")
    if order["do"] == "publish":
        user = {"UserProperty": order["user"]} if order["user"] else {}
        for payload in order["payloads"]:
            properties = paho_properties(PacketTypes.PUBLISH, order, **user)
            info = client.publish(order["topic"], payload, order["qos"], order["retain"], properties)
            info.wait_for_publish(PATIENCE_SECONDS)
    else:
        asking = {"UserProperty": order["user"]} if order["user"] else {}
        properties = paho_properties(PacketTypes.SUBSCRIBE, order, **asking)
        client.subscribe([(topic, order["qos"]) for topic in order["topics"]], properties=properties)
        sys.stdin.read()
    client.disconnect()
    client.loop_stop()


# -- aiomqtt


async def aiomqtt(order: Order) -> None:
    import aiomqtt as library
    from paho.mqtt.packettypes import PacketTypes

    new = order["version"] == 5
    expiry = {"SessionExpiryInterval": 300} if order["keep"] else {}
    async with library.Client(
        HOST,
        order["port"],
        identifier=order["id"],
        protocol=library.ProtocolVersion.V5 if new else library.ProtocolVersion.V311,
        clean_session=None if new else not order["keep"],
        clean_start=not order["keep"] if new else 3,
        properties=paho_properties(PacketTypes.CONNECT, order, **expiry),
        will=library.Will(**order["will"]) if order.get("will") else None,
    ) as client:
        if order["do"] == "publish":
            user = {"UserProperty": order["user"]} if order["user"] else {}
            for payload in order["payloads"]:
                properties = paho_properties(PacketTypes.PUBLISH, order, **user)
                await client.publish(order["topic"], payload, order["qos"], order["retain"], properties)
            return
        asking = {"UserProperty": order["user"]} if order["user"] else {}
        properties = paho_properties(PacketTypes.SUBSCRIBE, order, **asking)
        codes = await client.subscribe([(topic, order["qos"]) for topic in order["topics"]], properties=properties)
        say(ready=[getattr(code, "value", code) for code in codes])

        async def listen() -> None:
            async for message in client.messages:
                assert isinstance(message.payload, bytes | bytearray)
                user = getattr(message.properties, "UserProperty", [])
                heard(str(message.topic), bytes(message.payload), message.qos, message.retain, user)

        task = asyncio.create_task(listen())
        await end_of_input()
        task.cancel()


# -- gmqtt


async def gmqtt(order: Order) -> None:
    import gmqtt as library  # type: ignore[import-untyped]
    from gmqtt.mqtt.constants import MQTTv50, MQTTv311  # type: ignore[import-untyped]

    new = order["version"] == 5
    will = library.Message(**order["will"]) if order.get("will") else None
    expiry = {"session_expiry_interval": 300} if order["keep"] and new else {}
    client = library.Client(order["id"], clean_session=not order["keep"], will_message=will, **expiry)

    def on_message(client: Any, topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> int:
        heard(topic, payload, qos, properties["retain"], properties.get("user_property", []))
        return 0

    def on_subscribe(client: Any, mid: int, qos: Any, properties: Any) -> None:
        say(ready=list(qos))

    client.on_message, client.on_subscribe = on_message, on_subscribe
    await client.connect(HOST, order["port"], version=MQTTv50 if new else MQTTv311)
    if order["do"] == "publish":
        user = {"user_property": [tuple(pair) for pair in order["user"]]} if order["user"] else {}
        for payload in order["payloads"]:
            client.publish(order["topic"], payload, qos=order["qos"], retain=order["retain"], **user)
        await asyncio.wait_for(client._persistent_storage.wait_empty(), PATIENCE_SECONDS)
    else:
        asking = {"user_property": [tuple(pair) for pair in order["user"]]} if order["user"] else {}
        client.subscribe([library.Subscription(topic, qos=order["qos"]) for topic in order["topics"]], **asking)
        await end_of_input()
    await client.disconnect()


def main() -> None:
    order = json.loads(sys.argv[2])
    if sys.argv[1] == "paho":
        paho(order)
    else:
        asyncio.run({"aiomqtt": aiomqtt, "gmqtt": gmqtt}[sys.argv[1]](order))


if __name__ == "__main__":
    main()
