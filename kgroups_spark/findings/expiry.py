"""Offsets that expire unexpectedly soon, and offsets that should have expired."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from kgroups_spark.counts import counted
from kgroups_spark.durations import HOUR_MS, format_duration
from kgroups_spark.escapes import shell_option
from kgroups_spark.findings.evidence import Condition, Evidence, Row, group_of, per_group
from kgroups_spark.findings.finding import Finding, at
from kgroups_spark.tables.schemas import GROUP

# Six checks of offsets.retention.check.interval.ms (default 600,000): no broker is that late.
OVERDUE_MS = HOUR_MS


def lost_when_emptied(evidence: Evidence) -> Iterator[Finding]:
    """Offsets that only a subscription keeps. In consumer and streams groups the retention counts from the commit, not
    from the moment when the group became Empty (T53)."""
    rows = evidence.tables.rows(
        "offset_expiry",
        [*GROUP, "topic", "base_timestamp"],
        Condition("reason", "==", "subscribed"),
        Condition("expires_at_if_empty", "<=", evidence.as_of),
    )
    for row in per_group(rows, *_TOPICS, ("base_timestamp", "min")):
        committed, were = row["base_timestamp_min"], "was" if row["count_all"] == 1 else "were"
        yield _of(
            row,
            "lost_when_emptied",
            f"{counted(row['count_all'], 'committed offset')} of {row['group_id']}{_on(row)} {were} last "
            f"committed more than the retention of {format_duration(evidence.retention_ms)} "
            f"ago{'' if committed is None else f', the oldest at {at(committed)}'}. Its members keep them. When the "
            "last one leaves, they expire at the next check: unlike a classic group, this one has no grace period. "
            "Before a shutdown, let it commit every partition once, keep a copy (kgroups export-offsets "
            f"{shell_option('--group', row['group_id'])}), or raise offsets.retention.minutes",
            committed,
        )


def expiry_overdue(evidence: Evidence) -> Iterator[Finding]:
    """Offsets that expired at least OVERDUE_MS ago but have no tombstone."""
    rows = evidence.tables.rows(
        "offset_expiry",
        [*GROUP, "topic", "expires_at"],
        Condition("decision", "==", "expire"),
        Condition("expires_at", "<=", evidence.before_until(OVERDUE_MS)),
    )
    rows = evidence.known(rows, "expires_at", OVERDUE_MS)
    if not rows.num_rows:
        return
    names = rows["group_id"].unique().sort().to_pylist()
    pending = evidence.tables.rows("pending_offsets", GROUP, Condition("group_id", "in", names))
    held = set(map(group_of, pending.to_pylist()))
    for row in per_group(rows, *_TOPICS, ("expires_at", "min")):
        are = "is" if row["count_all"] == 1 else "are"
        waits = " The group has offsets in open transactions." if group_of(row) in held else ""
        yield _of(
            row,
            "expiry_overdue",
            f"{counted(row['count_all'], 'committed offset')} of {row['group_id']}{_on(row)} should have expired from "
            f"{at(row['expires_at_min'])} on, and {are} still there: the coordinator runs no clean-up, could "
            "not load the partition, or the brokers' offsets.retention.minutes is not the "
            f"{format_duration(evidence.retention_ms)} that this audit used (kgroups audit --retention).{waits}",
            row["expires_at_min"],
        )


_TOPICS = (("topic", "min"), ("topic", "count_distinct"))


def _of(row: Row, name: str, detail: str, since: datetime | None) -> Finding:
    topic = row["topic_min"] if row["topic_count_distinct"] == 1 else None
    return Finding.of(name, row, detail, topic=topic, since=since)


def _on(row: Row) -> str:
    topics = row["topic_count_distinct"]
    return f" on {row['topic_min']}" if topics == 1 else f" on {counted(topics, 'topic')}"
