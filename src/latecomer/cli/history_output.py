"""Where `latecomer history` puts what it gets: lines for people and programs, or a Parquet file."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Literal, Protocol

from paho.mqtt.client import MQTTMessage

from latecomer.cli.sub import as_dict, printable
from latecomer.client.words import ADDED
from latecomer.model.errors import SettingsError
from latecomer.model.when import parse_when
from latecomer.sim.transcript import plain

Format = Literal["text", "json", "csv", "parquet"]
GROUP_ROWS, GROUP_BYTES = 50_000, 32 * 1024 * 1024
"""A row group of Parquet is written when one of them is reached: what is in memory at most."""
COLUMNS = ("published", "topic", "event", "qos", "payload", "payload_base64", "content_type", "user_properties")


class Output(Protocol):
    """Takes messages in order; what was taken is whole after `close`, also when the history is not."""

    def take(self, message: MQTTMessage, published: str, event: str) -> None: ...

    def close(self) -> None: ...


def open_output(format: Format, file: Path | None) -> Output:
    """A file, or standard output."""
    stream: IO[bytes] = sys.stdout.buffer if file is None else file.open("wb")
    tty = file is None and sys.stdout.isatty()
    if format == "parquet":
        return ParquetOutput(stream, owned=file is not None)
    line: Callable[[MQTTMessage, str, str], bytes]
    if format == "json":
        line = json_line
    elif format == "csv":
        stream.write(csv_line(COLUMNS))
        line = csv_row
    else:
        line = text_line_safe if tty else text_line
    return Lines(stream, line, owned=file is not None, at_once=tty)


def check_output(format: Format, file: Path | None) -> None:
    if format == "parquet" and file is None and sys.stdout.isatty():
        raise SettingsError("--out", "is missing: Parquet cannot be printed on a terminal; name a file")


class Lines:
    """One line, or several if a payload has several, for each message."""

    def __init__(
        self, stream: IO[bytes], line: Callable[[MQTTMessage, str, str], bytes], *, owned: bool, at_once: bool
    ) -> None:
        self.stream = stream
        self.line = line
        self.owned = owned
        self.at_once = at_once

    def take(self, message: MQTTMessage, published: str, event: str) -> None:
        self.stream.write(self.line(message, published, event))
        if self.at_once:
            self.stream.flush()

    def close(self) -> None:
        self.stream.flush()
        if self.owned:
            self.stream.close()


def text_line(message: MQTTMessage, published: str, event: str) -> bytes:
    return published.encode() + b" " + plain(message.topic).encode() + b" " + bytes(message.payload) + b"\n"


def text_line_safe(message: MQTTMessage, published: str, event: str) -> bytes:
    """On a terminal nothing in it can be mistaken for an order to the terminal."""
    payload = bytes(message.payload).decode("utf-8", "backslashreplace")
    return f"{plain(published)} {plain(message.topic)} {plain(payload)}\n".encode()


def row_of(message: MQTTMessage, published: str, event: str) -> dict[str, Any]:
    """Everything a message of the past says; what the broker added stands in columns of its own."""
    told = as_dict(message)
    told["user_properties"] = told.get("user_properties", [])[: -len(ADDED)]
    return {"topic": told.pop("topic"), "published": published, "event": event, **told}


def json_line(message: MQTTMessage, published: str, event: str) -> bytes:
    row = row_of(message, published, event)
    del row["retain"]  # what is replayed is never retained
    return printable(json.dumps(row, ensure_ascii=False)).encode() + b"\n"


def csv_row(message: MQTTMessage, published: str, event: str) -> bytes:
    row = row_of(message, published, event)
    pairs = row["user_properties"]
    row["user_properties"] = json.dumps(pairs, ensure_ascii=False) if pairs else ""
    return csv_line([row.get(column, "") for column in COLUMNS])


def csv_line(cells: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


class ParquetOutput:
    """One file, row group by row group."""

    def __init__(self, stream: IO[bytes], *, owned: bool) -> None:
        import pyarrow as pa  # a third of a second, for those who want it
        import pyarrow.parquet as pq

        self.stream = stream
        self.owned = owned
        self.arrow = pa
        text = pa.string()
        self.schema = pa.schema(
            [
                pa.field("published", pa.timestamp("us", tz="UTC"), nullable=False),
                pa.field("topic", text, nullable=False),
                pa.field("event", text, nullable=False),
                pa.field("qos", pa.int8(), nullable=False),
                pa.field("payload", pa.binary(), nullable=False),
                pa.field("content_type", text),
                pa.field("user_properties", pa.list_(pa.struct([("name", text), ("value", text)])), nullable=False),
            ]
        )
        self.writer = pq.ParquetWriter(stream, self.schema, compression="zstd")
        self.rows: list[dict[str, Any]] = []
        self.size = 0

    def take(self, message: MQTTMessage, published: str, event: str) -> None:
        row = row_of(message, published, event)
        self.rows.append(
            {
                "published": parse_when(published, 0),
                "topic": message.topic,
                "event": event,
                "qos": message.qos,
                "payload": bytes(message.payload),
                "content_type": row.get("content_type"),
                "user_properties": [{"name": name, "value": value} for name, value in row["user_properties"]],
            }
        )
        self.size += len(message.payload)
        if len(self.rows) >= GROUP_ROWS or self.size >= GROUP_BYTES:
            self._write()

    def _write(self) -> None:
        if self.rows:
            self.writer.write_table(self.arrow.Table.from_pylist(self.rows, schema=self.schema))
            self.rows, self.size = [], 0

    def close(self) -> None:
        self._write()
        self.writer.close()
        self.stream.flush()
        if self.owned:
            self.stream.close()
