"""Parts: the Parquet files that tasks write by pyarrow, for the driver to commit.

A part counts once a Delta transaction names it (store.py). Until then, and forever if its task failed or ran twice, it
is a file that no reader sees and VACUUM removes. Spark's own row-wise writer costs eight times the CPU.

Everything here is plain pyarrow: it runs in tasks, without a session.
"""

from __future__ import annotations

import json
import posixpath
import uuid
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet as pq

from kgroups_spark.sources.files import file_system
from kgroups_spark.tables.schemas import TABLES, arrow_schema

# Rows are sorted by group: a query for "one group, last week" should read only a few row groups, and a replay keeps the
# rest of one for each sorted lot. With a quarter of the rows per group, a lake has 6 percent more bytes, and an audit
# takes 6 percent more CPU.
ROWS_PER_GROUP = 65_536
# A row of the ledger has an entry for each partition of __consumer_offsets, and nearly all queries want one row.
ROWS_PER_GROUP_OF = {"audits": 128}
# Statistics of row groups besides those of the file: a night's rows of one group are by topic and partition, and
# findings ask for conditions that few offsets meet (the heads of findings/sql).
MORE_STATISTICS = {
    "offset_commits": ("topic", "partition"),
    "offset_expiry": ("decision", "expires_at", "expires_at_if_empty"),
    "committed_offsets": ("committed_offset", "is_orphan"),
    "group_members": ("member_epoch", "group_instance_id", "client_host", "subscribed_regex"),
}

COMPRESSION = "zstd"

# Columns of rising or rarely repeated numbers: delta encoding takes half the bytes of a dictionary in the same time.
PACKED = {"log_offset", "committed_offset", "marker_offset", "record_offset", "seen_log_timestamp"}
# Columns that repeat in runs, which zstd finds by itself: the times of a group's requests are the same in each of its
# partitions. With 16 that takes half of delta encoding's bytes and time; where all times differ, a quarter more bytes.
# And texts that hardly ever repeat: a dictionary of them only costs time, and of clients' names a third more bytes.
PLAIN = {"log_timestamp", "commit_timestamp", "base_timestamp", "expires_at", "expires_at_if_empty", "as_of"}
PLAIN |= {"retention_ms", "offsets_partition", "partition", "record_type", "state_format", "rules_version"}
PLAIN |= {"metadata", "member_id", "group_instance_id", "client_id", "value", "payload"}

# Texts in lists of structs, which are not in their column's name. With a dictionary they are read in half the time.
LISTS = [f"{which}_partitions.list.element" for which in ("assigned", "pending_revocation", "target")]
NESTED = [f"{path}.{name}" for path in LISTS for name in ("topic", "topic_id")]


@dataclass(frozen=True)
class Part:
    """A Parquet file of a table. `path` is relative to the table's folder, `stats_json` is for Delta's log."""

    table: str
    path: str
    size: int
    records: int
    stats_json: str


class PartWriter(NamedTuple):
    """Writes parts of one table under a lake's path. It is small and picklable: the driver creates it, tasks use it."""

    table_name: str
    lake_uri: str
    audit_id: int

    def write(self, batches: Iterable[pa.Table | pa.RecordBatch]) -> Part | None:
        """Writes batches of one schema, one in memory at a time, to one part; None: there are no rows. Their columns
        are the table's, in any order; texts may be dictionaries. Raises ValueError for others, for values that do not
        fit, and for a null where there may be none. An OSError leaves a file that no commit names."""
        part = None
        for batch in batches:
            if batch.num_rows:
                part = part or self.open(batch.schema)
                part.write(batch)
        return None if part is None else part.close()

    def open(self, schema: pa.Schema) -> OpenPart:
        """A part without rows, for rows of this schema. Raises as `write` does."""
        return OpenPart(self, _schema_to_write(self.table_name, schema))


