"""The history that a lake has stored, as a replay takes it: which rows of which files count.

A rebuild, the keeping of states and a comparison of releases replay it. It is plain data: the driver decides which rows
count, and the task that replays a shard reads the files and drops the other rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.fs
from numpy.typing import NDArray

from kgroups_spark.lake.parts import dataset_of
from kgroups_spark.lake.replaced import NOTHING, Replaced
from kgroups_spark.offsets.columns import (
    EVERY_SLOT,
    FIRST,
    HISTORY_COLUMNS,
    SLOT,
    Border,
    JoinedLog,
    SlotRange,
    from_border,
    ranges_of,
)
from kgroups_spark.offsets.expiry import DECIDED_BY, HELD_GROUPS
from kgroups_spark.replay.corrections import CorrectedAt, corrections_of
from kgroups_spark.replay.groups import ShardHistory
from kgroups_spark.replay.state import ENTRIES
from kgroups_spark.tables.definitions import KEEP, REREAD
from kgroups_spark.tables.rows import in_one_chunk, no_rows, sorted_by, where
from kgroups_spark.tables.schemas import CHECKPOINTS, arrow_schema

# The least and the greatest text of a row group without statistics: all others may be between them.
NOT_KNOWN = {"min": "", "max": chr(0x10FFFF)}
# In place of an offsets partition: all that a reader has.
ALL_SHARDS = -1
# The number of records whose rows a task reads together: of neighbouring shards, or of some slots of a large one. Some
# 200 bytes each. Each lot opens all files again: of a lake that has those of every night, of a night only its own.
OF_HISTORY, OF_NIGHT = 1_000_000, 1 << 17
# A task has one core. Several files are requested at a time, because storage may answer late.
_SCAN = {"use_threads": False, "fragment_readahead": 4, "batch_readahead": 1}


def shard_column(table: str) -> str:
    """The column with the shard of a table's rows: the partition of their log."""
    return "state_partition" if "state_partition" in arrow_schema(table).names else "offsets_partition"


def shards_in_file(table: str, stats: Mapping[str, Any]) -> tuple[int, int] | None:
    """The least and the greatest shard in a file of a table, by its statistics in Delta's log; None: not known."""
    lowest, highest = (stats.get(which, {}).get(shard_column(table)) for which in ("minValues", "maxValues"))
    return None if lowest is None or highest is None else (lowest, highest)


class StoredFile(NamedTuple):
    """A file of a table; `shards` as shards_in_file returns them."""

    path: str
    shards: tuple[int, int] | None

    def may_have(self, numbers: Collection[int]) -> bool:
        """Whether the file may have rows of any of these shards."""
        return self.shards is None or any(self.shards[0] <= number <= self.shards[1] for number in numbers)


