"""The rows and columns of the ledger that a query needs: never all rows, whatever the number of audits.

A lake has two rows an audit, each with an entry for every partition of __consumer_offsets: ten years of nights are
730,000 entries. So rows are read by number, from the newest back, and entries stay columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import is_of_log, lots_backwards


class Reading(NamedTuple):
    """A finished audit, and the partitions in which it read records."""

    started_at: datetime
    newest_log_timestamp: datetime | None
    offsets_partitions: frozenset[int]


def readings_backwards(lake: Lake, newest: int, topic: str | None = None) -> Iterator[Reading]:
    """The spans that finished audits read of __consumer_offsets, or of the log that `topic` names, audit `newest`
    first."""
    columns = ["started_at", "newest_log_timestamp", "partitions"]
    for rows in lots_backwards(partial(lake.rows, "audits"), columns, newest):
        for index in range(rows.num_rows):
            row = rows.slice(index, 1)
            entries = pc.list_flatten(row["partitions"].combine_chunks())
            entries = entries.filter(is_of_log(entries, topic))
            was_read = pc.or_(*(pc.greater(pc.struct_field(entries, name), 0) for name in ("records", "bytes")))
            numbers = pc.struct_field(entries, "offsets_partition").filter(was_read).to_pylist()
            started_at, newest_log_timestamp = (row[name][0].as_py() for name in columns[:2])
            yield Reading(started_at, newest_log_timestamp, frozenset(numbers))


def what_was_read(lake: Lake, newest: int) -> pa.Table:
    """The spans of each partition that each finished audit up to `newest` read, in no order: audit_id, retention_ms,
    offsets_partition, start_offset, end_offset, records; all int64, one row for each entry of `partitions`.

    Entries of partitions without anything to read are left out.
    """
    columns = ["retention_ms", "partitions"]
    return pa.concat_tables(map(entries_of, lots_backwards(partial(lake.rows, "audits"), columns, newest)))


ENTRY = ("offsets_partition", "start_offset", "end_offset", "records")


def entries_of(rows: pa.Table) -> pa.Table:
    """The columns of `what_was_read` of rows of the ledger with audit_id, retention_ms and partitions."""
    rows = rows.combine_chunks()
    lists = rows["partitions"]
    entries, parents = pc.list_flatten(lists), pc.list_parent_indices(lists)
    columns = {name: rows[name].take(parents).cast(pa.int64()) for name in ("audit_id", "retention_ms")}
    columns |= {name: pc.struct_field(entries, name).cast(pa.int64()) for name in ENTRY}
    table = pa.table(columns).filter(is_of_log(entries))
    return table.filter((pc.field("end_offset") > pc.field("start_offset")) | (pc.field("records") > 0))


def records_read(read: pa.Table) -> Counter[int]:
    """The number of records of each partition of __consumer_offsets, from rows of `what_was_read`."""
    sums = read.group_by("offsets_partition").aggregate([("records", "sum")])
    return Counter(dict(zip(sums["offsets_partition"].to_pylist(), sums["records_sum"].to_pylist(), strict=True)))
