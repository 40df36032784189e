"""The rows and columns of the ledger that a query needs: never all rows, whatever the number of audits.

A lake has two rows an audit, each with an entry for every partition of __consumer_offsets: ten years of nights are
730,000 entries. So rows are read by number, from the newest back, and entries stay columns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.lake.last_finished import IS_FINISHED, is_of_log, lots_backwards, since_last_finished
from kgroups_spark.lake.store import TableFile, TableLog
from kgroups_spark.tables.conditions import Condition


class LakeWithLedger(Protocol):
    """The part of `lake.Lake` that queries of the ledger need (a protocol, because Lake itself calls newest_rows)."""

    ledgers_end: dict[tuple[str, int], pa.Table]

    @property
    def files_in_reach(self) -> bool: ...

    @property
    def finished_in(self) -> dict[str, list[int]]: ...

    def table(self, name: str) -> TableLog: ...

    def rows(
        self,
        name: str,
        version: int | None = None,
        *,
        files: Iterable[TableFile] | None = None,
        columns: Sequence[str] | None = None,
        conditions: Sequence[Condition] = (),
    ) -> pa.Table: ...


def newest_rows(lake: LakeWithLedger, version: int | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of the last finished audit and of later ones; all rows if none has finished.

    `version`: of the ledger (None: the newest). `columns`: None means all; such rows of a file are read once, because
    an audit asks for them before and after each of its own rows.
    """
    if not lake.files_in_reach:
        ends = lake.rows("audits", version, columns=["audit_id"], conditions=[IS_FINISHED])
        last = pc.max(ends["audit_id"]).as_py() or 0
        return lake.rows("audits", version, columns=columns, conditions=[Condition("audit_id", ">=", last)])

    def finished_in(file: TableFile) -> list[int]:
        if file.path not in lake.finished_in:
            ends = lake.rows("audits", files=[file], columns=["audit_id"], conditions=[IS_FINISHED])
            lake.finished_in[file.path] = ends["audit_id"].to_pylist()
        return lake.finished_in[file.path]

    last, files = since_last_finished(lake.table("audits").files(version), newest_audit, finished_in)
    since = [Condition("audit_id", ">=", last)]
    if columns is not None or not files:
        return lake.rows("audits", files=files, columns=columns, conditions=since)
    known, found = lake.ledgers_end, dict[tuple[str, int], pa.Table]()
    for place, file in (((file.path, last), file) for file in files):
        found[place] = known[place] if place in known else lake.rows("audits", files=[file], conditions=since)
    lake.ledgers_end = found
    return pa.concat_tables(found.values())


def newest_audit(file: TableFile) -> float:
    """The greatest number of an audit in the file, by its statistics; inf: unknown."""
    newest = file.bound("maxValues", "audit_id")
    return math.inf if newest is None else float(newest)


class Reading(NamedTuple):
    """A finished audit, and the partitions in which it read records."""

    started_at: datetime
    newest_log_timestamp: datetime | None
    offsets_partitions: frozenset[int]


def readings_backwards(lake: LakeWithLedger, newest: int, topic: str | None = None) -> Iterator[Reading]:
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


def what_was_read(lake: LakeWithLedger, newest: int) -> pa.Table:
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
