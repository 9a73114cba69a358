"""A helper for applications: it follows references of brokers, asks for history, filters by content, and says where it
goes.

    latecomer.client.aio        asyncio, over aiomqtt
    latecomer.client.threaded   threads and callbacks, over paho-mqtt

Both speak the same words, which are here. `pip install 'latecomer[client]'` brings what they need.
"""

from __future__ import annotations

from latecomer.client.addresses import Address, parse_address
from latecomer.client.course import Profile
from latecomer.client.journey import GaveUp, Patience, Refused
from latecomer.client.words import End, Heard, Message, Subscription, Welcome

__all__ = [
    "Address",
    "End",
    "GaveUp",
    "Heard",
    "Message",
    "Patience",
    "Profile",
    "Refused",
    "Subscription",
    "Welcome",
    "parse_address",
]
