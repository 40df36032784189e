"""The log offset H of each offsets partition up to which history may be reduced, below everything to keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from kgroups_spark.history.log_ends import ENDS_COLUMNS, believed_until, first_places, look_for_ends, reported_first
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.lake.replaced import Replaced
from kgroups_spark.offsets.numbers import I64, NEVER
from kgroups_spark.runner import Line
from kgroups_spark.tables.arrays import numbers
from kgroups_spark.tables.schemas import LOG_TABLES
from kgroups_spark.tasks.table_scan import Look, scan_tables

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
