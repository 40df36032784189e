"""The end of the log as of a moment: each offsets partition ends before its first record with a later log_timestamp.
The log is ordered by offset; its times may step back.

Times that are ahead of the clock end no log (decoding/log_times.py): otherwise one record dated 2040 would end
the log at its offset as of every moment. In SQL: the view last_audit and the function log_ends_as_of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.decoding.log_times import CLOCKS_DIFFER_MS
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.replaced import Replaced
from kgroups_spark.runner import Line
from kgroups_spark.tables.arrays import flags
from kgroups_spark.tasks.table_scan import Look
from kgroups_spark.times import to_epoch_ms

# A partition of a log, and a log offset.
Places = dict[tuple[Any, ...], int]
ENDS_COLUMNS = ("offsets_partition", "log_offset", "log_timestamp")


def believed_until(audit: AuditRow) -> int:
    """The epoch ms above which log times count nowhere after that audit."""
    newest = audit.newest_log_timestamp or audit.started_at
    return max(to_epoch_ms(newest), to_epoch_ms(audit.started_at) + CLOCKS_DIFFER_MS)


def log_ends(rows: pa.Table, as_of_ms: int, believed_until_ms: int, partition: Sequence[str]) -> Places:
    """The log_offset of the first record later than the moment, by partition (the columns `partition`); partitions
    without such a record are absent. Times above `believed_until_ms` do not count."""
    time_us = rows["log_timestamp"].cast(pa.int64())
    later = pc.and_(pc.greater(time_us, 1000 * as_of_ms), pc.less_equal(time_us, 1000 * believed_until_ms))
    return first_places(rows.filter(pa.array(flags(later))), partition)


def first_places(rows: pa.Table, partition: Sequence[str], column: str = "log_offset") -> Places:
    """The least value of a column, by partition."""
    least = rows.group_by([*partition], use_threads=False).aggregate([(column, "min")])
    keys = zip(*(least[name].to_pylist() for name in partition), strict=True)
    return dict(zip(keys, least[f"{column}_min"].to_pylist(), strict=True))


def look_for_ends(as_of_ms: int, believed_until_ms: int, replaced: Replaced) -> Look:
    """A function for table_scan: `log_ends` of the LOG_TABLES, as a line for each lot of rows."""

    def look(name: str, path: str | None, lots: Iterator[pa.Table]) -> Iterator[Line]:
        for rows in lots:
            live, is_replaced = replaced.parted(name, rows)
            counts = live.filter(pa.array(~is_replaced))
            yield "ends", list(log_ends(counts, as_of_ms, believed_until_ms, ENDS_COLUMNS[:1]).items())

    return look


def reported_first(lines: Iterable[Line]) -> Places:
    """The least place of each partition in the lines."""
    found: Places = {}
    for _, places in lines:
        for partition, at in places:
            key = tuple(partition)
            found[key] = min(found.get(key, at), at)
    return found
