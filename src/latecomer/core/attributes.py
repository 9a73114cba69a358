"""The attributes of an event: what content filters look at (architecture §4).

Those of an MQTT message are its user properties and the top-level fields of a JSON object in its payload; they are
worked out only where somebody filters by content. A user property goes before a field of the same name, and of two
user properties with the same name the later one counts.

Decision: MQTT knows only texts. A user property that reads as a JSON number, `true` or `false` is that; any other
is text, also a number too large to be one. Fields that are no single value (null, arrays, objects) are no attributes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite

import msgspec

from latecomer.model.event import Event, Value
from latecomer.model.ids import NUMBER_MAX

JSON_MAX = 65_536
"""Bytes of a payload that is read for its fields; a longer one has none."""

_number = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,3})?")
_json: msgspec.json.Decoder[object] = msgspec.json.Decoder()


def attributes_of(event: Event) -> Mapping[str, Value]:
    """What content filters are matched against."""
    if event.attributes:
        return event.attributes
    found: dict[str, Value] = {}
    payload = event.payload
    if payload[:1] == b"{" and len(payload) <= JSON_MAX:
        found = _fields(payload)
    if event.extras is not None:
        for name, text in event.extras.user:
            found[name] = _typed(text)
    return found


def _fields(payload: bytes) -> dict[str, Value]:
    try:
        decoded = _json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}  # a payload need not be JSON
    if not isinstance(decoded, dict):
        return {}
    return {
        name: value
        for name, value in decoded.items()
        if isinstance(value, (bool, float, str)) or (isinstance(value, int) and -NUMBER_MAX <= value <= NUMBER_MAX)
    }


def _typed(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    if _number.fullmatch(text) is None:
        return text
    if not any(sign in text for sign in ".eE"):
        return int(text)
    number = float(text)
    return number if isfinite(number) else text
