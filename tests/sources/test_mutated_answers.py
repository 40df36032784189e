"""Brokers that answer as no broker would: planning and fetching end with the records or with one clear message,
and in time. Only a null where the protocol has none ends them with Python's own error."""

from __future__ import annotations

import random
import struct
import threading
from functools import partial

import pytest

from kgroups_spark.cluster import connection
from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.cluster.cluster import Cluster
from kgroups_spark.cluster.fetch import FetchedLog, FetchLimits
from kgroups_spark.cluster.live_log import live_logs
from kgroups_spark.errors import KgroupsError
from kgroups_spark.sources.partition_log import FetchPiece
from tests.nights.live_nights import Log, LogBrokers
from tests.records.build import batch
from tests.sources.fake_broker import FakeBroker

TOPIC = "__consumer_offsets"
API_VERSIONS, METADATA, LIST_OFFSETS, FETCH = 18, 3, 2, 1
BATCHES = [batch(10 * number, [(b"k", b"v")] * 10) for number in range(100)]
# All time-outs are 300 and 400 ms; a machine that is busy takes its time.
FAR_TOO_LONG = 30
EXTREMES = [
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff\xff\xff\xff\x0f",
    b"\0\0",
    b"\xff\xff",
]


def mutated(answer, rng):
    """One to four changes of the first 160 bytes; the frame's length and correlation id are right."""
    data = bytearray(answer)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(8, min(len(data), 160)) if len(data) > 9 else 8
        kind = rng.randrange(5)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at] = rng.randbytes(rng.randint(1, 6))
        elif kind == 2:
            del data[at : at + rng.randint(1, 6)]
        elif kind == 3:
            extreme = rng.choice(EXTREMES)
            data[at : at + len(extreme)] = extreme
        else:
            del data[at:]
    data[:4] = struct.pack(">i", len(data) - 4)
    return bytes(data)


class MutatingBroker(FakeBroker):
    """Leads the only partition of the topic; its answers to one kind of request are mutated."""

    def __init__(self, target, rng):
        self._target, self._rng = target, rng
        self._log = LogBrokers({TOPIC: [Log(BATCHES)]}, nodes=0)
        self._log.brokers = {1: self}
        answers = {"Metadata": partial(self._log.Metadata, 1), "ListOffsets": partial(self._log.ListOffsets, 1)}
        answers |= {"Fetch": self._fetch}
        super().__init__(answers)

    def _answer(self, frame):
        answer = super()._answer(frame)
        is_meant = isinstance(answer, bytes | bytearray) and int.from_bytes(frame[:2], "big") == self._target
        return mutated(bytes(answer), self._rng) if is_meant else answer

    def _fetch(self, request):
        request.topics[0].partitions[0].partition_max_bytes = 2000
        return self._log.Fetch(1, request)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr("kgroups_spark.cluster.connection.SHORTEST_PAUSE", 0.001)
    monkeypatch.setattr("kgroups_spark.cluster.connection.LONGEST_PAUSE", 0.02)


PROPERTIES = {
    "default.api.timeout.ms": "300",
    "request.timeout.ms": "400",
}


def read_all(broker):
    """The number of bytes that planning and fetching give."""
    with Cluster(client_properties(broker.address, PROPERTIES)) as cluster:
        size = 0
        for log in live_logs(cluster, TOPIC).logs[:2]:
            end = min(log.high_watermark, 10**6)
            limits = FetchLimits(timeout_ms=300)
            piece = FetchPiece(TOPIC, log.number, log.topic_id, log.start, end, True, None, 1.0)
            fetched = FetchedLog(cluster, piece, limits)
            buffer, reads = memoryview(bytearray(5000)), 0
            while reads < 200 and (got := fetched.readinto(buffer)):
                size, reads = size + got, reads + 1
        return size


def ends(seed):
    """How reading from a broker with answers mutated by this seed ends: `read`, or a message."""
    rng = random.Random(seed)
    found: list[str] = []

    def go():
        try:
            with MutatingBroker(rng.choice([API_VERSIONS, METADATA, LIST_OFFSETS, FETCH, FETCH]), rng) as broker:
                read_all(broker)
            found.append("read")
        except KgroupsError as error:
            found.append(str(error))
        except BaseException as error:
            if "NoneType" in str(error):
                found.append("a null where the protocol has none")
                return
            found.append(f"{type(error).__name__} is no message: {error}")
            raise

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join(FAR_TOO_LONG)
    return found[0] if found else f"nothing after {FAR_TOO_LONG} s"


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch):
    monkeypatch.setattr(connection, "LEAST_TIME", 0.3)
    yield


def test_each_answer_ends_in_records_or_one_clear_message_in_time(chosen):
    seed = chosen.random.randrange(1 << 32)
    print(f"mutations of seed {seed}")  # noqa: T201  pytest shows it if the test fails
    for number in range(760 if chosen.every else 25):
        said = ends(f"{seed} {number}")
        assert "is no message" not in said and not said.startswith("nothing after"), (seed, number, said)
        assert said and "\n" not in said, (seed, number, said)