class StoredTable(NamedTuple):
    """A version of a table. `label` distinguishes versions of one table."""

    label: str
    name: str
    uri: str
    columns: tuple[str, ...]
    files: tuple[StoredFile, ...]

    @property
    def shard(self) -> str:
        return shard_column(self.name)

    def uris(self, numbers: Collection[int]) -> Iterator[str]:
        """The files that may have rows of these shards."""
        return (f"{self.uri}/{unquote(file.path)}" for file in self.files if file.may_have(numbers))

    def pieces(
        self, numbers: Collection[int], slots: SlotRange = EVERY_SLOT, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        """The rows of these shards and slots in its files, piece by piece; the first one is empty. `columns` None: all
        columns. Only one shard has ranges."""
        wanted, names = pc.field(self.shard).isin(sorted(numbers)), list(columns or self.columns)
        paths = [file.path for file in self.files if file.may_have(numbers)]
        dataset = dataset_of(self.name, self.uri, paths, as_dictionaries=True)
        yield no_rows(pa.schema(map(dataset.schema.field, names)))
        if not paths:
            return
        # A local disk answers at once. A store is asked for several files at a time, also for their footers.
        is_local, is_whole = isinstance(dataset.filesystem, pa.fs.LocalFileSystem), slots == EVERY_SLOT
        if is_whole and not is_local:
            for batch in dataset.to_batches(columns=names, filter=wanted, **_SCAN):
                yield pa.Table.from_batches([batch])
            return
        if is_whole:
            fragments = [file.subset(wanted, dataset.schema) for file in dataset.get_fragments()]
        else:
            wanted &= from_border(slots.low)
            if slots.high is not None:
                wanted &= ~from_border(slots.high)
            chosen = self._row_groups(wanted, paths)
            fragments = [file.subset(row_group_ids=[group.id for group in groups]) for file, groups in chosen]
        fragments = [each for each in fragments if each.row_groups]
        dataset = pa.dataset.FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)
        # A file that waits has a row group in memory.
        scan = {**_SCAN, "fragment_readahead": 1} if is_local else _SCAN
        decide = [self.shard, *names] if is_whole else [self.shard, *SLOT, *names]
        for batch in dataset.to_batches(columns=[*dict.fromkeys(decide)], **scan):
            rows = pa.Table.from_batches([batch])
            is_in = np.isin(rows[self.shard].to_numpy(), list(numbers))
            some = where(rows.select(names), is_in if is_whole else is_in & slots.includes(rows))
            # A part is copied, so that the memory of the row group is free.
            is_part = len(some) < len(rows)
            yield pa.table([each.combine_chunks() for each in some.columns], some.schema) if is_part else some

    def sizes(self, number: int) -> dict[Border, int]:
        """The rows of a shard from a group on with which row groups begin, if none has groups on both sides."""
        paths = [file.path for file in self.files if file.may_have([number])]
        found, border, last = dict[Border, int](), FIRST, ""
        spans = list[tuple[str, str, int]]()
        for _, groups in self._row_groups(pc.field(self.shard) == number, paths):
            spans += ((*each.statistics.get("group_id", NOT_KNOWN).values(), each.num_rows) for each in groups)
        for low, high, rows in sorted(spans):
            border, last = Border(low) if low > last else border, max(high, last)
            found[border] = found.get(border, 0) + rows
        return found

    def _row_groups(self, wanted: pc.Expression, paths: Sequence[str]) -> Iterator[tuple[Any, list[Any]]]:
        """The files, and those of their row groups which may have such rows."""
        for plain, fragment in _fragments(self.name, self.uri, tuple(paths)):
            yield fragment, plain.subset(wanted, arrow_schema(self.name)).row_groups


@lru_cache(maxsize=1)
def _fragments(name: str, uri: str, paths: tuple[str, ...]) -> list[tuple[Any, Any]]:
    """The files of a large shard, whose ranges are read one after the other: it keeps the footers.

    Each with plain columns, to choose its row groups, because Arrow compares no condition with statistics of dictionary
    columns; and with dictionaries, because to compare their texts costs less than to compare those of all rows.
    """
    both = (dataset_of(name, uri, paths, as_dictionaries=each).get_fragments() for each in (False, True))
    return list(zip(*both, strict=True))


class TaskShards(NamedTuple):
    """The shards of each task, and the number of records in each.

    A lake of many nights has as many files, each with rows of most shards. Opening them for every shard would cost more
    than everything else. So small shards are read together.
    """

    shards: tuple[tuple[int, ...], ...]
    records: Mapping[int, int]
    at_once: int = OF_HISTORY
    alone: Collection[int] = ()

    @property
    def rows(self) -> list[pa.Table]:
        """A row for each shard, in the table of its task."""
        schema = pa.schema({"shard": pa.int32(), "records": pa.int64()})
        return [pa.table([shards, [self.records[each] for each in shards]], schema=schema) for shards in self.shards]

    def readers(self, shards: Iterable[int]) -> Iterator[PartReader]:
        """A reader for each of these shards that is large or to be read `alone`, and for the others together."""
        together: list[list[int]] = []
        for number in shards:
            last = together[-1] if together else []
            is_full = sum(self.records[each] for each in [*last, number]) > self.at_once
            if not last or is_full or not {number, *last}.isdisjoint(self.alone):
                together.append(last := [])
            last.append(number)
        for some in together:
            yield PartReader(tuple(some), self.at_once, is_large=self.records[some[0]] > self.at_once)


