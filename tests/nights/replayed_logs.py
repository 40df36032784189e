"""The tables of a whole log without a lake: decoded at once, and replayed shard by shard from nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from kgroups_spark.audit.work import known_topics
from kgroups_spark.coordinator.state_entries import made_by
from kgroups_spark.offsets.columns import JoinedLog
from kgroups_spark.replay.counts import Sighting, TopicNames, summed
from kgroups_spark.replay.ranges import RangeProgress
from kgroups_spark.replay.shard import Night, ShardReplay
from kgroups_spark.replay.state import LogState, checkpoint_rows, saved
from kgroups_spark.tables.definitions import NIGHT
from kgroups_spark.tables.rows import no_rows
from kgroups_spark.tables.schemas import arrow_schema
from tests.logs.log_files import Files, segments_of
from tests.nights.decoded import decode, plain
from tests.nights.nights_here import How
from tests.nights.reported_tables import Reported, stored_as
from tests.offsets.log_tables import shard_history

LOG = ("offset_commits", "group_records", "transaction_markers", "quarantine")
# Tables with rows that change after decoding: the replay completes markers, and traffic is summed up.
COMPLETED = ("transaction_markers", "group_traffic")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MemoryTables(Reported):
    """Tables in memory. `progress`: of the decoded ranges."""

    def __init__(self, tables: Mapping[str, Sequence[pa.Table]], progress: Sequence[RangeProgress] = ()) -> None:
        self._tables, self.progress = tables, progress

    def table(self, name: str) -> pa.Table:
        return pa.concat_tables([no_rows(arrow_schema(stored_as(name))), *self._tables.get(name, ())])

    def record_counts(self) -> Counter[tuple[int, int | None]]:
        return sum((each.record_counts for each in self.progress), Counter())


def replayed(files: Files, how: How, known: Iterable[Sighting] = ()) -> MemoryTables:
    """The tables that one audit of the whole log should write. `known`: names of topic ids from other sources."""
    read, names = decode(files, how.release), TopicNames()
    names.merge(known)
    for each in read.progress:
        names.merge(each.topics)
    tables = defaultdict(list, {name: list(rows) for name, rows in read.tables.items() if name not in COMPLETED})
    night = Night(1, how.release, how.offsets_partitions, known_topics(names), how.retention_ms)
    for partition in segments_of(files):
        log = JoinedLog.over([partition], {})
        history = shard_history((read.table(name, partition) for name in LOG), log=log)
        replay = ShardReplay(night, LogState(), history)
        for name, rows in replay.outputs():
            tables[name].append(plain(name, rows))
        state = checkpoint_rows(saved(replay.state), {partition: 0}, made_by(1, NIGHT, how.release))
        tables[NIGHT].append(plain(NIGHT, state))
    traffic = [read.table("group_traffic", each) for each in {each.offsets_partition for each in read.progress}]
    tables["group_traffic"] = [summed(rows) for rows in traffic if len(rows)]
    tables["topics"] = [_topics(names)]
    return MemoryTables(tables, read.progress)


def _topics(names: TopicNames) -> pa.Table:
    columns = ("topic_id", "topic", "seen_log_timestamp", "source")
    rows = [dict(zip(columns, row, strict=True)) for row in names.rows()]
    for row in rows:
        ms = row["seen_log_timestamp"]
        row |= {"audit_id": 1, "seen_log_timestamp": None if ms is None else EPOCH + timedelta(milliseconds=ms)}
    return pa.Table.from_pylist(rows, schema=arrow_schema("topics"))
