"""Versions, events, load failures and the coordinator state, rebuilt from history (R3, R7).

History is the four tables that together are the log, and the corrections of the state since. All of it is replayed by
the present rules, one shard for each offsets partition. Rebuilt rows name the audit that read their record, so they
equal those that the nights wrote. A killed rebuild leaves nothing to delete, and is repeated.

    quarantine decoded again -> history replayed -> versions, events, failures -> [current tables] -> state
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.audit.result import Rebuilt
from kgroups_spark.audit.work import AuditWork, replace_current
from kgroups_spark.coordinator.releases import Release
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import REBUILD_APP_ID
from kgroups_spark.lake.ledger import records_read, what_was_read
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.messages.coordinator_records import value_from_json
from kgroups_spark.replay.counts import TOPIC_FIELDS, Sighting, TopicNames, summed
from kgroups_spark.replay.history_rows import DECODED_TABLES, coordinator_fails, decodable
from kgroups_spark.replay.range_decoder import decoded_again
from kgroups_spark.replay.shard import AuditSpans, ReadBy
from kgroups_spark.replay.shard_states import Stored, kept_checkpoints, task_shards, usable_checkpoints
from kgroups_spark.replay.sinks import Fact, Sink, TaskOutput, sink_of
from kgroups_spark.replay.stages import CURRENT, EXPIRY, PREVIOUS, TRAFFIC, ShardTask
from kgroups_spark.replay.stored_history import (
    Checkpoint,
    PartReader,
    StoredHistory,
    StoredShard,
    StoredTable,
    TaskShards,
)
from kgroups_spark.tables.columns import Condition, expression_of
from kgroups_spark.tables.definitions import LOAD_WOULD_FAIL
from kgroups_spark.tables.rows import constant, with_columns
from kgroups_spark.tables.schemas import CHECKPOINTS, TABLES, arrow_schema
from kgroups_spark.words import counted, to_epoch_ms

# The tables of history that follow from the records. Those of quarantine's rows that have records stay.
REBUILT_TABLES = ("group_versions", "group_member_versions", "group_events", "quarantine")


def decoded_now(
    audit_id: int, stored: StoredHistory, reader: PartReader, *, counts_traffic: bool
) -> Iterator[TaskOutput]:
    """The quarantined records that decode now, as rows of their tables. `counts_traffic`: also of group_traffic."""
    for number in reader.shards:
        quarantine = decodable(StoredShard(stored, reader, number).rows("quarantine"))
        found = list(decoded_again(quarantine, number, audit_id))
        yield from (each for each in found if each[0] != TRAFFIC)
        traffic = [rows for name, rows in found if name == TRAFFIC]
        if traffic and counts_traffic:
            yield TRAFFIC, summed(pa.concat_tables(traffic))


class RebuildTask(NamedTuple):
    """The rows that follow from a shard's history. `stored`: all valid history, including that below checkpoints.
    `before`: the tables as the last audit left them, if they have rows that no replay can rebuild. `tables`: those with
    wanted rows. `read_by`: the audit that read each record; rows of history get its number."""

    replay: ShardTask
    stored: StoredHistory
    before: Mapping[str, StoredTable]
    tables: frozenset[str]
    read_by: ReadBy

    def outputs(self, reader: PartReader) -> Iterator[TaskOutput]:
        for output in self.replay.outputs(reader):
            if not isinstance(output, Fact) and output[0] in self.tables:
                name, rows = output
                yield name, self.read_by.with_audit_ids(rows) if TABLES[name].kind == "history" else rows
        for number in reader.shards:
            for name in self.before:
                yield name, self._kept(name, reader, number)
            yield "quarantine", self._quarantine(reader, number)

    def _kept(self, name: str, reader: PartReader, number: int) -> pa.Table:
        """Rows that no replay can rebuild: rows before a checkpoint, and replaced rows."""
        rows, begin = reader.rows(self.before[name], number), self.replay.stored.begins.get(number)
        is_kept = pa.array(self.stored.replaced.is_replaced(name, rows))
        if begin is not None:
            is_before = pc.less(rows["log_offset"], begin.log_offset)
            if name == "quarantine":  # rows with records stay anyway
                is_before = pc.and_(is_before, pc.equal(rows["reason"], LOAD_WOULD_FAIL["reason"]))
            is_kept = pc.or_(is_before, is_kept)
        return rows.filter(is_kept)

    def _quarantine(self, reader: PartReader, number: int) -> pa.Table:
        """Quarantined records stay; the present rules decide at which of them a load would fail."""
        release: Release = self.replay.night.release
        rows = StoredShard(self.stored, reader, number).rows("quarantine")
        rows = rows.filter(pc.field("reason") != LOAD_WOULD_FAIL["reason"])
        now = pc.and_(self.stored.is_decoded(rows, number), pc.is_null(rows.column("resolved_by")))
        ours = constant(self.replay.audit_id, len(rows), pa.int64())
        resolved_by = pc.if_else(now, ours, rows.column("resolved_by"))
        return with_columns(rows, resolved_by=resolved_by, coordinator_fails=coordinator_fails(rows, release))


PLACE = ["offsets_partition", "log_offset"]


def topics_in_history(lake: Lake, *conditions: Condition) -> list[Sighting]:
    """The names of topic ids in the stored records that meet the conditions."""

    def read(name: str, columns: Sequence[str], *more: Condition) -> Iterator[pa.RecordBatch]:
        rows = lake.dataset(name, [file.path for file in lake.table(name).files()])
        yield from rows.to_batches(columns=columns, filter=expression_of([*conditions, *more]))

    names = TopicNames()
    for batch in read("offset_commits", ["topic_id", "topic", "log_timestamp"], Condition("topic_id", "is not null")):
        names.add_commits(pa.Table.from_batches([batch]))
    columns = ["record_type", "value", "log_timestamp"]
    of_types = (Condition("record_type", "in", [*TOPIC_FIELDS]), Condition("value", "is not null"))
    for batch in read("group_records", columns, *of_types):
        for record_type, text, seen in zip(*(batch[name].to_pylist() for name in columns), strict=True):
            names.add_value(record_type, value_from_json(text), -1 if seen is None else to_epoch_ms(seen))
    return names.rows()


def rebuild(work: AuditWork, *, as_of_ms: int | None = None) -> Rebuilt:
    """Rebuilds the tables that follow from history, by the rules of a release, and sets `work.state`. `as_of_ms`: also
    the current tables, with expiry as of then (epoch ms); None: the audit goes on, and rewrites them itself."""
    return _Rebuild(work, as_of_ms).run()


class _Rebuild:
    def __init__(self, work: AuditWork, as_of_ms: int | None) -> None:
        assert work.before is not None
        self.work = work
        self.as_of_ms = as_of_ms
        # The current tables that it writes.
        self.current = () if as_of_ms is None else (*CURRENT, PREVIOUS)
        self.last = work.before.audit_id
        self.writer: LakeWriter = replace(work.writer, app_id=REBUILD_APP_ID)
        self.replaced = work.lake.replaced
        self.read = self.replaced.clipped(what_was_read(work.lake, self.last))
        self.read_by = ReadBy.of(self.read)

    def run(self) -> Rebuilt:
        work, say = self.work, self.work.progress
        say("rebuilding from history: decoding quarantine again")
        begins = usable_checkpoints(kept_checkpoints(work.lake), work.settings.release_version)
        added = self._decode_again()
        topics = tuple(self._topics(has_decoded=bool(added)))
        work.state = work.state._replace(topics=topics, has_decoded_again=bool(added))
        say(f"rebuilding from history: replaying {counted(len(work.shards), 'coordinator shard')}")
        decoded = self._decoded()
        with sink_of(self.writer) as sink:
            self._replay(sink, decoded, begins)
            say("rebuilding from history: committing")
            for name in REBUILT_TABLES:
                sink.replace(self.writer, name)
            if self.current:
                replace_current(work, sink, [])
            sink.replace(self.writer, CHECKPOINTS, keep_audit=work.state.kept_audit_id)
        work.state = work.state._replace(audit_id=work.audit_id)
        kinds = ["record_type", "value_version"]
        counts = decoded.group_by(kinds).aggregate([([], "count_all")]).to_pylist()
        return Rebuilt(added, Counter({(row[kinds[0]], row[kinds[1]]): row["count_all"] for row in counts}))

    @cached_property
    def _tasks(self) -> TaskShards:
        records = records_read(self.read)
        return task_shards({shard: records[shard] for shard in self.work.shards}, self.work.slots)

    def _history(self, tables: Mapping[str, StoredTable]) -> StoredHistory:
        """All history that counts. So far this audit has appended only the records that it decoded again."""
        return StoredHistory(tables, self.last, self.work.audit_id, self.replaced)

    def _decode_again(self) -> Counter[str]:
        """Appends the records that now decode; returns the number of rows by table. An audit that goes on counts the
        traffic itself, together with that of its new records."""
        stored = Stored(self.work.lake)
        tables = {"quarantine": stored.table("quarantine", "quarantine", arrow_schema("quarantine").names)}
        task = partial(decoded_now, self.work.audit_id, self._history(tables), counts_traffic=bool(self.current))
        with sink_of(self.writer) as sink:
            found = stored.run(sink, self._tasks, task)
            for name in DECODED_TABLES:
                sink.append(self.writer, name)
        return found.rows

    def _topics(self, *, has_decoded: bool) -> list[Sighting]:
        """The names that `topics` lacks: of records decoded again, or of all history if the table was lost."""
        if not self.work.then.rows("topics", ["topic_id"]).num_rows:
            return topics_in_history(self.work.lake)
        return topics_in_history(self.work.lake, *self._ours) if has_decoded else []

    @property
    def _ours(self) -> list[Condition]:
        return [Condition("audit_id", "==", self.work.audit_id)]

    def _decoded(self) -> pa.Table:
        """Log offsets and types of the records that were decoded again."""
        columns = [*PLACE, "record_type", "value_version"]
        names = ("offset_commits", "group_records")
        return pa.concat_tables([self.work.lake.rows(name, columns=columns, conditions=self._ours) for name in names])

    def _replay(self, sink: Sink, decoded: pa.Table, begins: dict[int, Checkpoint]) -> None:
        work, stored = self.work, Stored(self.work.lake)
        history = replace(self._history(stored.tables()), decoded=_by_partition(decoded), begins=begins)
        replay = ShardTask(replace(work.night([], self.as_of_ms), audits=self._spans()), work.ends([]), stored=history)
        if self.current:
            replay = replace(replay, given=stored.left_by(work.then, EXPIRY))
        task = RebuildTask(
            replay,
            replace(history, begins={}),
            self._before(stored) if begins or self.replaced else {},
            frozenset((*REBUILT_TABLES, *self.current, CHECKPOINTS)),
            self.read_by,
        )
        stored.run(sink, self._tasks, task.outputs)

    def _before(self, stored: Stored) -> dict[str, StoredTable]:
        versions = {name: self.work.then.version(name) for name in REBUILT_TABLES}
        return {
            name: stored.table(f"{name} before", name, arrow_schema(name).names, version)
            for name, version in versions.items()
            if version is not None
        }

    def _spans(self) -> AuditSpans:
        """The end and the retention of each audit, which both decide its events."""
        new = self.read.filter(pc.field("end_offset") > pc.field("start_offset"))
        retention = pc.fill_null(new["retention_ms"], self.work.settings.retention_ms)
        spans: dict[int, list[tuple[int, int]]] = {}
        for number, *span in zip(
            new["offsets_partition"].to_pylist(), new["end_offset"].to_pylist(), retention.to_pylist(), strict=True
        ):
            spans.setdefault(number, []).append((span[0], span[1]))
        return {number: sorted(each) for number, each in spans.items()}


def _by_partition(decoded: pa.Table) -> dict[int, NDArray[np.int64]]:
    numbers, places = (decoded.column(name).to_numpy() for name in PLACE)
    return {int(number): places[numbers == number] for number in np.unique(numbers)}
