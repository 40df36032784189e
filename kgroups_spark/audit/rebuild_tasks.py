"""The two passes of a rebuild over a shard's history, as tasks run them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.releases import Release
from kgroups_spark.decoding.group_traffic import summed
from kgroups_spark.decoding.load_failures import coordinator_fails, misread
from kgroups_spark.decoding.redecode import decodable, decoded_again
from kgroups_spark.history.names import NAMING, NamesOfShard
from kgroups_spark.lake.replaced import Replaced
from kgroups_spark.replay.history_parts import PartReader
from kgroups_spark.replay.replay_shard import Output
from kgroups_spark.replay.stored_history import StoredHistory
from kgroups_spark.replay.stored_tables import StoredTable
from kgroups_spark.tables.quarantine import LOAD_WOULD_FAIL, MISREAD_COLUMNS
from kgroups_spark.tables.rows import as_table, constant, table_batch, with_columns
from kgroups_spark.tasks.outputs import Fact, TaskOutput
from kgroups_spark.tasks.replay_stage import TRAFFIC, ShardTask

# The tables of history that follow from the records. Those of quarantine's rows that have records stay.
REBUILT_TABLES = ("group_versions", "group_member_versions", "group_events", "quarantine")
_ASKED = [name for name in MISREAD_COLUMNS if name != "detail"]


@dataclass(frozen=True)
class LookTask:
    """The quarantined records that decode now, as rows of their tables, and the names in all records (NamesOfShard).

    `counts_traffic`: group_traffic gets them, too.
    """

    audit_id: int
    stored: StoredHistory
    counts_traffic: bool

    def outputs(self, reader: PartReader, offsets_partition: int) -> Iterator[TaskOutput]:
        """(table, rows) of one shard, and its names as a fact."""
        shard = self.stored.shard(reader, offsets_partition)
        names, traffic = NamesOfShard(offsets_partition), list[pa.Table]()
        for name, rows in decoded_again(decodable(shard.rows("quarantine")), offsets_partition, self.audit_id):
            if name == TRAFFIC:
                traffic.append(as_table(rows))
            else:
                names.see(name, as_table(rows))
                yield name, rows
        if traffic and self.counts_traffic:
            yield TRAFFIC, summed(pa.concat_tables(traffic))
        for groups in shard.ranges():
            names.see("offset_commits", shard.rows("offset_commits", groups))
        names.see("group_records", shard.rows("group_records"))
        yield Fact(names.rest())


# The tables that a LookTask reads, with the columns and conditions.
LOOKED_AT = {
    "quarantine": (),
    **{name: ("audit_id", "offsets_partition", "log_offset", *columns) for name, columns in NAMING.items()},
    "offset_commits": ("audit_id", "offsets_partition", "log_offset", *NAMING["offset_commits"], "partition"),
}


@dataclass(frozen=True)
class KeptRows:
    """Rows that no replay can rebuild, by table: rows before a checkpoint, and replaced rows."""

    tables: Mapping[str, StoredTable]
    replaced: Replaced

    def of(self, name: str, stored: StoredHistory, reader: PartReader, number: int) -> Iterator[pa.Table]:
        if name not in self.tables:
            return
        rows, begin = reader.rows(self.tables[name], number), stored.begins.get(number)
        is_kept = pa.array(self.replaced.is_replaced(name, rows))
        if begin is not None:
            is_before = pc.less(rows["log_offset"], begin.log_offset)
            if name == "quarantine":  # rows with records stay anyway
                is_before = pc.and_(is_before, pc.equal(rows["reason"], LOAD_WOULD_FAIL["reason"]))
            is_kept = pc.or_(is_before, is_kept)
        yield rows.filter(is_kept)


@dataclass(frozen=True)
class RebuildTask:
    """The rows that follow from a shard's history. `stored`: all valid history, including that below checkpoints."""

    replay: ShardTask
    stored: StoredHistory
    kept: KeptRows

    @property
    def _replayed(self) -> StoredHistory:
        assert self.replay.stored is not None
        return self.replay.stored

    def outputs(self, reader: PartReader, offsets_partition: int) -> Iterator[TaskOutput]:
        yield from self.replay.outputs(reader, offsets_partition)
        for name in REBUILT_TABLES:
            for rows in self.kept.of(name, self._replayed, reader, offsets_partition):
                yield name, rows
        yield from self._quarantine(reader, offsets_partition)

    def _quarantine(self, reader: PartReader, number: int) -> Iterator[Output]:
        """Quarantined records stay; the present rules decide at which records, these or others, a load would fail."""
        release: Release = self.replay.night.release
        rows = self.stored.shard(reader, number).rows("quarantine")
        rows = rows.filter(pc.field("reason") != LOAD_WOULD_FAIL["reason"])
        now = pc.and_(self.stored.is_decoded(rows, number), pc.is_null(rows.column("resolved_by")))
        ours = constant(self.replay.audit_id, len(rows), pa.int64())
        yield (
            "quarantine",
            with_columns(
                rows,
                resolved_by=pc.if_else(now, ours, rows.column("resolved_by")),
                coordinator_fails=coordinator_fails(rows, release),
            ),
        )
        group_records = self._replayed.shard(reader, number).rows("group_records")
        found = [tuple(row[name] for name in MISREAD_COLUMNS) for row in misread(group_records, release, _ASKED)]
        constants = {"audit_id": 0, "offsets_partition": number, **LOAD_WOULD_FAIL}
        failures = table_batch("quarantine", MISREAD_COLUMNS, found, **constants)
        assert self.replay.read_by is not None
        yield "quarantine", self.replay.read_by.with_audit_ids(failures)
