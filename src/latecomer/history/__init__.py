"""What a store keeps: events on disk, by the time they were published.

engine      the store: append, read, survey, expire, roll, status, verify
segment     one SQLite file: the events of a stretch of time, and what they add up to
lookup      a query over segments: forwards in pages, backwards for the last so many
sums        counts and digests, by which replicas compare what they have
retention   letting go: by age, size and count, or into the cold tier
repair      damage: what fails its checksum is kept and not served
verify      looking at everything at once
scrub       looking at everything, a little at a time
kept        since when everything is kept
journal     SQLite's own journal, as far as SQLite does not tell
files       the file system, and connections to SQLite
owned       directories for one user and one process
cold        old segments as Parquet
"""

from __future__ import annotations

from latecomer.history.engine import Engine
from latecomer.history.errors import Problem, StoreBusy, StoreFailed, StoreFull, VerifyReport
from latecomer.history.settings import EngineSettings

__all__ = ["Engine", "EngineSettings", "Problem", "StoreBusy", "StoreFailed", "StoreFull", "VerifyReport"]
