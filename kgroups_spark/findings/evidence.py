"""The evidence for findings: the tables as an audit leaves them, and the facts that the audit read.

It has no clock and no Spark. Finders request columns of a table, and the rows that meet conditions, so that the table's
reader can leave out the rest. The result is small, or stays Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from kgroups_spark.counts import first_of
from kgroups_spark.offsets.mixed import Mixed
from kgroups_spark.tables.conditions import Condition as Condition
from kgroups_spark.times import to_datetime

Row = dict[str, Any]
MixedOfShard = tuple[int, Mixed]  # offsets_partition


class Tables(Protocol):
    """The lake's tables, or a stand-in for them."""

    def rows(self, name: str, columns: Sequence[str], *conditions: Condition) -> pa.Table:
        """These columns of the rows that meet all conditions, in any order."""

    def source(self, name: str, *conditions: Condition) -> pa.Table | pa.dataset.Dataset:
        """At least the rows that meet all conditions, for DuckDB, which reads of a dataset the columns and rows that a
        query needs."""


class LargeRecord(NamedTuple):
    """A record of types 2 to 23 that was read, large enough to be reported; times in epoch ms, None: none."""

    offsets_partition: int
    group_id: str
    record_name: str
    log_offset: int
    log_timestamp: int | None
    size_bytes: int


class TimesOff(NamedTuple):
    """Offset commits of a group whose commit time is not that of the log: their number, and the first one; epoch ms."""

    offsets_partition: int
    group_id: str
    topic: str
    partition: int
    log_offset: int
    commit_timestamp: int
    log_timestamp: int
    commits: int


class TransactionState(NamedTuple):
    """The partitions of `__transaction_state` that were read, and the time up to which (None: up to now)."""

    partitions: frozenset[int] = frozenset()
    known_until: datetime | None = None


@dataclass(frozen=True)
class Evidence:
    """The tables and facts for finders. `known_until`: the time up to which the log is complete. Nothing that was due
    later is overdue.

    `known_until_of`: the same for offsets partitions that were not given to this audit. `log_starts`: the present start
    of each offsets partition's log, if known. `before`: the findings of the last audit. `hidden`: partition, number and
    log time (ms) of offsets that a checkpoint older than the log hides.
    """

    tables: Tables
    audit_id: int
    as_of: datetime
    known_until: datetime
    retention_ms: int
    large_records: Sequence[LargeRecord] = ()
    times_off: Sequence[TimesOff] = ()
    known_until_of: Mapping[int, datetime] = field(default_factory=dict)
    log_starts: Mapping[int, int] = field(default_factory=dict)
    before: Sequence[Row] = ()
    transaction_state: TransactionState = field(default_factory=TransactionState)
    mixed_commits: Sequence[MixedOfShard] = ()
    hidden: Sequence[tuple[int, int, int]] = ()

    def before_until(self, duration_ms: int) -> datetime:
        """The latest moment at which a state of that duration can have begun."""
        return self.known_until - timedelta(milliseconds=duration_ms)

    def known(self, rows: pa.Table, column: str, duration_ms: int) -> pa.Table:
        """The rows without those of partitions whose log is not known for that duration after `column`."""
        for number, until in sorted(self.known_until_of.items()):
            limit = until - timedelta(milliseconds=duration_ms)
            rows = rows.filter(~((pc.field("offsets_partition") == number) & (pc.field(column) > limit)))
        return rows


def moment(ms: int | None) -> datetime | None:
    """The time of epoch ms; None: there is none, or no datetime can hold it."""
    try:
        return None if ms is None else to_datetime(ms)
    except OverflowError:
        return None


def listed(rows: pa.Table) -> list[Row]:
    """The rows as dicts, for few rows: sorted by offsets partition, group, and the other columns that identify them."""
    names = ("offsets_partition", "group_id", "topic", "partition", "member_id", "log_offset")
    keys = [(name, "ascending") for name in names if name in rows.column_names]
    sorted_rows: list[Row] = rows.sort_by(keys).to_pylist(maps_as_pydicts="strict")
    return sorted_rows


def some(names: Iterable[str], most: int = 3) -> str:
    """The first names in order, each once, and the number of others."""
    return first_of(sorted(set(names)), most)