_COLUMNS: dict[str, list[str] | None] = {
    "offset_commits": ["offsets_partition", *HISTORY_COLUMNS],
    "transaction_markers": None,
    "group_records": None,
    "quarantine": None,
    "group_traffic": None,
    # The entries of saved states, with their audit and partition.
    CHECKPOINTS: ["audit_id", "reason", *ENTRIES.names],
    "offset_expiry": None,
    **{name: [*columns] for name, columns in DECIDED_BY.items() if name != HELD_GROUPS},
}
# The number of commits that are folded together. A worker's memory grows by about 400 bytes with each.
COMMITS_AT_ONCE = 200_000


class PartReader:
    """Reads tables for some shards of a task together, or for a large shard by ranges of slots."""

    def __init__(self, shards: tuple[int, ...], at_once: int = OF_HISTORY, *, is_large: bool = False) -> None:
        self.shards = shards
        self._at_once, self._is_large = at_once, is_large
        # By table: the slot range that was read last, and its rows by shard.
        self._last: dict[str, tuple[SlotRange, pa.Table]] = {}
        # The ranges of slots of a large shard that are read at once.
        self._large: list[SlotRange] = []

    def rows(self, table: StoredTable, only: int = ALL_SHARDS, slots: SlotRange = EVERY_SLOT) -> pa.Table:
        """Rows of all shards, or `only` of one, and of these slots."""
        read = next((each for each in self._large if slots != EVERY_SLOT and each.has(slots.low)), EVERY_SLOT)
        if table.label not in self._last or self._last[table.label][0] != read:
            self._last.pop(table.label, None)  # frees the memory before the next range is read
            whole = pa.concat_tables(table.pieces(self.shards, read))
            whole = whole if len(self.shards) == 1 else sorted_by(in_one_chunk(whole), table.shard)
            self._last[table.label] = read, whole
        rows = self._last[table.label][1]
        if slots == read != EVERY_SLOT:
            del self._last[table.label]  # its only reader copies it column by column
        if only != ALL_SHARDS and len(self.shards) > 1:
            start, end = np.searchsorted(rows.column(table.shard).to_numpy(), [only, only + 1])
            rows = rows.slice(start, end - start)
        return rows if slots == read else slots.of(rows)

    def ranges(self, commits: StoredTable, only: int = ALL_SHARDS) -> list[SlotRange]:
        """Ranges of slots with about COMMITS_AT_ONCE commits each."""
        if self._is_large:
            at_once, sizes = (min(COMMITS_AT_ONCE, self._at_once), self._at_once), commits.sizes(*self.shards)
            ranges, self._large = ranges_of(sizes, partial(commits.pieces, self.shards), *at_once)
            return ranges
        rows = self.rows(commits, only)
        return ranges_of({FIRST: len(rows)}, lambda each, _: [each.of(rows)], COMMITS_AT_ONCE)[0]


def part_schema(table: str) -> pa.Schema:
    """The columns of a table that are read from its parts."""
    columns = _COLUMNS[table]
    return arrow_schema(table) if columns is None else pa.schema(map(arrow_schema(table).field, columns))


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

    def is_decoded(self, quarantine: pa.Table, offsets_partition: int) -> pa.ChunkedArray:
        """For each row of quarantine of an offsets partition, whether the record was decoded again."""
        places = pa.array(self.decoded.get(offsets_partition, ()), pa.int64())
        is_record = pc.greater(quarantine.column("record_count"), 0)
        return pc.and_(is_record, pc.is_in(quarantine.column("log_offset"), places))


