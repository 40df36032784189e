"""What an audit is asked for, and what it tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kgroups_spark.coordinator.releases import NEWEST
from kgroups_spark.tables.ledger import AuditRow
from kgroups_spark.times import format_time_for_people


def _silent(_: str) -> None:
    pass


@dataclass(frozen=True)
class AuditOptions:
    """The options of `kgroups audit`. Times and durations in ms; None: the default that the command's help names."""

    lake: str
    segments: list[str] = field(default_factory=list)
    as_of: int | None = None
    retention_ms: int | None = None
    release_version: str = NEWEST
    partitions: list[int] | None = None
    offsets_partitions: int | None = None
    full: bool = False
    strict: bool = False
    writer: str = "auto"
    take_over: bool = False
    progress: Callable[[str], None] = _silent


@dataclass(frozen=True)
class AuditSummary:
    """A finished audit: its row of the ledger, how many rows the tables of now have, and which writer wrote."""

    audit: AuditRow
    current_rows: dict[str, int]
    expiring: int
    writer: str

    @property
    def has_findings(self) -> bool:
        """Whether something was quarantined, or lost before it was read: what `--strict` exits 3 for."""
        return bool(self.audit.quarantined) or any(p.lost_from is not None for p in self.audit.partitions or ())

    def lines(self) -> Iterator[str]:
        """What a person should see, line by line."""
        audit = self.audit
        read = [p for p in audit.partitions or () if p.records or p.bytes]
        size, again = sum(p.bytes for p in read), sum(p.records_reread for p in read)
        new = sum(p.records for p in read) - again
        if new:
            megabytes = f"{size / 1e6:,.1f} MB"
            yield f"audit {audit.audit_id}: {new:,} records of {len(read)} partitions are new ({megabytes} read)"
        else:
            yield f"audit {audit.audit_id}: nothing is new"
        if again:
            yield f"  {again:,} records were read again, and not added again"
        now = self.current_rows
        yield (
            f"  now {now.get('groups', 0):,} groups with {now.get('group_members', 0):,} members, "
            f"{now.get('committed_offsets', 0):,} committed offsets, {now.get('pending_offsets', 0):,} pending in "
            f"{now.get('open_transactions', 0):,} open transactions"
        )
        if audit.as_of is not None and audit.retention_ms is not None:
            yield (
                f"  as of {format_time_for_people(audit.as_of)} UTC, with a retention of {_days(audit.retention_ms)} "
                f"({audit.retention_source}) and the rules of Kafka {audit.release_version}: "
                f"{self.expiring:,} offsets expire at the next check"
            )
        for reason, count in sorted((audit.quarantined or {}).items()):
            yield f"  quarantine: {count:,} {reason}"
        for note in audit.notes or ():
            yield f"  {note}"


def _days(ms: int) -> str:
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")):
        if ms % unit == 0:
            return f"{ms // unit}{name}"
    return f"{ms}ms"
