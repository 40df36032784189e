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

from kgroups_spark.offsets.columns import ABORT, COMMIT, I64, LARGEST_KEY, NEVER, Flags, Markers, next_marker, starts_of
from kgroups_spark.tables.rows import flags, is_given, numbers
from kgroups_spark.words import HOUR_MS

# The last record of each key, among rows that come in lots.


# The number of rows that wait for the comparison of their keys; at least the number of keys.
ROWS_AT_ONCE = 1 << 20


class Contest(NamedTuple):
    """The rows of a key from its last base on stay; without a base all of its rows stay.

    key           the key's columns, for each row
    is_in         rows that take part; the contest keeps no other row
    is_base       rows that are a base; None: all are, so only the last row of a key stays
    """

    key: pa.Table
    is_in: Flags
    is_base: Flags | None = None


class LastOfEach:
    """A contest among all added rows, by their numbers. Memory: one row for each key, and ROWS_AT_ONCE rows."""

    def __init__(self) -> None:
        self._lots: list[pa.Table] = []
        self._waiting, self._left = 0, 0

    def add(self, contest: Contest, log_offset: I64, number: I64) -> None:
        base = np.ones(len(number), np.bool_) if contest.is_base is None else contest.is_base
        key = {f"key_{n}": _encoded(column) for n, column in enumerate(contest.key.columns)}
        rows = pa.table(key | {"log_offset": log_offset, "number": number, "is_base": base})
        self._lots.append(rows.filter(pa.array(contest.is_in)))
        self._waiting += len(self._lots[-1])
        if self._waiting >= max(self._left, ROWS_AT_ONCE):
            self._compare()

    def numbers(self) -> I64:
        """The rows that stay."""
        self._compare()
        return numbers(self._lots[0]["number"])

    def _compare(self) -> None:
        rows = pa.concat_tables(self._lots).unify_dictionaries()
        left = rows.filter(pa.array(_from_last_base_on(rows))).combine_chunks()
        self._lots, self._waiting, self._left = [left], 0, len(left)


def _encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column, with texts and bytes as dictionaries, because keys repeat them."""
    is_number = pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
    return column if is_number or pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _from_last_base_on(rows: pa.Table) -> Flags:
    """Which rows are at or after the last base of their key."""
    if not len(rows):
        return np.zeros(0, np.bool_)
    log_offset, key = numbers(rows["log_offset"]), _key_numbers(rows)
    base = np.where(flags(rows["is_base"]), log_offset, -1)
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(starts_of(key[order]))
    last = np.repeat(np.maximum.reduceat(base[order], starts), np.diff(starts, append=len(order)))
    stays = np.empty(len(rows), np.bool_)
    stays[order] = log_offset[order] >= last
    return stays


def _key_numbers(rows: pa.Table) -> I64:
    """The same number for rows with the same key; null equals null."""
    key = np.zeros(len(rows), np.int64)
    for name in (name for name in rows.column_names if name.startswith("key_")):
        codes = _codes(rows[name])
        low, span = int(codes.min()), int(codes.max()) - int(codes.min()) + 1
        if (int(key.max()) + 1) * span >= LARGEST_KEY:
            key = np.unique(key, return_inverse=True)[1]
            codes, span = np.unique(codes, return_inverse=True)[1], len(codes)
            low = 0
        key = key * span + (codes - low)
    return key


def _codes(column: pa.ChunkedArray) -> I64:
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array([chunk.indices for chunk in column.chunks], column.type.index_type)
        return numbers(column, none=-1)
    if not column.null_count:
        return numbers(column)
    return np.unique(numbers(column.dictionary_encode().combine_chunks().indices, none=-1), return_inverse=True)[1]


# The ends of transactions, found in rows of transaction_markers: for each record the next marker of its producer.


# Columns of transaction_markers.
MARKER_COLUMNS = ("offsets_partition", "producer_id", "log_offset", "transaction_start_offset", "outcome")
PRODUCER_COLUMNS = ("offsets_partition", "producer_id", "log_offset")


@dataclass(frozen=True)
class Ends:
    """The ends of the transactions of n records: the log offset of the marker (NEVER: none), and whether it aborted."""

    log_offset: I64
    is_aborted: Flags

    def before(self, horizon: I64) -> Flags:
        return self.log_offset < horizon


class NextMarkers:
    """For each record (PRODUCER_COLUMNS) the next committing or aborting marker of its producer, among the markers
    added so far; `log_offset` NEVER: none follows."""

    def __init__(self, records: pa.Table) -> None:
        self._partition, self._producer, self._record = (numbers(records[name], none=-1) for name in PRODUCER_COLUMNS)
        self.log_offset = np.full(len(records), NEVER, np.int64)
        self.start_offset = np.full(len(records), NEVER, np.int64)
        self.is_aborted = np.zeros(len(records), np.bool_)

    def look(self, markers: pa.Table) -> None:
        """Adds rows of transaction_markers (MARKER_COLUMNS)."""
        wanted = pc.and_(pc.is_valid(markers["outcome"]), pc.is_valid(markers["producer_id"]))
        markers = markers.filter(wanted)
        of = numbers(markers["offsets_partition"])
        for partition in np.intersect1d(of, self._partition).tolist():
            self._look(np.flatnonzero(self._partition == partition), markers.filter(pa.array(of == partition)))

    def _look(self, at: I64, markers: pa.Table) -> None:
        log_offset, is_aborted = numbers(markers["log_offset"]), flags(pc.equal(markers["outcome"], "aborted"))
        outcome = np.where(is_aborted, ABORT, COMMIT)
        ends = Markers(log_offset, np.zeros_like(log_offset), numbers(markers["producer_id"]), outcome)
        number = next_marker(self._producer[at], self._record[at], ends)
        nearer = np.flatnonzero((number >= 0) & (log_offset[number] < self.log_offset[at]))
        at, number = at[nearer], number[nearer]
        self.log_offset[at] = log_offset[number]
        self.start_offset[at] = numbers(markers["transaction_start_offset"], none=NEVER)[number]
        self.is_aborted[at] = is_aborted[number]

    def places(self) -> dict[int, I64]:
        """The log offsets of the markers that follow a record, by offsets partition."""
        has = self.log_offset != NEVER
        partition, log_offset = self._partition[has], self.log_offset[has]
        return {number: np.unique(log_offset[partition == number]) for number in np.unique(partition).tolist()}


def ends_of(records: pa.Table, markers: Iterable[pa.Table]) -> Ends:
    """The ends of the records' transactions: a marker counts if its transaction began at or before the record."""
    following = NextMarkers(records)
    for some in markers:
        following.look(some.filter(pc.is_valid(some["transaction_start_offset"])))
    is_in = following.start_offset <= numbers(records["log_offset"])
    return Ends(np.where(is_in, following.log_offset, NEVER), following.is_aborted & is_in)


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
