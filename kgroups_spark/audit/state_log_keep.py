"""`--keep` for `__share_group_state` and `__transaction_state`: rows below H of each partition are reduced so that a
replay of the remaining rows leads to the same state, by the rules of any release.

    transaction_state_records   the last record of each id, producer and version stays, of those that a load fails at,
                                too
    share_group_state_records   the newest snapshot or tombstone of each share partition stays, and all records after it
    state_quarantine            stays; of records of an unknown type or version only the last of each key
    state_events                rows below H go

No state must be saved for that: a checkpoint records how far a partition is, or may be, reduced. Queries as of a moment
before it have no answer. Each rule can be applied again to its own result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.coordinator.state_entries import MARK, made_by
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.offsets.columns import I64, Flags
from kgroups_spark.replay.horizons import believed_until, log_ends, looked_up, reported_first
from kgroups_spark.replay.reduction import Contest, Decided, Ends, Rule, is_of_unknown_kind
from kgroups_spark.replay.shard_states import IS_KEPT
from kgroups_spark.replay.state_logs import RECORDS
from kgroups_spark.replay.table_scan import scan_tables
from kgroups_spark.spark.runner import Line
from kgroups_spark.tables.columns import Condition
from kgroups_spark.tables.definitions import KEEP
from kgroups_spark.tables.rows import flags, is_given, numbers
from kgroups_spark.tables.schemas import CHECKPOINTS, arrow_schema

# (log, partition) -> H: history below it is old.
StateHorizons = Mapping[tuple[str, int], int]
_SHARE_SNAPSHOT = 0
_LOG_OF = {table: log for log, table in RECORDS.items()}
STATE_TABLES = ("transaction_state_records", "share_group_state_records", "state_quarantine", "state_events")


def columns_of_place(name: str) -> tuple[str, ...]:
    """The columns of a table that name the log and the partition of a row."""
    return ("state_partition",) if name in _LOG_OF else ("log", "state_partition")


def state_horizons_of(name: str, rows: pa.Table, of: StateHorizons) -> I64:
    """The H of each row's partition; -1: the partition is not reduced."""
    partition, found = numbers(rows["state_partition"]), np.full(len(rows), -1, np.int64)
    for log in {log for log, _ in of}:
        is_it = is_of_log(name, rows, log)
        found[is_it] = looked_up({p: at for (of_log, p), at in of.items() if of_log == log}, partition[is_it])
    return found


def is_of_log(name: str, rows: pa.Table, log: str) -> Flags:
    """Which rows of a table are about this log."""
    return np.full(len(rows), _LOG_OF[name] == log) if name in _LOG_OF else flags(pc.equal(rows["log"], log))


def _of_transactions(rows: pa.Table, ends: Ends, horizon: I64) -> Decided:
    columns = rows.select(["state_partition", "transactional_id", "value_version"])
    kinds = zip(*map(_kind, rows["value"].to_pylist()), strict=True) if len(rows) else ([], [], [])
    types = (pa.int64(), pa.bool_(), pa.bool_())
    for name, values, type_ in zip(("producer_id", "is_sound", "is_of_a_version"), kinds, types, strict=True):
        columns = columns.append_column(name, pa.array(values, type_))
    return _all_by(Contest(columns, np.ones(len(rows), np.bool_)))


def _kind(value: str | None) -> tuple[int | None, bool | None, bool | None]:
    """The producer id, whether a load accepts the status, and whether it accepts the client's transaction version."""
    if value is None:
        return None, None, True
    fields = orjson.loads(value)
    status, version = fields.get("transactionStatus"), fields.get("clientTransactionVersion") or 0
    has_partitions = fields.get("transactionPartitions") is not None
    is_sound = None if status is None else 0 <= status <= 7 and (status == 0 or has_partitions)
    return fields.get("producerId"), is_sound, 0 <= version <= 2


