"""Ranges of files in memory, decoded by stage 1: the rows of each table, and the progress."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.messages.coordinator_records import GroupRecordDecoder
from kgroups_spark.replay.range_decoder import RangeDecoder
from kgroups_spark.replay.ranges import LogRange, RangeProgress, ReadContext
from kgroups_spark.sources.partition_log import SegmentPiece
from kgroups_spark.tables.rows import no_rows
from kgroups_spark.tables.schemas import arrow_schema
from kgroups_spark.words import LAST_MS
from tests.logs.log_files import Files, segments_of
from tests.nights.reported_tables import stored_as


class MemoryFile(io.BytesIO):
    """A segment in memory, whose identity is unknown."""

    def version(self) -> None:
        return None


@dataclass
class Decoded:
    """Rows by table, of all decoded ranges."""

    tables: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    progress: list[RangeProgress] = field(default_factory=list)

    def table(self, name: str, partition: int | None = None) -> pa.Table:
        """The rows of a table, of all partitions or one."""
        rows = pa.concat_tables([arrow_schema(stored_as(name)).empty_table(), *self.tables[name]])
        return rows if partition is None else rows.filter(pc.equal(rows.column("offsets_partition"), partition))


def decode(
    files: Files,
    release: str,
    ranges: Iterable[LogRange] | None = None,
    *,
    audit_id: int = 1,
    chunk_bytes: int | None = None,
    together: bool = False,
) -> Decoded:
    """The rows of ranges, or of the whole log; each fits its table. `together`: as tasks read small partitions."""
    context = ReadContext(audit_id, release, lambda path: MemoryFile(files[path]), latest_ms=LAST_MS)
    if chunk_bytes is not None:
        context = context._replace(chunk_bytes=chunk_bytes)
    found, records = Decoded(), GroupRecordDecoder()
    read = list(whole_ranges(files) if ranges is None else ranges)
    for some in [read] if together else [[each] for each in read]:
        reading = RangeDecoder(some, context, records)
        for name, rows in reading.outputs():
            found.tables[name].append(plain(name, rows))
        found.progress += reading.progresses
    return found


def plain(name: str, rows: pa.Table | pa.RecordBatch) -> pa.Table:
    """Rows in exactly the table's schema, with nulls only in nullable columns."""
    table = pa.table(rows) if isinstance(rows, pa.RecordBatch) else rows
    assert table.column_names == arrow_schema(stored_as(name)).names, name
    if not len(table):
        return no_rows(arrow_schema(stored_as(name)))
    table = table.unify_dictionaries().cast(arrow_schema(stored_as(name)))
    for column in table.schema:
        assert column.nullable or not table.column(column.name).null_count, f"{name}.{column.name} has nulls"
    table.validate(full=True)
    return table


def whole_ranges(files: Files) -> list[LogRange]:
    """One range per offsets partition."""
    return [
        LogRange(partition, 0, 0, tuple(SegmentPiece(path, 0, len(files[path])) for path in paths))
        for partition, paths in segments_of(files).items()
    ]
