"""Versions, events, what a load would fail at, and the coordinator state, rebuilt from history (R3, R7).

History is the four tables that together are the log, and what was corrected in the state since. All of it is replayed
by the present rules, a shard being an offsets partition as ever. Rebuilt rows say which audit read their
record, so that they are those that the nights have written; a rebuild that was killed leaves nothing that would have to
be deleted, and is done again.

    quarantine decoded again -> history replayed -> versions, events, failures -> [current tables] -> state
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgroups_spark.audit.saved_state import SavedState, state_of_audit
from kgroups_spark.audit.work import AuditWork
from kgroups_spark.coordinator.releases import Release, release
from kgroups_spark.counts import counted
from kgroups_spark.decoding.topic_names import CLUSTER
from kgroups_spark.history.frame_baselines import Baselines
from kgroups_spark.history.load_failures import coordinator_fails, misread
from kgroups_spark.history.names import HistoryNames, names_of_history, sightings
from kgroups_spark.history.redecode import DECODED_TABLES, added_up, decoded_again, unresolved
from kgroups_spark.history.stored_frames import StoredHistory
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.last_finished import REBUILD_APP_ID
from kgroups_spark.lake.ledger import record_counts
from kgroups_spark.lake.ledger_rows import records_read, what_was_read
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.replay.read_by import ReadBy
from kgroups_spark.replay.replay_shard import AuditSpans
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.tasks.packed_rows import packed_by_shard, row_counts, unpacked
from kgroups_spark.tasks.read_stage import CURRENT
from kgroups_spark.tasks.replay_stage import EXPIRY, PREVIOUS, ShardTask, deal_shards, shards_of
from kgroups_spark.tasks.replayed import Replayed, replayed

MADE_OF_RECORDS = ("group_versions", "group_member_versions", "group_events")
PLACE = ["offsets_partition", "log_offset"]


@dataclass(frozen=True)
class Rebuilt:
    """The result of a rebuild for the rest of its audit: the state to go on from, and what the ledger is to say."""

    state: SavedState
    rows_added: Counter[str] = field(default_factory=Counter)
    record_counts: Counter[tuple[int, int | None]] = field(default_factory=Counter)
    notes: tuple[str, ...] = ()

    @property
    def has_decoded_again(self) -> bool:
        """Whether records of quarantine went into history."""
        return bool(self.rows_added)

    def told_with(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of the ledger's row with these facts in them."""
        rows_added = Counter(columns["rows_added"]) + self.rows_added
        counts = Counter(self.record_counts)
        counts.update({(each.record_type, each.value_version): each.records for each in columns["record_counts"]})
        return {
            **columns,
            "rows_added": dict(sorted(rows_added.items())),
            "record_counts": record_counts(counts),
            "notes": (*columns["notes"], *self.notes),
        }


