"""Reduction of old history as by Kafka's log cleaner: the last record of each key stays.

Rules for rows below H of their offsets partition (horizons.py):

    offset_commits       the last record of each key stays, also a tombstone. Values of aborted transactions go.
                         Records of a transaction that is open at H, and records with a producer id but no transaction,
                         stay
    group_records        the last record of each key; records of a transaction that is open at H stay
    quarantine           stays; of records of an unknown type or version only the last of each key
    transaction_markers  stay as long as a record of their transaction stays
    group_versions, group_member_versions   the last version of each group or member stays
    group_events         rows below H go
    group_traffic        whole hours before the moment go
    topic_offsets        rows seen before the moment go, except those seen last

The coordinator applies tombstones at once, even in aborted transactions, so they count as records here. Each rule can
be applied again to its own result, in any order, without a change: a marker that decides the outcome of a record stays
with it.

All of it works on plain columns: rows come in lots, twice in the same order. The first pass compares their keys, which
takes memory for each key and one byte for each row. The second pass returns the rows that stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.durations import HOUR_MS
from kgroups_spark.history.last_of_each import Contest, LastOfEach
from kgroups_spark.history.transaction_ends import PRODUCER_COLUMNS, Ends, ends_of
from kgroups_spark.offsets.numbers import I64, NEVER, Flags
from kgroups_spark.tables.arrays import flags, is_given, numbers

UNKNOWN = ("unknown_record_type", "unknown_value_version")


class Decided(NamedTuple):
    """The decision on rows below H: a row stays anyway (`stays`), or by one of the contests; all others go."""

    stays: Flags
    contests: tuple[Contest, ...] = ()


@dataclass(frozen=True)
class Rule:
    """The reduction of a table's rows below H.

    columns  the columns that decide, besides the place
    decide   (rows, the ends of their transactions, the H of each) -> the decision
    asks     rows for which the marker of their transaction must be found
    """

    columns: tuple[str, ...]
    decide: Callable[[pa.Table, Ends, I64], Decided]
    asks: Callable[[pa.Table], Flags] | None = None


def _of_commits(rows: pa.Table, ends: Ends, horizon: I64) -> Decided:
    key = rows.select(["offsets_partition", "record_type", "group_id", "topic", "partition", "raw_key"])
    has_ended = ends.before(horizon)
    stays = np.where(flags(rows["is_transactional"]), ~has_ended, is_given(rows["producer_id"]))
    is_void = has_ended & ends.is_aborted & is_given(rows["value_version"])
    return Decided(stays, (Contest(key, ~stays & ~is_void),))


def _of_group_records(rows: pa.Table, ends: Ends, horizon: I64) -> Decided:
    names = ["offsets_partition", "record_type", "group_id", "member_id", "regular_expression", "raw_key"]
    stays = flags(rows["is_transactional"]) & ~ends.before(horizon)
    return Decided(stays, (Contest(rows.select(names), ~stays),))


def _of_quarantine(rows: pa.Table, ends: Ends, horizon: I64) -> Decided:
    is_unknown = is_of_unknown_kind(rows) & ~is_given(rows["resolved_by"]) & ~is_given(rows["producer_id"])
    return Decided(~is_unknown, (Contest(rows.select(["offsets_partition", "raw_key"]), is_unknown),))


def is_of_unknown_kind(rows: pa.Table) -> Flags:
    """Which rows of quarantine are records of an unknown type or version."""
    return flags(pc.is_in(rows["reason"], pa.array(UNKNOWN)))


def _of_versions(*key: str) -> Rule:
    def decide(rows: pa.Table, ends: Ends, horizon: I64) -> Decided:
        all_of_them = np.ones(len(rows), np.bool_)
        return Decided(~all_of_them, (Contest(rows.select(key), all_of_them),))

    return Rule(key, decide)


def _without_a_marker(rows: pa.Table) -> Flags:
    """Transactional rows without a marker in the row; a row has its marker if both were read together."""
    is_open = flags(rows["is_transactional"])
    return is_open & ~is_given(rows["marker_offset"]) if "marker_offset" in rows.column_names else is_open


_TRANSACTIONAL = ("is_transactional", "producer_id")
RULES: Mapping[str, Rule] = {
    "offset_commits": Rule(
        ("record_type", "group_id", "topic", "partition", "raw_key", "value_version", "outcome", "marker_offset")
        + _TRANSACTIONAL,
        _of_commits,
        _without_a_marker,
    ),
    "group_records": Rule(
        ("record_type", "group_id", "member_id", "regular_expression", "raw_key", *_TRANSACTIONAL),
        _of_group_records,
        _without_a_marker,
    ),
    "quarantine": Rule(("raw_key", "reason", "resolved_by", "producer_id"), _of_quarantine),
    "group_versions": _of_versions("offsets_partition", "group_id"),
    "group_member_versions": _of_versions("offsets_partition", "group_id", "member_id"),
}


class Lot(NamedTuple):
    """Rows of a table, a mask of replaced ones (lake/replaced.py), and the H of each (-1: none)."""

    rows: pa.Table
    is_replaced: Flags
    horizon: I64


def rows_that_stay(rule: Rule, lots: Iterable[Lot], markers: Callable[[], Iterable[pa.Table]]) -> Flags:
    """Whether each row of all lots stays. Replaced rows below H go, and have no influence on others.

    `markers` returns rows of transaction_markers of these offsets partitions (MARKER_COLUMNS), also without an outcome.
    """
    stays, asking = [np.zeros(0, np.bool_)], list[tuple[pa.Table, I64, I64]]()
    contests, start = dict[int, LastOfEach](), 0

    def settle(rows: pa.Table, number: I64, ends: Ends, horizon: I64) -> I64:
        """The numbers of the rows that stay anyway."""
        decided = rule.decide(rows, ends, horizon)
        log_offset = numbers(rows["log_offset"])
        for n, contest in enumerate(decided.contests):
            contests.setdefault(n, LastOfEach()).add(contest, log_offset, number)
        return number[decided.stays]

    for rows, is_replaced, horizon in lots:
        is_old = numbers(rows["log_offset"]) < horizon
        stays.append(~is_old)
        chosen = np.flatnonzero(is_old & ~is_replaced)
        some = rows.take(pa.array(chosen))
        asks = np.zeros(len(chosen), np.bool_) if rule.asks is None else rule.asks(some)
        if asks.any():
            asking.append((some.filter(pa.array(asks)), chosen[asks] + start, horizon[chosen[asks]]))
            some, chosen = some.filter(pa.array(~asks)), chosen[~asks]
        stays[-1][settle(some, chosen + start, _reported(some), horizon[chosen]) - start] = True
        start += len(rows)
    found = np.concatenate(stays)
    if asking:
        tables, places, horizons = zip(*asking, strict=True)
        rows = pa.concat_tables(tables)
        found[settle(rows, np.concatenate(places), ends_of(rows, markers()), np.concatenate(horizons))] = True
    for contest in contests.values():
        found[contest.numbers()] = True
    return found


def _reported(rows: pa.Table) -> Ends:
    """The ends of the rows' transactions, from the rows' own columns."""
    if "marker_offset" not in rows.column_names:
        return Ends(np.full(len(rows), NEVER, np.int64), np.zeros(len(rows), np.bool_))
    return Ends(numbers(rows["marker_offset"], none=NEVER), flags(pc.equal(rows["outcome"], "aborted")))


def producers_left(rows: pa.Table, horizon: I64) -> pa.Table:
    """PRODUCER_COLUMNS of rows that stay below H, because their markers must stay, too. `rows`: of a table of
    records."""
    is_it = is_given(rows["producer_id"]) & (numbers(rows["log_offset"]) < horizon)
    if "record_count" in rows.column_names:
        is_it &= numbers(rows["record_count"]) > 0
    return rows.select(PRODUCER_COLUMNS).filter(pa.array(is_it))


def markers_that_stay(lot: Lot, needed: Mapping[int, I64]) -> Flags:
    """Which rows of transaction_markers stay; `needed`: log offsets of the markers that follow a remaining record."""
    partition, log_offset = numbers(lot.rows["offsets_partition"]), numbers(lot.rows["log_offset"])
    stays = ~is_given(lot.rows["outcome"]) | ~is_given(lot.rows["producer_id"])
    for number, places in needed.items():
        stays |= (partition == number) & np.isin(log_offset, places)
    return (log_offset >= lot.horizon) | (stays & ~lot.is_replaced)


def traffic_that_stays(rows: pa.Table, moment_ms: int) -> Flags:
    """Which rows of group_traffic stay: hours that end after the moment (epoch ms), and records without a time."""
    ends = numbers(rows["hour"]) // 1000 + HOUR_MS
    stays: Flags = ~is_given(rows["hour"]) | (ends > moment_ms)
    return stays


def topic_offsets_that_stay(rows: pa.Table, moment_ms: int, newest_audit_id: int) -> Flags:
    """Which rows of topic_offsets stay: those seen since the moment (epoch ms), and those of the newest audit that has
    any, which the view lag reads."""
    stays: Flags = (numbers(rows["seen_at"]) // 1000 >= moment_ms) | (numbers(rows["audit_id"]) == newest_audit_id)
    return stays
