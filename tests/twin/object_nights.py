"""The tables of a log by the slow twin of the replay: decoded, then replayed record by record by a shard of objects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from kgroups_spark.audit.work import known_topics
from kgroups_spark.replay.counts import Sighting, TopicNames, summed
from kgroups_spark.replay.ranges import RangeProgress
from kgroups_spark.replay.shard import AuditSpans, Night
from kgroups_spark.tables.rows import no_rows
from kgroups_spark.tables.schemas import CHECKPOINTS, arrow_schema
from tests.logs.log_files import Files
from tests.nights.decoded import decode, plain
from tests.nights.nights_here import How
from tests.nights.reported_tables import RECORD_TABLES, Reported, stored_as
from tests.twin.object_replay import replay_partitions
from tests.twin.object_rows import correction_rows, in_log_order, replay_rows

# Tables with rows that change after decoding: the replay completes markers, and traffic is summed up.
COMPLETED = ("transaction_markers", "group_traffic")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ObjectTables(Reported):
    """Tables in memory. `progress`: of the decoded ranges."""

    def __init__(self, tables: Mapping[str, Sequence[pa.Table]], progress: Sequence[RangeProgress] = ()) -> None:
        self._tables, self.progress = tables, progress

    def table(self, name: str) -> pa.Table:
        return pa.concat_tables([no_rows(arrow_schema(stored_as(name))), *self._tables.get(name, ())])

    def record_counts(self) -> Counter[tuple[int, int | None]]:
        return sum((each.record_counts for each in self.progress), Counter())


def by_objects(
    files: Files, how: How, known: Iterable[Sighting] = (), audits: AuditSpans | None = None
) -> ObjectTables:
    """The tables that one audit of the whole log should write. `known`: names of topic ids from other sources.
    `audits`: as in replay_shard.Night, if several audits read the log."""
    read, names = decode(files, how.release), TopicNames()
    names.merge(known)
    for each in read.progress:
        names.merge(each.topics)
    tables = {name: list(rows) for name, rows in read.tables.items() if name not in COMPLETED}
    for name, made in _replayed([replay_rows(read.tables)], how, names, audits):
        tables.setdefault(name, []).append(made)
    traffic = [read.table("group_traffic", each) for each in {each.offsets_partition for each in read.progress}]
    tables["group_traffic"] = [summed(rows) for rows in traffic if len(rows)]
    tables["topics"] = [_topics(names)]
    return ObjectTables(tables, read.progress)


def rebuilt_by_objects(audited: Reported, how: How, audits: AuditSpans | None = None) -> ObjectTables:
    """The tables that follow from history and corrections. `audits`: as in replay_shard.Night."""
    history = replay_rows({name: [audited.table(name)] for name in RECORD_TABLES})
    made: dict[str, list[pa.Table]] = defaultdict(list)
    corrected = correction_rows(audited.rows(CHECKPOINTS))
    for name, rows in _replayed([history, corrected], how, audited.topic_names(), audits):
        made[name].append(rows)
    return ObjectTables(made)


def _replayed(
    rows: Sequence[pa.Table], how: How, names: TopicNames, audits: AuditSpans | None = None
) -> Iterator[tuple[str, pa.Table]]:
    topics = known_topics(names)
    night = Night(1, how.release, how.offsets_partitions, topics, how.retention_ms, audits=audits or {})
    for name, made in replay_partitions(in_log_order(rows), night):
        yield name, plain(name, made)


def _topics(names: TopicNames) -> pa.Table:
    columns = ("topic_id", "topic", "seen_log_timestamp", "source")
    rows = [dict(zip(columns, row, strict=True)) for row in names.rows()]
    for row in rows:
        ms = row["seen_log_timestamp"]
        row |= {"audit_id": 1, "seen_log_timestamp": None if ms is None else EPOCH + timedelta(milliseconds=ms)}
    return pa.Table.from_pylist(rows, schema=arrow_schema("topics"))