def rebuild(work: AuditWork, *, as_of_ms: int | None = None) -> Rebuilt:
    """Rebuilds, by the rules of a release, what stands in history, and the state of the last finished audit.

    `as_of_ms`: the current tables, too, with what expires as of then. None: the audit goes on, and rewrites them
    itself.
    """
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
        self.release: Release = release(work.settings.release_version)
        self.replaced = work.lake.replaced
        self.read = self.replaced.clipped(what_was_read(work.lake, self.last))
        self.read_by = ReadBy.of(self.read)

    def run(self) -> Rebuilt:
        work, say = self.work, self.work.progress
        say("rebuilding from history: decoding quarantine again")
        added = self._decode_again(with_counts=bool(self.current))
        counting = self._counting()
        say("rebuilding from history: looking for names")
        baselines = Baselines.of(counting.state_corrections, work.settings.release_version)
        names = self._names(counting, baselines)
        work = replace(work, state=replace(work.state, names=names))
        say(f"rebuilding from history: replaying {counted(len(work.shards), 'coordinator shard')}")
        with self._replayed(work, counting, baselines) as replayed:
            say("rebuilding from history: committing")
            for name in MADE_OF_RECORDS:
                replayed.replace(self.writer, name, self._kept(name, baselines))
            self._replace_quarantine(counting, baselines, replayed)
            for name in self.current:
                replayed.replace(work.writer, name)
            if self.current:
                topics = work.spark.createDataFrame(work.topics_table([]), TABLES["topics"].schema)
                work.writer.replace("topics", topics)
            replayed.replace(self.writer, "coordinator_state", keep_audit=work.state.kept_audit_id)
        state = replace(
            state_of_audit(work.lake, work.audit_id),
            why_rebuilt=work.state.why_rebuilt,
            kept_audit_id=work.state.kept_audit_id,
            names=names,
        )
        return Rebuilt(state, added, self._record_counts(counting, added), tuple(_told(added)))

    def _kept(self, name: str, baselines: Baselines) -> DataFrame | None:
        """Rows of the table that no replay makes again: of reduced history, and those that are replaced."""
        then = LakeAsOfAudit(self.work.lake, self.last)
        kept = [baselines.before(then.read(name))] if baselines.by_partition else []
        if self.replaced:
            kept.append(self.replaced.alone(name, then.all_rows(name)))
        return reduce(DataFrame.unionByName, kept) if kept else None

    def _decode_again(self, *, with_counts: bool) -> Counter[str]:
        """Appends what now decodes; how many rows by table. Without its counts where the audit goes on: it writes them
        together with those of what it reads (redecode.with_decoded_again)."""
        lake = self.work.lake
        if not lake.table("quarantine").files():
            return Counter()
        quarantine = self._finished("quarantine")
        found = decoded_again(quarantine, self.work.audit_id).persist()
        try:
            names = [name for name in DECODED_TABLES if with_counts or name != "group_traffic"]
            added = Counter({name: rows for name, rows in row_counts(found, names).items() if rows})
            for name in added:
                rows = unpacked(found, name)
                if name == "group_traffic":
                    rows = added_up(rows)
                    added[name] = rows.count()
                self.writer.append(name, rows)
        finally:
            found.unpersist()
        return added

    def _finished(self, name: str) -> DataFrame:
        return self.work.lake.read(name).where(F.col("audit_id") <= self.last)

    def _counting(self) -> StoredHistory:
        frames = {name: self.work.lake.read(name) for name in ("offset_commits", "group_records")}
        # Nothing but what was decoded again stands under the number of this audit yet.
        counts = (F.col("audit_id") <= self.last) | (F.col("audit_id") == self.work.audit_id)
        decoded = {name: frame.where(counts) for name, frame in frames.items()}
        quarantine = self._resolved(self._finished("quarantine"), decoded)
        return StoredHistory(
            **decoded,
            transaction_markers=self._finished("transaction_markers"),
            quarantine=quarantine,
            state_corrections=self._finished("state_corrections"),
        )

    def _resolved(self, quarantine: DataFrame, decoded: dict[str, DataFrame]) -> DataFrame:
        """Quarantine with this audit in `resolved_by` where it decoded a record again."""
        ours = F.col("audit_id") == self.work.audit_id
        places = [frame.where(ours).select(*PLACE) for frame in decoded.values()]
        now = reduce(DataFrame.union, places).withColumn("now", F.lit(self.work.audit_id).cast("bigint"))
        found = quarantine.join(F.broadcast(now), on=PLACE, how="left")
        is_record = F.col("record_count") > 0
        resolved_by = F.when(is_record, F.coalesce("resolved_by", "now"))
        return found.withColumn("resolved_by", resolved_by).select(*TABLES["quarantine"].schema.names)

    def _names(self, counting: StoredHistory, baselines: Baselines) -> HistoryNames:
        names = names_of_history(counting.offset_commits, counting.group_records)
        kept = sightings(LakeAsOfAudit(self.work.lake, self.last).rows("topics").to_pylist())
        # The table alone knows what a cluster said, and what records said that are gone.
        return names.with_topics(each for each in kept if baselines.is_reduced or each[3] == CLUSTER)

    def _replayed(
        self, work: AuditWork, counting: StoredHistory, baselines: Baselines
    ) -> AbstractContextManager[Replayed]:
        history = replace(counting, quarantine=unresolved(counting.quarantine)).since(baselines)
        tables = (*MADE_OF_RECORDS, "quarantine", *self.current, "coordinator_state")
        task = ShardTask(
            replace(work.night([], self.as_of_ms), audits=self._spans()),
            work.lake.uri,
            history_from=baselines.starts,
            read_by=self._with_corrections(history.state_corrections),
            tables=frozenset(tables),
        )
        parts = history.parts()
        if self.current:
            parts = parts.unionByName(packed_by_shard(work.rows_before(EXPIRY), EXPIRY))
        return replayed(shards_of(work.spark, self._hands(), parts), task, work.writer)

    def _spans(self) -> AuditSpans:
        """Where each audit ended, and its retention: both decide its events."""
        new = self.read.filter(pc.field("end_offset") > pc.field("start_offset"))
        retention = pc.fill_null(new["retention_ms"], self.work.settings.retention_ms)
        spans: dict[int, list[tuple[int, int]]] = {}
        for number, *span in zip(
            new["offsets_partition"].to_pylist(), new["end_offset"].to_pylist(), retention.to_pylist(), strict=True
        ):
            spans.setdefault(number, []).append((span[0], span[1]))
        return {number: sorted(each) for number, each in spans.items()}

    def _hands(self) -> list[list[int]]:
        """The shards dealt to tasks, about as many records to each."""
        records = records_read(self.read)
        return deal_shards({shard: records[shard] for shard in self.work.shards}, 2 * self.work.slots)

    def _with_corrections(self, corrections: DataFrame) -> ReadBy:
        """Which audit read which records, and which left versions of a corrected group behind all that had been
        read."""
        rows = corrections.where("entry_type = 'group'").select("audit_id", *PLACE, "group_id").distinct().collect()
        corrected = {
            (row.offsets_partition, row.log_offset - 1, row.group_id): row.audit_id
            for row in rows
            if not self.read_by.has_read(row.audit_id, row.offsets_partition)
        }
        return replace(self.read_by, corrected=corrected)

    def _replace_quarantine(self, counting: StoredHistory, baselines: Baselines, replayed: Replayed) -> None:
        """Its records stay; the present rules decide at which of them, and of other records, a load would fail."""
        records = counting.quarantine.where("reason <> 'load_would_fail'")
        rows = records.withColumn("coordinator_fails", coordinator_fails(self.release))
        rows = rows.unionByName(baselines.not_before(misread(counting.group_records, self.release, self.read_by)))
        if baselines.by_partition:
            then = LakeAsOfAudit(self.work.lake, self.last).read("quarantine")
            rows = rows.unionByName(baselines.before(then.where("reason = 'load_would_fail'")))
        if self.replaced:
            then = LakeAsOfAudit(self.work.lake, self.last).all_rows("quarantine")
            rows = rows.unionByName(self.replaced.alone("quarantine", then))
        replayed.replace(self.writer, "quarantine", rows)

    def _record_counts(self, counting: StoredHistory, added: Counter[str]) -> Counter[tuple[int, int | None]]:
        """The records decoded again, by type and version."""
        names = [name for name in ("offset_commits", "group_records") if added[name]]
        if not names:
            return Counter()
        ours = F.col("audit_id") == self.work.audit_id
        kinds = [getattr(counting, name).where(ours).select("record_type", "value_version") for name in names]
        rows = reduce(DataFrame.union, kinds).groupBy("record_type", "value_version").count().collect()
        return Counter({(row[0], row[1]): row[2] for row in rows})


def _told(added: Counter[str]) -> Iterator[str]:
    """The ledger's notes about it."""
    decoded = added["offset_commits"] + added["group_records"]
    if decoded:
        yield f"{counted(decoded, 'record')} of quarantine could be decoded now, and went into history"
