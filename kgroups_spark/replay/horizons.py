"""The log offset H of each offsets partition up to which history may be reduced, below everything to keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.replaced import Replaced
from kgroups_spark.offsets.columns import I64, NEVER
from kgroups_spark.replay.log_times import CLOCKS_DIFFER_MS
from kgroups_spark.replay.table_scan import Look, scan_tables
from kgroups_spark.spark.runner import Line
from kgroups_spark.tables.rows import flags, numbers
from kgroups_spark.tables.schemas import LOG_TABLES
from kgroups_spark.words import to_epoch_ms

# The end of the log as of a moment: each offsets partition ends before its first record with a later log_timestamp.
# The log is ordered by offset; its times may step back.
#
# Times that are ahead of the clock end no log (decoding/log_times.py): otherwise one record dated 2040 would end
# the log at its offset as of every moment. In SQL: the view last_audit and the function log_ends_as_of.


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


# offsets partition -> H: history below it is old.
Horizons = Mapping[int, int]

_SPAN = ("offsets_partition", "log_offset", "transaction_start_offset")


def horizons(lake: Lake, audit: AuditRow, moment_ms: int) -> dict[int, int]:
    """H of every partition that the audit has read: the log offset of its first record later than the moment (epoch
    ms), but never above the start of a transaction that is still open there, because Kafka's cleaner stops before
    one."""
    ends = look_for_ends(moment_ms, believed_until(audit), lake.replaced)
    columns = dict.fromkeys(LOG_TABLES, (*ENDS_COLUMNS, "audit_id"))
    found = {p.offsets_partition: p.end_offset for p in audit.partitions or ()}
    # Rows of an unfinished audit, which a dry run sees, may have the first record after the end of this audit's log.
    for (number,), first in reported_first(scan_tables(lake, columns, ends)).items():
        found[number] = min(found.get(number, first), first)
    spanning = _look_for_spanning(found, lake.replaced)
    lines = scan_tables(lake, {"transaction_markers": (*_SPAN, "audit_id")}, spanning)
    open_now = lake.rows("open_transactions", columns=["offsets_partition", "transaction_start_offset"])
    for starts in (reported_first(lines), first_places(open_now, _SPAN[:1], _SPAN[2])):
        for (number,), start in starts.items():
            if number in found and start is not None:
                found[number] = min(found[number], start)
    return found


def _look_for_spanning(of: Horizons, replaced: Replaced) -> Look:
    """The start offsets of transactions that were open at H and have ended since."""

    def look(name: str, path: str, lots: Iterator[pa.Table]) -> Iterator[Line]:
        for rows in lots:
            _, is_replaced = replaced.parted(name, rows)
            horizon = looked_up(of, numbers(rows["offsets_partition"]))
            spans = numbers(rows[_SPAN[2]], none=NEVER) < horizon
            spans &= (numbers(rows["log_offset"]) >= horizon) & ~is_replaced
            yield "starts", list(first_places(rows.filter(pa.array(np.asarray(spans))), _SPAN[:1], _SPAN[2]).items())

    return look


def looked_up(of: Horizons, partition: I64) -> I64:
    """The H of each row's partition; -1: the partition is not reduced."""
    if not of:
        return np.full(len(partition), -1, np.int64)
    known = np.array(sorted(of), np.int64)
    at_known = np.array([of[number] for number in known.tolist()], np.int64)
    at = np.minimum(np.searchsorted(known, partition), len(known) - 1)
    return np.where(known[at] == partition, at_known[at], -1)
