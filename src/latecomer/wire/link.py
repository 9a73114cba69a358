"""Broker links as bytes: a 4-byte big-endian length, then one message in MessagePack.

A message is an array that begins with its name (`messages/link`). Readers skip elements they do not know at the end of
an array and fill in defaults for those that are missing: that is how messages grow without a new protocol number.
"""

from __future__ import annotations

import msgspec

from latecomer.messages.link import LinkMessage
from latecomer.model.errors import ProtocolError

HEADER = 4
FRAME_MAX = 16 * 1024 * 1024
"""Bytes in one frame; larger lengths are refused before anything is buffered."""

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[LinkMessage] = msgspec.msgpack.Decoder(LinkMessage)


def encode(message: LinkMessage) -> bytes:
    """One frame."""
    body = _encoder.encode(message)
    if len(body) > FRAME_MAX:
        raise ProtocolError(f"a {type(message).__name__} of {len(body)} bytes exceeds the frame limit of {FRAME_MAX}")
    return len(body).to_bytes(HEADER, "big") + body


def decode_body(body: bytes | memoryview) -> LinkMessage:
    """The message in one frame, without its length."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"not a link message: {error}") from None


class Reader:
    """Cuts a byte stream into messages, however the stream was cut into chunks."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[LinkMessage]:
        """The messages that are complete now. After a `ProtocolError` the stream is lost: close the connection."""
        buffer = self._buffer
        buffer += chunk
        messages: list[LinkMessage] = []
        start = 0
        while len(buffer) - start >= HEADER:
            length = int.from_bytes(buffer[start : start + HEADER], "big")
            if length > FRAME_MAX:
                raise ProtocolError(f"a frame of {length} bytes exceeds the limit of {FRAME_MAX}")
            end = start + HEADER + length
            if len(buffer) < end:
                break
            messages.append(decode_body(bytes(buffer[start + HEADER : end])))
            start = end
        del buffer[:start]
        return messages

    @property
    def pending(self) -> int:
        """Bytes of a message that is not complete."""
        return len(self._buffer)
