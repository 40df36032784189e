"""The sums over all finished audits for each partition, without reading each of the ledger's entries.

Ten years of nights are 730,000 entries of the column `partitions` for 200 partitions. A file of the ledger with many
rows has the sums of their entries in its Parquet footer. In other files (small ones, Spark's, those of earlier
software) the entries are read, but only the summed fields. Parquet has a column for each field of an entry; Arrow's
datasets would read either all of them or none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq

from kgroups_spark.lake.last_finished import FINISHED, is_of_log
from kgroups_spark.tables.schemas import arrow_schema

ENTRIES = "partitions"
SUMS = ("records", "records_reread", "bytes")
# Columns of audit_partitions that log_totals reads, besides audit_id.
FIELDS = ("offsets_partition", "start_offset", *SUMS, "lost_from", "lost_to")
TOPIC = "topic"  # of an entry: null for __consumer_offsets
# The key in a file's footer. A later form must get another number.
KEY = "kgroups.sums.1"
# Fewer rows are just as fast to read.
MANY_ROWS = 32
# More sums than this, a megabyte of text, are not put into a footer.
MANY_SUMS = 8_192


class Sums(NamedTuple):
    """For the finished audits `first` to `last`: rows of audit_id and FIELDS from which log_totals gets the same result
    as from all entries of __consumer_offsets.

    A partition has one row: sums, the least start_offset, the greatest audit_id, and the lost offsets as a span from 0
    to their sum. If one of the audits read the partition again, it has a row for each entry.
    """

    first: int
    last: int
    rows: pa.Table


def ledger_sums(audits: pa.dataset.Dataset) -> pa.Table:
    """Rows as in Sums, of each file; in no order."""
    found = [
        sums for file in _files(audits) if (sums := _reported(file.metadata) or _sums(_entries_in(file))) is not None
    ]
    found.sort(key=lambda sums: sums.first)
    if any(later.first <= sums.last for sums, later in pairwise(found)):
        # The audits of one file may be among those of another, and sums would hide a reading again between them. Upkeep
        # writes no such files.
        return pa.concat_tables(_entries_in(file) for file in _files(audits))
    return pa.concat_tables([_schema().empty_table(), *(sums.rows for sums in found)])


def sums_for_footer(rows: pa.Table) -> dict[str, str]:
    """The footer of a file with these rows of the ledger; empty if it is not worth it."""
    sums = _sums(_entries(rows)) if len(rows) >= MANY_ROWS else None
    if sums is None or len(sums.rows) > MANY_SUMS:
        return {}
    return {KEY: json.dumps([sums.first, sums.last, sums.rows.to_pydict()], separators=(",", ":"))}


def _reported(metadata: pq.FileMetaData) -> Sums | None:
    text = (metadata.metadata or {}).get(KEY.encode())
    if text is None:
        return None
    first, last, columns = json.loads(text)
    return Sums(first, last, pa.table(columns, _schema()))


def _files(audits: pa.dataset.Dataset) -> Iterator[pq.ParquetFile]:
    """The dataset's files, each open until the caller takes the next one."""
    for fragment in audits.get_fragments() if isinstance(audits, pa.dataset.FileSystemDataset) else ():
        with fragment.filesystem.open_input_file(fragment.path) as opened:
            yield pq.ParquetFile(opened)


def _schema() -> pa.Schema:
    entry = arrow_schema("audits").field(ENTRIES).type.value_type
    return pa.schema([pa.field("audit_id", pa.int64()), *(entry.field(name).with_nullable(True) for name in FIELDS)])


def _entries_in(file: pq.ParquetFile) -> pa.Table:
    # A list's fields are below `list.element`, or another name that the writer chose.
    leaves = [column.path for column in file.schema if column.path.startswith(f"{ENTRIES}.")]
    wanted = [path for path in leaves if path.rpartition(".")[2] in (*FIELDS, TOPIC)]
    return _entries(file.read(columns=["audit_id", "status", *wanted]))


def _entries(rows: pa.Table) -> pa.Table:
    """audit_id and FIELDS, one row for each entry of __consumer_offsets; null for a field that a file of an older
    layout does not have."""
    rows, schema = rows.filter(pc.equal(rows["status"], FINISHED)), _schema()
    lists = rows[ENTRIES].combine_chunks()
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    entries = pc.list_flatten(lists)
    there = {field.name for field in entries.type}
    columns = {"audit_id": pa.array(np.repeat(rows["audit_id"].to_numpy(), counts))}
    columns |= {name: pc.struct_field(entries, name) for name in FIELDS if name in there}
    columns |= {name: pa.nulls(len(entries), schema.field(name).type) for name in FIELDS if name not in there}
    table = pa.table(columns).select(schema.names).cast(schema)
    return table.filter(is_of_log(entries)) if TOPIC in there else table


def _sums(entries: pa.Table) -> Sums | None:
    """The sums of the entries; None: there are no entries."""
    first, last = pc.min_max(entries["audit_id"]).as_py().values()
    return None if first is None else Sums(first, last, _added_up(entries, last))


def _added_up(entries: pa.Table, last: int) -> pa.Table:
    if any(entries[name].null_count for name in ("offsets_partition", "start_offset", *SUMS)):
        return entries
    partitions = entries["offsets_partition"].to_numpy()
    alone = np.isin(partitions, partitions[entries["records_reread"].to_numpy() > 0])
    once = _of_each_partition(entries.filter(pa.array(~alone)), last)
    return pa.concat_tables([once, entries.filter(pa.array(alone))])


def _of_each_partition(entries: pa.Table, last: int) -> pa.Table:
    found, place = np.unique(entries["offsets_partition"].to_numpy(), return_inverse=True)
    least = np.full(len(found), np.iinfo(np.int64).max)
    np.minimum.at(least, place, entries["start_offset"].to_numpy())
    lost = pc.subtract(entries["lost_to"], entries["lost_from"])
    none_lost = np.bincount(place[lost.is_valid().to_numpy()], minlength=len(found)) == 0
    sums = {name: _summed(entries[name], place, len(found)) for name in SUMS}
    columns = {
        "audit_id": np.full(len(found), last),
        "offsets_partition": found,
        "start_offset": least,
        **sums,
        "lost_from": pa.array(np.zeros(len(found), np.int64), mask=none_lost),
        "lost_to": pa.array(_summed(lost, place, len(found)), mask=none_lost),
    }
    return pa.table(columns).select(entries.column_names).cast(entries.schema)


def _summed(values: pa.ChunkedArray, place: np.ndarray, size: int) -> np.ndarray:
    """int64[size]: sums by place; null counts as 0."""
    sums = np.zeros(size, np.int64)
    np.add.at(sums, place, pc.fill_null(values, 0).to_numpy())
    return sums