class StoredShard(NamedTuple):
    """The rows of a reader's shards that count; `only`: of one of them."""

    stored: StoredHistory
    reader: PartReader
    only: int = ALL_SHARDS

    def history(self, ends: Mapping[int, int]) -> ShardHistory:
        """Its history; of quarantine, only records that still cannot be decoded. `ends`: see JoinedLog.over."""
        quarantine = self.rows("quarantine")
        is_resolved = pc.is_valid(quarantine.column("resolved_by"))
        is_resolved = pc.or_(is_resolved, self.stored.is_decoded(quarantine, self.only))
        return ShardHistory.of(
            JoinedLog.over(self.reader.shards if self.only == ALL_SHARDS else (self.only,), ends),
            lambda slots: self.rows("offset_commits", slots),
            self.rows("group_records"),
            self.rows("transaction_markers"),
            quarantine.filter(pc.invert(is_resolved)),
        )

    @property
    def begins(self) -> int:
        """The log offset at which its replay begins."""
        begin = self.stored.begins.get(self.only)
        return 0 if begin is None else begin.log_offset

    def rows(self, name: str, slots: SlotRange = EVERY_SLOT) -> pa.Table:
        """The rows of a table that count, of these slots."""
        stored, number, masks = self.stored, self.only, list[pa.ChunkedArray]()
        rows = self.reader.rows(stored.tables[name], number, slots)
        place, begin = rows["log_offset"], stored.begins.get(number)
        if name == CHECKPOINTS:
            # An audit corrects the state at the end of its log, so the correction belongs to the records before.
            masks.append(pc.equal(rows["reason"], REREAD))
            if begin is not None:
                made_since = pc.and_(pc.equal(place, begin.log_offset), pc.greater(rows["audit_id"], begin.audit_id))
                masks.append(pc.or_(pc.greater(place, begin.log_offset), made_since))
        elif begin is not None:
            masks.append(pc.greater_equal(place, begin.log_offset))
        if stored.horizons is not None:
            is_before = pc.less_equal if name == CHECKPOINTS else pc.less
            masks.append(is_before(place, stored.horizons.get(number, -1)))
        if stored.newest_audit is not None:
            counts = pc.less_equal(rows["audit_id"], stored.newest_audit)
            decoded_too = stored.decoded_by is not None and name in OF_GROUPS
            masks.append(pc.or_(counts, pc.equal(rows["audit_id"], stored.decoded_by)) if decoded_too else counts)
        if stored.groups is not None and name in (*OF_GROUPS, CHECKPOINTS):
            groups = pa.array(sorted(stored.groups.get(number, ())), pa.string())
            is_one = pc.is_in(rows["group_id"].cast(pa.string()), groups)
            masks.append(pc.or_(is_one, pc.is_null(rows["group_id"])) if name == CHECKPOINTS else is_one)
        if masks and not pc.all(counts := reduce(pc.and_, masks)).as_py():
            rows = rows.filter(counts)
        return stored.replaced.counting(name, rows)

    def corrections(self) -> list[CorrectedAt]:
        """The corrections of its state after the replay begins; a night has none."""
        return corrections_of(self.rows(CHECKPOINTS)) if CHECKPOINTS in self.stored.tables else []

    def state(self) -> pa.Table:
        """The state (ENTRIES) with which the replay begins: empty, or a kept one."""
        begin, horizons = self.stored.begins.get(self.only), self.stored.horizons
        if begin is None or (horizons is not None and begin.log_offset > horizons.get(self.only, -1)):
            return no_rows(ENTRIES)
        is_of_it = (pc.field("reason") == KEEP) & pc.field("log").is_null()
        for name, value in begin._asdict().items():
            is_of_it &= pc.field(name) == value
        entries = self.reader.rows(self.stored.tables[CHECKPOINTS], self.only)
        return entries.filter(is_of_it).select(ENTRIES.names)

    def ranges(self) -> list[SlotRange]:
        return self.reader.ranges(self.stored.tables["offset_commits"], self.only)
