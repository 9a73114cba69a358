"""Event logs by number: a network, who asks for what in it, and the segments that its brokers would have written.

Popularity falls by Zipf's law, brokers are unequally busy, and four fifths of the requests for a topic come from around
its home. Every request leaves two records, as in a network that runs: that it was asked, and how far its answer came.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from random import Random

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from latecomer.eventlog.schema import SCHEMA
from latecomer.model.record import Kind
from latecomer.model.topology import Topology
from latecomer.model.topology_generators import barabasi_albert
from latecomer.planner.distances import distances_of

START_US = 1_790_000_000_000_000
DAYS = 30
SEGMENT_REQUESTS = 500_000
CLIENTS = 20_000
ZIPF, BUSY = 0.9, 0.5
"""Exponents: of topics, and of brokers."""
AROUND = 0.8
"""Share of a topic's requests that come from around its home, where they fall by a factor of e every NEAR hops."""
NEAR = 1.5
FORMS = ("city/{}/#", "$history/since=-1h/city/{}/air")
"""How requests are written: three quarters for the whole class, the others for one topic in it."""
DEPTH = 2

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LogSize:
    """So many requests for so many topics in a network of as many brokers."""

    requests: int
    brokers: int

    @property
    def topics(self) -> int:
        return self.brokers

    @property
    def name(self) -> str:
        return f"log-{self.requests}-{self.brokers}"


@lru_cache(maxsize=4)
def network(brokers: int) -> Topology:
    """A tree in which newcomers prefer who has many links: what requests travel on, whatever other links there are."""
    return barabasi_albert(brokers, 1, Random(1))


@lru_cache(maxsize=2)
def shares(brokers: int) -> tuple[Floats, Ints]:
    """[T · N] the share of each place in all requests, and [T, N] how far it is from the store that has the topic."""
    topics = brokers
    chance = np.random.default_rng(1)
    distance = distances_of(network(brokers)).distance.astype(np.int64)
    popular = chance.permutation(np.arange(1, topics + 1) ** -ZIPF)
    busy = chance.permutation(np.arange(1, brokers + 1) ** -BUSY)
    near = busy * np.exp(-distance[chance.integers(0, brokers, topics)] / NEAR)
    where = AROUND * near / near.sum(axis=1, keepdims=True) + (1 - AROUND) * busy / busy.sum()
    found = (where * popular[:, None]).ravel()
    return found / found.sum(), distance[chance.integers(0, brokers, topics)]


def write_log(folder: Path, size: LogSize) -> Path:
    """The log, made by all cores, unless it is there; the same every time."""
    place = folder / size.name
    if place.is_dir():
        return place
    hidden = folder / f".{size.name}"
    hidden.mkdir(parents=True, exist_ok=True)
    number = max(1, -(-size.requests // SEGMENT_REQUESTS))
    work = [(str(hidden), size.requests, size.brokers, number, segment) for segment in range(number)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        list(pool.map(_write_segment, work))
    hidden.rename(place)
    return place


def _write_segment(work: tuple[str, int, int, int, int]) -> None:
    folder, requests, brokers, segments, segment = work
    share, hops = shares(brokers)
    chance = np.random.default_rng([7, segment])
    first, last = requests * segment // segments, requests * (segment + 1) // segments
    count = last - first
    drawn = np.repeat(np.arange(len(share), dtype=np.int32), chance.multinomial(count, share))
    chance.shuffle(drawn)
    topic, broker = drawn // brokers, drawn % brokers
    asked_us = START_US + np.arange(first, last) * (DAYS * 86_400_000_000 // requests)
    at_us = np.stack([asked_us, asked_us + 20_000], axis=1).ravel()
    one = chance.random(count) < 0.25
    far = np.stack([np.full(count, -1), hops[topic, broker]], axis=1).ravel()
    twice = np.repeat(np.arange(count), 2)
    answered = np.tile([0, 1], count)
    names = [f"b{number + 1}" for number in range(brokers)]
    filters = [form.format(number) for form in FORMS for number in range(brokers)]
    clients = [f"client-{number:05}" for number in range(CLIENTS)]
    columns = {
        "at_us": pa.array(at_us),
        "time": pa.array(at_us).cast(pa.timestamp("us", tz="UTC")),
        "broker": _words(broker[twice], names),
        "kind": _words(answered, [Kind.REQUESTED.value, Kind.RECALLED.value]),
        "client": _words(chance.integers(0, CLIENTS, count)[twice], clients),
        "filter": _words((topic + one * brokers)[twice], filters),
        "peer": _words(answered, ["", "store"]),
        "hops": pa.array(far.astype(np.int32)),
        "count": pa.array(answered * 10),
        "detail": _words(answered, ["", "complete"]),
    }
    nothing = _words(np.zeros(2 * count, np.int32), [""])
    table = pa.table({name: columns.get(name, nothing) for name in SCHEMA.names})
    path = Path(folder) / f"segment-{segment:06}.parquet"
    # Without Arrow's own schema words are words again when they are read, however they were made.
    pq.write_table(table, path, compression="zstd", compression_level=1, write_page_checksum=True, store_schema=False)


def _words(numbers: npt.NDArray[np.integer], words: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32)), pa.array(words))
