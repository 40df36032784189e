"""The history that a lake has stored, as a replay takes it: which rows of which files count.

A rebuild, the keeping of states and a comparison of releases replay it. It is plain data: the driver decides which rows
count, and the task that replays a shard reads the files and drops the other rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kgroups_spark.lake.replaced import NOTHING, Replaced
from kgroups_spark.offsets.ranges import SlotRange
from kgroups_spark.replay.checkpoint_rows import ENTRIES
from kgroups_spark.replay.corrected_history import CorrectedAt, corrections_of
from kgroups_spark.replay.history_parts import PartReader
from kgroups_spark.replay.shard_history import ShardHistory
from kgroups_spark.replay.stored_tables import StoredTable
from kgroups_spark.tables.internal import KEEP, REREAD
from kgroups_spark.tables.rows import no_rows
from kgroups_spark.tables.schemas import CHECKPOINTS

OF_GROUPS = ("offset_commits", "group_records")


class Checkpoint(NamedTuple):
    """The state of an offsets partition before `log_offset`, kept by audit `audit_id`."""

    log_offset: int
    audit_id: int


@dataclass(frozen=True)
class StoredHistory:
    """The rows to be replayed.

    tables       LOG_TABLES and checkpoints
    newest_audit the newest audit whose rows count; None: rows of all audits do
    decoded_by   an audit that decoded commits and group records again; its rows of them count, too
    replaced     rows that are no longer in the log
    begins       by offsets partition, the kept state with which its replay begins; others begin at their first record
    horizons     by offsets partition, the log offset at which its replay ends; rows of other partitions do not count.
                 None: every replay ends with the history
    groups       by offsets partition, the groups whose records count; None: all
    decoded      by offsets partition, log offsets of the records that `decoded_by` took out of quarantine
    """

    tables: Mapping[str, StoredTable]
    newest_audit: int | None = None
    decoded_by: int | None = None
    replaced: Replaced = NOTHING
    begins: Mapping[int, Checkpoint] = field(default_factory=dict)
    horizons: Mapping[int, int] | None = None
    groups: Mapping[int, frozenset[str]] | None = None
    decoded: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)

    def shard(self, reader: PartReader, offsets_partition: int) -> StoredShard:
        """The rows of an offsets partition that count."""
        return StoredShard(self, reader, offsets_partition)

    def is_decoded(self, quarantine: pa.Table, offsets_partition: int) -> pa.ChunkedArray:
        """For each row of quarantine of an offsets partition, whether the record was decoded again."""
        places = pa.array(self.decoded.get(offsets_partition, ()), pa.int64())
        is_record = pc.greater(quarantine.column("record_count"), 0)
        return pc.and_(is_record, pc.is_in(quarantine.column("log_offset"), places))

    def counting(self, name: str, rows: pa.Table, offsets_partition: int) -> pa.Table:
        """The rows of a table that count, from rows of one offsets partition."""
        masks = [*self._of_audits(name, rows), *self._of_place(name, rows, offsets_partition)]
        if self.groups is not None and name in (*OF_GROUPS, CHECKPOINTS):
            group_id, groups = rows.column("group_id"), self.groups.get(offsets_partition, ())
            is_one = pc.is_in(group_id.cast(pa.string()), pa.array(sorted(groups), pa.string()))
            masks.append(pc.or_(is_one, pc.is_null(group_id)) if name == CHECKPOINTS else is_one)
        if masks:
            counts = reduce(pc.and_, masks)
            rows = rows if pc.all(counts).as_py() else rows.filter(counts)
        return self.replaced.counting(name, rows)

    def _of_audits(self, name: str, rows: pa.Table) -> Iterator[pa.ChunkedArray]:
        if self.newest_audit is None:
            return
        audit_id = rows.column("audit_id")
        counts = pc.less_equal(audit_id, self.newest_audit)
        decoded_too = self.decoded_by is not None and name in OF_GROUPS
        yield pc.or_(counts, pc.equal(audit_id, self.decoded_by)) if decoded_too else counts

    def _of_place(self, name: str, rows: pa.Table, offsets_partition: int) -> Iterator[pa.ChunkedArray]:
        place, begin = rows.column("log_offset"), self.begins.get(offsets_partition)
        horizon = None if self.horizons is None else self.horizons.get(offsets_partition, -1)
        if name == CHECKPOINTS:
            # An audit corrects the state at the end of its log, so the correction belongs to the records before.
            yield pc.equal(rows.column("reason"), REREAD)
            if begin is not None:
                later = pc.greater(rows.column("audit_id"), begin.audit_id)
                made_since = pc.and_(pc.equal(place, begin.log_offset), later)
                yield pc.or_(pc.greater(place, begin.log_offset), made_since)
            if horizon is not None:
                yield pc.less_equal(place, horizon)
            return
        if begin is not None:
            yield pc.greater_equal(place, begin.log_offset)
        if horizon is not None:
            yield pc.less(place, horizon)


@dataclass(frozen=True)
class StoredShard:
    """The rows of one offsets partition that count."""

    stored: StoredHistory
    reader: PartReader
    offsets_partition: int

    def history(self) -> ShardHistory:
        """Its history; of quarantine, only records that still cannot be decoded."""
        quarantine = self.rows("quarantine")
        is_resolved = pc.is_valid(quarantine.column("resolved_by"))
        is_resolved = pc.or_(is_resolved, self.stored.is_decoded(quarantine, self.offsets_partition))
        return ShardHistory.of(
            lambda slots: self.rows("offset_commits", slots),
            self.rows("group_records"),
            self.rows("transaction_markers"),
            quarantine.filter(pc.invert(is_resolved)),
        )

    @property
    def begins(self) -> int:
        """The log offset at which its replay begins."""
        begin = self.stored.begins.get(self.offsets_partition)
        return 0 if begin is None else begin.log_offset

    def rows(self, name: str, slots: SlotRange | None = None) -> pa.Table:
        """The rows of a table; `slots` None: of all slots."""
        return self.stored.counting(name, self._all(name, slots), self.offsets_partition)

    def corrections(self) -> list[CorrectedAt]:
        """The corrections of its state after the replay begins; a night has none."""
        if CHECKPOINTS not in self.stored.tables:
            return []
        return corrections_of(self.rows(CHECKPOINTS))

    def state(self) -> pa.Table:
        """The state (ENTRIES) with which the replay begins: empty, or a kept one."""
        begin, horizons = self.stored.begins.get(self.offsets_partition), self.stored.horizons
        if begin is None or (horizons is not None and begin.log_offset > horizons.get(self.offsets_partition, -1)):
            return no_rows(ENTRIES)
        is_of_it = (pc.field("reason") == KEEP) & pc.field("log").is_null()
        for name, value in begin._asdict().items():
            is_of_it &= pc.field(name) == value
        return self._all(CHECKPOINTS).filter(is_of_it).select(ENTRIES.names)

    def ranges(self) -> list[SlotRange]:
        """Ranges of slots that are folded together."""
        commits = self.stored.tables["offset_commits"]
        return self.reader.ranges(commits, self.offsets_partition)

    def _all(self, name: str, slots: SlotRange | None = None) -> pa.Table:
        return self.reader.rows(self.stored.tables[name], self.offsets_partition, slots)
