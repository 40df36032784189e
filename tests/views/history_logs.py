"""Logs for the tests of history: recorded from brokers, and random ones, each audited in nights of several ranges."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from functools import cache, cached_property

import duckdb
import numpy as np
import pyarrow as pa
from crc32c import crc32c

from kgroups_spark.audit.work import known_topics
from tests.chosen import some_of
from tests.logs.dense_logs import dense_log
from tests.logs.generated_logs import LOGS
from tests.logs.log_files import Files, of_one_leader, random_cuts, read_zip
from tests.nights.nights_here import Audited, How, audit_nights
from tests.recorded_logs import CORPORA
from tests.views.arrow_tables import with_known_history
from tests.views.replayed_logs import ReplayedLog

NIGHTS, RANGES = 2, 3
# The length of random logs, in which transactions go on and on.
BATCHES = 60
# It reads what dense logs hold of records of type 0; like all since 3.8 it lets in what the views say.
READS_ALL = "4.0"
RECORDED = {
    "classic-4.3": "4.3",
    "expiry-4.3-after": "4.3",
    "kip848-4.3": "4.3",
    "legacy-2.8-upgraded": "2.8",
    "mixed-upgrade": "4.3",
    "share-4.3": "4.3",
    "streams-4.3": "4.3",
    "transactions-4.3": "4.3",
}
GENERATED = ("wellformed-1001", "wellformed-2001", "compacted-3001", "adversarial-loadable-5001")
DENSE = tuple(f"dense-{seed}" for seed in range(6))
SOME_LOGS = [*some_of(1, *RECORDED, *GENERATED), *some_of(1, *DENSE)]
# 2040, and the first year that no TIMESTAMP is printed of.
AHEAD = (2_208_988_800_000, 253_402_300_800_000)


@dataclass(frozen=True, eq=False)
class HistoryLog:
    """A log, its audits, and its replay. `version`: the release whose rules apply."""

    files: Files
    version: str
    seed: int = 0

    @cached_property
    def audited(self) -> Audited:
        """In nights of ranges, so that markers are read apart from what they end."""
        cuts = random_cuts(self.files, np.random.default_rng(self.seed), NIGHTS, RANGES)
        return audit_nights(self.files, cuts, How(self.version))

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        return self.audited.tables()

    @cached_property
    def replayed(self) -> ReplayedLog:
        return ReplayedLog(self.files, self.version, known_topics(self.audited.topic_names()))

    @cached_property
    def views(self) -> duckdb.DuckDBPyConnection:
        return with_known_history(self.tables)


@cache
def history_log(name: str) -> HistoryLog:
    if name in RECORDED:
        return HistoryLog(read_zip(CORPORA)[name], RECORDED[name], len(name))
    if name.startswith("dense"):
        seed = int(name.split("-")[1])
        return HistoryLog(with_times(dense_log(seed, BATCHES), seed), READS_ALL, seed)
    if name.startswith("ahead"):
        return HistoryLog(ahead_log(1, AHEAD[0]), READS_ALL, 1)
    return HistoryLog(of_one_leader(read_zip(LOGS)[name]), "4.3", 7)


def ahead_log(seed: int, time: int) -> Files:
    """A dense log, some batches of which are stamped with that time."""
    return with_times(dense_log(seed, BATCHES), seed, time)


def with_times(files: Files, seed: int, odd: int = -1) -> Files:
    """The log with times of its own: some batches have the same, in some the clock steps back, and some have none (or
    another `odd` time)."""
    rng, stamped = random.Random(seed), {}
    for path, data in files.items():
        position, now, batches = 0, 1_000_000, b""
        while position < len(data):
            (length,) = struct.unpack_from(">i", data, position + 8)
            batch = bytearray(data[position : position + 12 + length])
            position += len(batch)
            now += rng.choice([0, 1, 5, 5, -3])
            struct.pack_into(">q", batch, 27, now if rng.random() < 0.9 else odd)
            struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
            batches += bytes(batch)
        stamped[path] = batches
    return stamped