def _of_shares(rows: pa.Table, ends: Ends, horizon: I64) -> Decided:
    """The decision on records of share partitions. A release reads only values in its own layout: 4.0 has another
    layout, and only 4.1 and newer read tombstones."""
    key = rows.select(["state_partition", "group_id", "topic_id", "partition"])
    layout, is_value = pc.fill_null(rows["layout"], ""), is_given(rows["value"])
    is_snapshot, fits_both = numbers(rows["record_type"]) == _SHARE_SNAPSHOT, flags(pc.starts_with(layout, "?"))
    by_newer = np.where(is_value, flags(pc.equal(layout, "")) | fits_both, is_snapshot)
    by_early = is_value & (flags(pc.equal(layout, "4.0")) | fits_both)
    return _all_by(Contest(key, by_newer, is_snapshot), Contest(key, by_early, is_snapshot))


def _of_quarantine(rows: pa.Table, ends: Ends, horizon: I64) -> Decided:
    is_unknown = is_of_unknown_kind(rows)
    return Decided(~is_unknown, (Contest(rows.select(["log", "state_partition", "raw_key"]), is_unknown),))


def _all_by(*contests: Contest) -> Decided:
    return Decided(np.zeros(len(contests[0].is_in), np.bool_), contests)


STATE_RULES: Mapping[str, Rule] = {
    "transaction_state_records": Rule(("transactional_id", "value_version", "value"), _of_transactions),
    "share_group_state_records": Rule(
        ("record_type", "group_id", "topic_id", "partition", "value", "layout"), _of_shares
    ),
    "state_quarantine": Rule(("raw_key", "reason"), _of_quarantine),
}


def state_horizons(lake: Lake, audit: AuditRow, moment_ms: int) -> dict[tuple[str, int], int]:
    """H of every partition of these logs that the audit has read: the log offset of its first record later than the
    moment (epoch ms)."""
    found = {(entry.topic or "", entry.offsets_partition): entry.end_offset for entry in audit.state_partitions}
    if not found:
        return {}
    names = (*RECORDS.values(), "state_quarantine")
    columns = {name: (*columns_of_place(name), "log_offset", "log_timestamp") for name in names}
    lines = scan_tables(lake, columns, partial(_ends, moment_ms, believed_until(audit)))
    for place, first in reported_first(lines).items():
        found[place] = min(found.get(place, first), first)
    return found


def _ends(moment_ms: int, believed_ms: int, name: str, path: str, lots: Iterator[pa.Table]) -> Iterator[Line]:
    for rows in lots:
        places = log_ends(rows, moment_ms, believed_ms, columns_of_place(name))
        log = () if "log" in rows.column_names else (_LOG_OF[name],)
        yield "ends", [((*log, *place), at) for place, at in places.items()]


def states_reduced_to(lake: Lake) -> dict[tuple[str, int], int]:
    """The log offset below which each partition is, or may be, reduced."""
    columns, of_logs = ["log", "offsets_partition", "log_offset"], Condition("log", "is not null")
    rows = lake.rows(CHECKPOINTS, columns=columns, conditions=[*IS_KEPT, of_logs])
    newest = rows.group_by(columns[:2]).aggregate([("log_offset", "max")])
    return {(row["log"], row["offsets_partition"]): row["log_offset_max"] for row in newest.to_pylist()}


def new_state_horizons(lake: Lake, audit: AuditRow, moment_ms: int) -> dict[tuple[str, int], int]:
    """H of each partition whose H is above the offset to which it is already reduced."""
    found = state_horizons(lake, audit, moment_ms)
    known = states_reduced_to(lake) if found else {}
    return {place: at for place, at in found.items() if at > known.get(place, 0)}


def kept_places(of: StateHorizons, release_version: str, audit_id: int) -> pa.Table:
    """Rows of checkpoints which record that history below H will be reduced."""
    facts = {**made_by(audit_id, KEEP, release_version), **MARK._asdict()}
    rows = [{"log": log, "offsets_partition": p, "log_offset": at, **facts} for (log, p), at in sorted(of.items())]
    return pa.Table.from_pylist(rows, schema=arrow_schema(CHECKPOINTS))
