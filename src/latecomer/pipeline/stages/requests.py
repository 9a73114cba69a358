"""What clients wrote when they asked or subscribed → the topic filter that they meant."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as f

FRONT = r"^\$(history|share)/[^/]*/"
"""`$history/since=-1h/a/b` and `$share/group/a/b`, as clients write them in front of a topic filter."""
CONTENT = r"(?s) ?\?.*$"
"""A content filter behind a topic filter (`model.filters.parse_filter`)."""


def topic_filter(column: str) -> Column:
    """The topic filter in what a client subscribed to or asked for."""
    text = f.col(column)
    stripped = f.regexp_replace(f.regexp_replace(text, FRONT, ""), CONTENT, "")
    return f.when(text.startswith("$") | text.contains("?"), stripped).otherwise(text)  # most have neither