class OpenPart:
    """A part that is being written, with the `records` and the `size` (bytes) of its file so far. Each table that it
    gets becomes row groups of its own, and is not kept."""

    def __init__(self, of: PartWriter, schema: pa.Schema) -> None:
        self.records, self._of, self._schema = 0, of, schema
        self._name = f"part-{of.audit_id:08d}-{uuid.uuid4()}.zstd.parquet"
        self._statistics = TABLES[of.table_name].statistics
        self._rows_per_group = ROWS_PER_GROUP_OF.get(of.table_name, ROWS_PER_GROUP)
        storage, folder = file_system(f"{of.lake_uri}/{of.table_name}")
        with ExitStack() as opened:
            path = posixpath.join(folder, self._name)
            self._sink = opened.enter_context(storage.open_output_stream(path))
            statistics = (*self._statistics, *MORE_STATISTICS.get(of.table_name, ()))
            self._parquet = opened.enter_context(_parquet_writer(self._sink, schema, statistics))
            self._files = opened.pop_all()

    @property
    def size(self) -> int:
        return int(self._sink.tell())

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Adds rows. After an error the part must not be used."""
        with ExitStack() as after_an_error:
            after_an_error.push(self._files)
            # The writer refuses nulls. A task's rows mostly have the order and the types already.
            table = rows.select(self._schema.names)
            fitted = table if table.schema.equals(self._schema) else table.cast(self._schema)
            self._parquet.write(fitted, row_group_size=self._rows_per_group)
            after_an_error.pop_all()
        self.records += rows.num_rows

    def close(self) -> Part:
        with self._files:
            self._parquet.close()
            size = self.size
        metadata = self._parquet.writer.metadata
        stats = json.dumps(file_statistics(metadata, self._statistics))
        return Part(self._of.table_name, self._name, size, metadata.num_rows, stats)

    def first(self, records: int) -> OpenPart:
        """A part with the first rows of this one, which ended with a row group once: this one if it has no others,
        otherwise a copy. This one must not be used then."""
        if records == self.records:
            return self
        self._files.close()
        storage, folder = file_system(f"{self._of.lake_uri}/{self._of.table_name}")
        dictionaries = [each.name for each in self._schema if pa.types.is_dictionary(each.type)]
        copy = OpenPart(self._of, self._schema)
        with storage.open_input_file(posixpath.join(folder, self._name)) as source:
            file = pq.ParquetFile(source, read_dictionary=dictionaries, page_checksum_verification=True)
            for number in range(file.num_row_groups):
                if copy.records < records:
                    copy.write(file.read_row_group(number, use_threads=False))
        return copy


def _schema_to_write(table_name: str, given: pa.Schema) -> pa.Schema:
    """The table's schema, with the rows' dictionaries. Raises ValueError for missing and unknown columns."""
    expected = arrow_schema(table_name)
    wrong = [f"{name} is missing" for name in expected.names if name not in given.names]
    wrong += [f"{name} is not a column of it" for name in given.names if name not in expected.names]
    if wrong:
        raise ValueError(f"rows for table {table_name}: {', '.join(wrong)}")
    types = [given.field(name).type for name in expected.names]
    return pa.schema(
        each.with_type(pa.dictionary(kind.index_type, each.type)) if pa.types.is_dictionary(kind) else each
        for each, kind in zip(expected, types, strict=True)
    )


def _parquet_writer(sink: pa.NativeFile, schema: pa.Schema, statistics: tuple[str, ...]) -> pq.ParquetWriter:
    packed = [name for name in schema.names if name in PACKED]
    # With Arrow's own schema in the footer, readers would return dictionaries instead of texts.
    return pq.ParquetWriter(
        sink,
        schema,
        compression=COMPRESSION,
        use_dictionary=[*(name for name in schema.names if name not in PACKED | PLAIN), *NESTED],
        column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
        write_statistics=list(statistics),
        store_schema=False,
        write_page_checksum=True,
        write_batch_size=ROWS_PER_GROUP,
    )


def file_statistics(metadata: pq.FileMetaData, columns: tuple[str, ...]) -> dict[str, object]:
    """A file's statistics in Delta's log: numRecords, and minValues, maxValues and nullCount of the columns. Bounds of
    texts are complete, or absent (above 4 KiB): a truncated maximum would hide rows."""
    lowest: dict[str, object] = {}
    highest: dict[str, object] = {}
    nulls: dict[str, int] = {}
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    # Asking for one column would make objects for all.
    place = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    for name in columns:
        found = (group.column(place[name]).statistics for group in groups)
        chunks = [statistics for statistics in found if statistics is not None]
        if len(chunks) < metadata.num_row_groups:
            continue
        nulls[name] = sum(chunk.null_count for chunk in chunks)
        filled = [chunk for chunk in chunks if chunk.num_values]
        if filled and all(chunk.has_min_max for chunk in filled):
            bounds = [min(chunk.min for chunk in filled), max(chunk.max for chunk in filled)]
            if isinstance(bounds[0], datetime):
                # Delta's times are exact to the millisecond, as ours are.
                iso = [bound.astimezone(UTC).isoformat(timespec="milliseconds") for bound in bounds]
                bounds = [text.replace("+00:00", "Z") for text in iso]
            lowest[name], highest[name] = bounds
    return {"numRecords": metadata.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls}


# Text columns with values that repeat from row to row.
DICTIONARIES = {
    "offset_commits": ["group_id", "topic", "metadata", "topic_id"],
    "checkpoints": ["reason", "entry_type", "group_id", "topic", "metadata", "topic_id"],
    "offset_expiry": ["group_id", "topic", "decision", "reason", "base"],
}


def dataset_of(name: str, table_uri: str, paths: Sequence[str], *, as_dictionaries: bool = False) -> pa.dataset.Dataset:
    """The rows of the files; `paths` as in the table's log. A column that a file lacks is null in its rows.
    `as_dictionaries`: the columns in DICTIONARIES are dictionary-encoded."""
    dictionaries = DICTIONARIES.get(name, []) if as_dictionaries else []
    as_given = ((each, each.name in dictionaries) for each in arrow_schema(name))
    schema = pa.schema(each.with_type(pa.dictionary(pa.int32(), each.type)) if is_ else each for each, is_ in as_given)
    if not paths:
        return pa.dataset.dataset(schema.empty_table())
    storage, folder = file_system(table_uri)
    options = {"coerce_int96_timestamp_unit": "us", "dictionary_columns": dictionaries}  # Spark writes int96
    # From a local disk, columns are read piece by piece. A store gets one request for all columns of a row group.
    is_local = isinstance(storage, pa.fs.LocalFileSystem)
    scan = pa.dataset.ParquetFragmentScanOptions(
        use_buffered_stream=is_local, pre_buffer=not is_local, page_checksum_verification=True
    )
    parquet = pa.dataset.ParquetFileFormat(read_options=options, default_fragment_scan_options=scan)
    in_it = [f"{folder}/{unquote(path)}" for path in paths]
    return pa.dataset.dataset(in_it, schema=schema, filesystem=storage, format=parquet)
