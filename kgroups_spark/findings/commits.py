"""Commits that this audit read: too many, of two kinds, or with times that differ from the log's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from kgroups_spark.counts import counted
from kgroups_spark.durations import format_duration
from kgroups_spark.findings.evidence import (
    Condition,
    Evidence,
    TimesOff,
    by_group,
    group_of,
    listed,
    moment,
    per_group,
)
from kgroups_spark.findings.finding import Finding, at
from kgroups_spark.tables.schemas import GROUP

# One commit a second for each partition, five times the rate of enable.auto.commit (auto.commit.interval.ms, 5 s) ...
STORM_PER_PARTITION = 3_600
# ... in groups that commit ten times a second in all: fewer commits are no burden.
STORM_IN_ALL = 36_000

# offsets.retention.check.interval.ms, 10 minutes by default: expiry is no more exact than this.
TIME_OFF_MS = 600_000


def commit_storm(evidence: Evidence) -> Iterator[Finding]:
    """An hour of log time in which a group committed at least STORM_IN_ALL times, and more often than
    STORM_PER_PARTITION for each partition it has committed."""
    busy = evidence.traffic.filter(pc.field("commits") >= STORM_IN_ALL)
    if not busy.num_rows:
        return
    hours = listed(busy)
    names = sorted({row["group_id"] for row in hours})
    committed = evidence.tables.rows("committed_offsets", GROUP, Condition("group_id", "in", names))
    counts = {group_of(row): row["count_all"] for row in per_group(committed)}
    for key, rows in by_group(hours).items():
        partitions = max(1, counts.get(key, 0))
        worst = max(rows, key=lambda row: (row["commits"], row["hour"] is not None and row["hour"].timestamp()))
        if worst["commits"] <= STORM_PER_PARTITION * partitions:
            continue
        hour = "" if worst["hour"] is None else f" in the hour from {at(worst['hour'])}"
        yield Finding.of(
            "commit_storm",
            worst,
            f"{key[1]} committed {worst['commits']:,} times{hour}, for {counted(partitions, 'partition')}: more than "
            "once a second each. Every commit is a record that brokers replicate, clean, and read again when the "
            "coordinator moves; automatic commits come every 5 s. Commit after a batch or by time, not after each "
            "record",
            since=worst["hour"],
        )


def mixed_commits(evidence: Evidence) -> Iterator[Finding]:
    """A partition committed in transactions, and also outside them more often than by a reset, among the records that
    this audit read."""
    for offsets_partition, each in sorted(evidence.mixed_commits):
        more = f", and so were {counted(each.partitions - 1, 'other partition')}" if each.partitions > 1 else ""
        yield Finding.of(
            "mixed_commits",
            {"offsets_partition": offsets_partition, **each._asdict()},
            f"{each.topic}-{each.partition} of {each.group_id} was committed "
            f"{counted(each.transactional_commits, 'time')} in transactions and "
            f"{counted(each.plain_commits, 'time')} outside them{more}. The later record in the log wins, "
            "even over a transaction that commits afterwards: exactly-once processing may process records twice. "
            "Most likely a consumer commits as well as the producer: set its enable.auto.commit=false, or find the "
            "second program with this group.id",
        )


def commit_time_skew(evidence: Evidence) -> Iterator[Finding]:
    """Commits whose time differs from that of their record by more than TIME_OFF_MS. A broker takes both from one
    clock at one moment."""
    for each in _first_of_groups(evidence.times_off):
        off_ms = each.commit_timestamp - each.log_timestamp
        have = "has" if each.commits == 1 else "have"
        yield Finding.of(
            "commit_time_skew",
            each._asdict(),
            f"{counted(each.commits, 'commit')} of {each.group_id} {have} a commit time that is not the record's: "
            f"{each.topic}-{each.partition} is {format_duration(abs(off_ms))} {'ahead' if off_ms > 0 else 'behind'}. "
            "A broker writes both at once, so these times were copied, restored, or set by a client. Retention "
            "counts from the commit time: they expire earlier or later than expected. A new commit restarts the "
            "retention period",
            since=moment(each.log_timestamp),
        )


def _first_of_groups(found: Sequence[TimesOff]) -> list[TimesOff]:
    """The first of each group, because several ranges may have found the same group."""
    merged: dict[tuple[int, str], TimesOff] = {}
    for each in sorted(found, key=lambda each: (each.offsets_partition, each.group_id, each.log_offset)):
        key = (each.offsets_partition, each.group_id)
        before = merged.get(key)
        merged[key] = each if before is None else before._replace(commits=before.commits + each.commits)
    return list(merged.values())
