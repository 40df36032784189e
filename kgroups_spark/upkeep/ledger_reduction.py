"""The ledger after `maintain --keep`: the rows of old audits that later audits, readers and rebuilds still need.

An audit is old if its `as_of` is before the moment and it is not the last one. Its entry of a partition (column
`partitions`) is old if it ends at or below H, so that history of all its records is reduced. Consecutive old entries
become one entry with their sums, in the row of the last of them:

    audit     start  end  records                audit     start  end  records
      1          0   100      90
      2        100   120      20       ->          3          0   150     140
      3        120   150      30
      4        150   170      20                   4        150   170      20    the last one that read something
      5        170   170       0

These entries stay separate, because readers look them up one by one: the first entry of a partition that was empty; the
last old entry with records (R6 needs the time of the last read); the last entry that read the partition again from its
start (log_totals); entries with lost offsets (report). The last entry with missing offsets is the last one in a sum,
because it shows up to when the log was compacted. A row without entries goes, except that of the last audit that looked
for findings. Each rule can be applied again to its own result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.findings.looked import FINDINGS, has_looked
from kgroups_spark.lake.last_finished import FINISHED, is_of_log
from kgroups_spark.offsets.numbers import I64, Flags
from kgroups_spark.records.slices import list_offsets
from kgroups_spark.tables.arrays import flags
from kgroups_spark.tables.arrays import numbers as column_numbers
from kgroups_spark.tables.rows import with_columns
from kgroups_spark.times import to_epoch_ms

SUMS = ("records", "records_reread", "bytes", "offsets_missing")


@dataclass(frozen=True)
class OldAudits:
    """`numbers`: the old finished audits; `looked_last`: the last of all audits that looked for findings, 0: none
    has."""

    numbers: frozenset[int]
    looked_last: int

    @property
    def newest(self) -> int:
        """The newest old audit; 0: there is none."""
        return max(self.numbers, default=0)

    @property
    def without_findings(self) -> list[int]:
        """The audits with findings to remove, sorted."""
        return sorted(self.numbers - {self.looked_last})


def old_audits(finished: pa.Table, moment_ms: int, decided_by: int | None) -> OldAudits:
    """The old audits, from the ledger's rows of finished audits (audit_id, as_of, rows_added).

    `decided_by`: the audit with the decisions that the view expiry_outcomes compares with later records; it and all
    later audits stay. None: there are no such decisions.
    """
    rows = finished.select(["audit_id", "as_of", "rows_added"]).to_pylist(maps_as_pydicts="strict")
    last = max((row["audit_id"] for row in rows), default=0)
    before = last if decided_by is None else min(last, decided_by)
    numbers = (
        row["audit_id"]
        for row in rows
        if row["audit_id"] < before and row["as_of"] is not None and to_epoch_ms(row["as_of"]) < moment_ms
    )
    return OldAudits(frozenset(numbers), max((row["audit_id"] for row in rows if has_looked(row)), default=0))


def reduced_ledger(rows: pa.Table, old: OldAudits, horizons: Mapping[int, int]) -> pa.Table:
    """The rows of `audits` that stay, in no order; `rows` are all up to the newest old audit, or more."""
    rows = rows.combine_chunks()
    audit_ids = rows["audit_id"].to_numpy()
    is_finished = flags(pc.equal(rows["status"], FINISHED))
    is_old = is_finished & np.isin(audit_ids, list(old.numbers))
    partitions, counts = _reduced_entries(rows["partitions"].combine_chunks(), audit_ids, is_old, horizons)
    rows = _no_longer_looked(with_columns(rows, partitions=partitions), is_old, old)
    goes = is_old & (counts == 0) & (audit_ids != old.looked_last)
    # Also removes the rows `running` and `abandoned` of audits that go, and of audits that never finished.
    stays = set(audit_ids[is_finished & ~goes].tolist())
    gone = (audit_ids < old.newest + 1) & ~np.isin(audit_ids, list(stays))
    return rows.filter(pa.array(~gone))


def _no_longer_looked(rows: pa.Table, is_old: Flags, old: OldAudits) -> pa.Table:
    """The rows without `findings` in rows_added for old audits that stay, because their findings are removed."""
    audit_ids, added = rows["audit_id"].to_pylist(), rows["rows_added"].to_pylist()
    for at in np.flatnonzero(is_old).tolist():
        if audit_ids[at] != old.looked_last and added[at] is not None:
            added[at] = [each for each in added[at] if each[0] != FINDINGS]
    return with_columns(rows, rows_added=pa.array(added, rows["rows_added"].type))


def _reduced_entries(
    lists: pa.ListArray, audit_ids: I64, is_old: Flags, horizons: Mapping[int, int]
) -> tuple[pa.ListArray, I64]:
    """The lists with fewer entries, and the number of entries of each."""
    entries = pc.list_flatten(lists)
    parents = pc.list_parent_indices(lists).to_numpy()
    columns = {field.name: pc.struct_field(entries, field.name) for field in entries.type}
    names = ("offsets_partition", "start_offset", "end_offset", *SUMS)
    numbers = {name: column_numbers(columns[name]).copy() for name in names}
    ends_at = np.array([horizons.get(number, -1) for number in numbers["offsets_partition"].tolist()], np.int64)
    of_groups = flags(is_of_log(entries))
    reducible = np.flatnonzero(of_groups & is_old[parents] & (numbers["end_offset"] <= ends_at))
    kept = np.ones(len(entries), bool)
    kept[reducible] = False
    in_order = reducible[np.lexsort((audit_ids[parents[reducible]], numbers["offsets_partition"][reducible]))]
    partition = numbers["offsets_partition"][in_order]
    is_first = np.append(True, partition[1:] != partition[:-1])[: len(in_order)]
    in_order = in_order[is_first | ~_is_idle(numbers, columns, in_order)]
    firsts, lasts = _runs(numbers, columns, in_order)
    kept[in_order[lasts]] = True
    numbers["start_offset"][in_order[lasts]] = numbers["start_offset"][in_order[firsts]]
    for name in SUMS:
        ends = np.cumsum(numbers[name][in_order])
        numbers[name][in_order[lasts]] = np.diff(ends[lasts], prepend=0)
    for name in ("start_offset", *SUMS):
        columns[name] = pa.array(numbers[name]).cast(columns[name].type)
    left = pa.StructArray.from_arrays(list(columns.values()), fields=list(entries.type)).filter(pa.array(kept))
    counts = np.bincount(parents[kept], minlength=len(lists)).astype(np.int64)
    return pa.ListArray.from_arrays(list_offsets(counts), left, type=lists.type, mask=pc.is_null(lists)), counts


def _is_idle(numbers: Mapping[str, I64], columns: Mapping[str, pa.Array], at: I64) -> Flags:
    """Whether the audit read no records of the partition, and there were none to read and none lost."""
    is_empty: Flags = numbers["start_offset"][at] == numbers["end_offset"][at]
    return is_empty & ~_has_read(numbers, at) & ~_has_lost(columns, at)


def _has_read(numbers: Mapping[str, I64], at: I64) -> Flags:
    found: Flags = (numbers["records"][at] > 0) | (numbers["bytes"][at] > 0)
    return found


def _has_lost(columns: Mapping[str, pa.Array], at: I64) -> Flags:
    return flags(pc.is_valid(columns["lost_from"]))[at]


def _runs(numbers: Mapping[str, I64], columns: Mapping[str, pa.Array], at: I64) -> tuple[I64, I64]:
    """The first and the last of the entries that become one; `at` is sorted by partition, then by audit."""
    if not len(at):
        return at, at
    partition = numbers["offsets_partition"][at]
    start, end = numbers["start_offset"][at], numbers["end_offset"][at]
    has_read, reread = _has_read(numbers, at), numbers["records_reread"][at] > 0
    is_missing = end - start > numbers["records"][at] - numbers["records_reread"][at]
    alone = _has_lost(columns, at) | ~has_read
    alone[_last_of_each(partition, reread)] = True
    alone[_last_of_each(partition, has_read)] = True
    breaks = np.ones(len(at), bool)  # before the entry
    breaks[1:] = (partition[1:] != partition[:-1]) | (start[1:] != end[:-1]) | alone[1:] | alone[:-1]
    after = _last_of_each(partition, is_missing) + 1
    breaks[after[after < len(at)]] = True
    firsts = np.flatnonzero(breaks)
    return firsts, np.append(firsts[1:], len(at)) - 1


def _last_of_each(partition: I64, holds: Flags) -> I64:
    """The index of the last entry of each partition for which `holds` is true."""
    where = np.flatnonzero(holds)
    of = partition[where]
    return where[np.append(of[1:] != of[:-1], True)] if len(where) else where
