"""The summary of a finished audit: new records, the current state, changes, notes for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow.compute as pc

from kgroups_spark.audit.result import Shortfall
from kgroups_spark.errors import attempt
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.store import total_rows
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import counted, first_of, format_duration, format_utc, sized

# Changes since the previous audit: groups created and removed, states, sizes of the current tables.


# The number of names on a line of the screen; the tables have all.
NAMES_REPORTED = 3

GroupKey = tuple[int, str]


@dataclass(frozen=True)
class CurrentTables:
    """The compared part of the current tables: each group's state by (offsets_partition, group_id), rows by table, and
    the number of offsets that expire at the next check."""

    states: Mapping[GroupKey, str] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    expiring: int = 0

    @cached_property
    def names(self) -> set[str]:
        """The names of the groups; one may be in two offsets partitions."""
        return {group_id for _, group_id in self.states}


def current_tables(lake: Lake, then: LakeAsOfAudit | None = None) -> CurrentTables:
    """The present tables, or those that an audit left, without the writes of a later unfinished audit."""

    def version(name: str) -> int | None:
        return None if then is None else then.version(name)

    groups = lake.rows("groups", version("groups"), columns=["offsets_partition", "group_id", "state"]).to_pydict()
    rows = {
        name: total_rows(lake.table(name).files(version(name)))
        for name, table in TABLES.items()
        if table.kind == "current"
    }
    decisions = lake.rows("offset_expiry", version("offset_expiry"), columns=["decision"]).column("decision")
    return CurrentTables(
        dict(zip(zip(groups["offsets_partition"], groups["group_id"], strict=True), groups["state"], strict=True)),
        rows,
        pc.sum(pc.equal(decisions, "expire")).as_py() or 0,
    )


@dataclass(frozen=True)
class Changes:
    """The difference between two CurrentTables: sorted group ids, and changes of state with their number of groups."""

    since_audit: int
    created: list[str]
    removed: list[str]
    moved: Counter[tuple[str, str]]
    members: int
    offsets: int
    expiring: int

    @classmethod
    def between(cls, since_audit: int, then: CurrentTables, now: CurrentTables) -> Changes:
        both = then.states.keys() & now.states.keys()
        return cls(
            since_audit,
            sorted(now.names - then.names),
            sorted(then.names - now.names),
            Counter((then.states[key], now.states[key]) for key in both if then.states[key] != now.states[key]),
            now.rows.get("group_members", 0) - then.rows.get("group_members", 0),
            now.rows.get("committed_offsets", 0) - then.rows.get("committed_offsets", 0),
            now.expiring - then.expiring,
        )

    def lines(self) -> Iterator[str]:
        """Lines for people; if nothing differs, one line with that statement."""
        parts = [*self._groups(), *self._sizes()]
        since = f"since audit {self.since_audit}"
        yield f"{since}: {'; '.join(parts)}" if parts else f"{since}: the same groups, in the same states"

    def _groups(self) -> Iterator[str]:
        if self.created:
            yield f"{_groups(len(self.created))} new ({first_of(self.created, NAMES_REPORTED)})"
        if self.removed:
            yield f"{_groups(len(self.removed))} gone ({first_of(self.removed, NAMES_REPORTED)})"
        if self.moved:
            moves = [f"{count:,} {then} to {now}" for (then, now), count in self.moved.most_common(NAMES_REPORTED)]
            others = sum(self.moved.values()) - sum(count for _, count in self.moved.most_common(NAMES_REPORTED))
            moves += [counted(others, "other")] if others else []
            yield f"states changed: {', '.join(moves)}"

    def _sizes(self) -> Iterator[str]:
        for difference, noun in ((self.members, "member"), (self.offsets, "committed offset")):
            if difference:
                yield f"{'+' if difference > 0 else '-'}{counted(abs(difference), noun)}"
        if self.expiring:
            yield f"{self.expiring:+,} expiring"


def _groups(count: int) -> str:
    return "1 group is" if count == 1 else f"{count:,} groups are"


@dataclass(frozen=True)
class AuditSummary:
    """A finished audit: its row of the ledger, the current tables, their changes since the previous audit (None: no
    earlier tables, or they were left as they are). `failures`: notes on figures that could not be
    computed."""

    audit: AuditRow
    now: CurrentTables
    changes: Changes | None
    failures: tuple[str, ...] = ()
    shortfall: Shortfall = field(default_factory=Shortfall)

    @property
    def lacks_records(self) -> bool:
        """Whether records were quarantined or lost before they were read, or a partition was not read to its end: then
        `--strict` exits 3."""
        read = (*(self.audit.partitions or ()), *self.audit.state_partitions)
        is_lost = any(p.lost_from is not None for p in read)
        return bool(self.audit.quarantined or self.shortfall or is_lost)

    def lines(self) -> Iterator[str]:
        """Lines for people; names are as in the log. The audit has finished, so a bug here costs only the lines."""
        lines, failure = attempt("summing the audit up", lambda: list(self._lines()))
        yield from lines if failure is None and lines is not None else [f"audit {self.audit.audit_id}: {failure}"]

    def _lines(self) -> Iterator[str]:
        yield from self._read()
        yield from self._now()
        yield from self._other_logs()
        if self.changes is not None:
            yield from (f"  {line}" for line in self.changes.lines())
        yield from self._ledger_row()
        for reason, count in sorted((self.audit.quarantined or {}).items()):
            yield f"  quarantine: {count:,} {reason}"
        for note in self.audit.notes or ():
            yield f"  {note}"
        yield from (f"  {failure}" for failure in self.failures)
        if findings := (self.audit.rows_added or {}).get("findings", 0):
            yield f"  {counted(findings, 'finding')}: kgroups findings shows what is odd, why it matters and what to do"

    def _read(self) -> Iterator[str]:
        audit = self.audit
        read = [p for p in audit.partitions or () if p.records or p.bytes]
        size, again = sum(p.bytes for p in read), sum(p.records_reread for p in read)
        new = sum(p.records for p in read) - again
        if new:
            records, partitions = counted(new, "new record"), counted(len(read), "partition")
            yield f"audit {audit.audit_id}: read {records} from {partitions} ({sized(size)})"
        else:
            in_groups = " in __consumer_offsets" if any(p.records for p in audit.state_partitions) else ""
            yield f"audit {audit.audit_id}: no new records{in_groups}"
        if again:
            yield f"  {counted(again, 'record')} {'was' if again == 1 else 'were'} read again, and not added again"

    def _other_logs(self) -> Iterator[str]:
        """The new records of other logs, and their current state."""
        read: dict[str, list[PartitionProgress]] = {}
        for each in self.audit.state_partitions:
            if each.topic is not None and each.records > each.records_reread:
                read.setdefault(each.topic, []).append(each)
        for topic, partitions in sorted(read.items()):
            new = sum(p.records - p.records_reread for p in partitions)
            yield f"  {topic}: {counted(new, 'new record')} from {counted(len(partitions), 'partition')}"
        rows = self.now.rows
        if self.audit.state_partitions:
            yield (
                f"  current state: {counted(rows.get('share_partitions', 0), 'share partition')}, "
                f"{counted(rows.get('transactional_ids', 0), 'transactional id')}"
            )

    def _now(self) -> Iterator[str]:
        audit, rows = self.audit, self.now.rows
        groups, members = counted(len(self.now.names), "group"), counted(rows.get("group_members", 0), "member")
        yield (
            f"  current state: {groups} ({members}), "
            f"{counted(rows.get('committed_offsets', 0), 'committed offset')}, "
            f"{counted(rows.get('pending_offsets', 0), 'offset')} pending in "
            f"{counted(rows.get('open_transactions', 0), 'open transaction')}"
        )
        if audit.as_of is not None and audit.retention_ms is not None:
            expiring = counted(self.now.expiring, "offset")
            yield (
                f"  {expiring} will expire at the brokers' next check (as of "
                f"{format_utc(audit.as_of)}, retention {format_duration(audit.retention_ms)} "
                f"({audit.retention_source}), rules of Kafka {audit.release_version})"
            )

    def _ledger_row(self) -> Iterator[str]:
        audit = self.audit
        if audit.finished_at is None:
            return
        added = ", ".join(f"{name} {rows:,}" for name, rows in _added(audit) if rows)
        seconds = (audit.finished_at - audit.started_at).total_seconds()
        yield (
            f"  ledger: audit {audit.audit_id} finished {format_utc(audit.finished_at)} after "
            f"{seconds:,.1f} s; rows added: {added or 'none'}"
        )


def _added(audit: AuditRow) -> list[tuple[str, int]]:
    """The rows that it added to each table of history."""
    return [each for each in sorted((audit.rows_added or {}).items()) if TABLES[each[0]].kind == "history"]
