"""Why a statement has no test: a sentence for each, by version and number."""

from __future__ import annotations

CLIENT = "The client's duty; a broker has nothing to do or to check here."
NO_AUTH = "This broker has no enhanced authentication: every method is refused with 0x8C before an AUTH could be sent."

V5: dict[str, str] = {
    "MQTT-3.1.2-20": CLIENT,
    "MQTT-3.2.2-4": CLIENT,
    "MQTT-3.2.2-5": CLIENT,
    "MQTT-3.2.2-11": "The client's duty; this broker has all QoS and announces no Maximum QoS that could be exceeded.",
    "MQTT-3.2.2-14": "The client's duty; this broker retains and never announces that it does not.",
    "MQTT-3.3.2-10": CLIENT,
    "MQTT-3.3.4-8": CLIENT,
    "MQTT-3.15.2-1": NO_AUTH,
    "MQTT-3.15.2-2": NO_AUTH,
    "MQTT-3.15.2-3": NO_AUTH,
    "MQTT-4.5.0-2": CLIENT,
    "MQTT-4.6.0-1": CLIENT,
    "MQTT-4.6.0-2": CLIENT,
    "MQTT-4.6.0-3": CLIENT,
    "MQTT-4.6.0-4": CLIENT,
    "MQTT-4.12.0-2": NO_AUTH,
    "MQTT-4.12.0-3": "The client's duty, and " + NO_AUTH[0].lower() + NO_AUTH[1:],
    "MQTT-4.12.0-5": NO_AUTH,
}

V311: dict[str, str] = {
    "MQTT-2.3.1-2": CLIENT,
    "MQTT-2.3.1-3": CLIENT,
    "MQTT-3.1.2-23": CLIENT,
    "MQTT-4.5.0-2": CLIENT,
    "MQTT-4.6.0-1": CLIENT,
    "MQTT-4.6.0-2": CLIENT,
    "MQTT-4.6.0-3": CLIENT,
    "MQTT-4.6.0-4": CLIENT,
    "MQTT-4.8.0-2": "A transient error, as of a full disk, cannot be caused from outside.",
    "MQTT-7.0.0-1": "Brokers are linked by a protocol of their own; none is an MQTT client of another.",
    "MQTT-7.1.2-1": CLIENT,
}
