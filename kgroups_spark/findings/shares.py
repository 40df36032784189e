"""Share partitions: the share coordinator's stored state, compared with the group coordinator's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter

import pyarrow.compute as pc

from kgroups_spark.counts import counted
from kgroups_spark.durations import HOUR_MS, format_duration
from kgroups_spark.escapes import shell_word
from kgroups_spark.findings.evidence import Condition, Evidence, Row, some
from kgroups_spark.findings.finding import Finding, at, tool
from kgroups_spark.messages.group_partition import offsets_partition
from kgroups_spark.share_coordinator.listed import share_lag
from kgroups_spark.tables.schemas import GROUP

SHARE_PARTITION = ["group_id", "topic_id", "partition"]
# A record is locked for 30 s by default, and for an hour at most (group.share.max.record.lock.duration.ms).
NOT_PROGRESSING_MS = HOUR_MS


def share_delivery_near_limit(evidence: Evidence) -> Iterator[Finding]:
    """Records that a share group has released so often that the next failed delivery archives them."""
    if not evidence.has_share_state:
        return
    columns = [*SHARE_PARTITION, "first_offset", "last_offset", "delivery_count", "attempts_left"]
    near = evidence.tables.rows("share_batches", columns, Condition("attempts_left", "<=", 1))
    # A batch may have any two offsets, between which there are no records.
    rows = near.filter(pc.field("last_offset") >= pc.field("first_offset")).to_pylist()
    topics = _topics(evidence)
    for group_id, mine in _by_group(rows):
        records = sum(row["last_offset"] - row["first_offset"] + 1 for row in mine)
        first = mine[0]
        places = {f"{topics.get(row['topic_id'], row['topic_id'])}-{row['partition']}" for row in mine}
        yield Finding.of(
            "share_delivery_near_limit",
            first,
            f"{counted(records, 'record')} of share group {group_id} ({some(places)}) can be delivered once more at "
            f"most: delivered {first['delivery_count']} times, and group.share.delivery.count.limit then archives the "
            "record, and no consumer receives it again. Find out why its consumers cannot process them: offsets "
            f"{first['first_offset']} to {first['last_offset']} are the first. A higher limit buys time",
            topic=topics.get(first["topic_id"]),
        )


def share_partition_not_progressing(evidence: Evidence) -> Iterator[Finding]:
    """A share partition with records to deliver, whose group has members but has stored no progress for an hour."""
    if not evidence.has_share_state:
        return
    limit = evidence.before_until(NOT_PROGRESSING_MS)
    columns = [*SHARE_PARTITION, "topic", "start_offset", "delivery_complete_count", "log_timestamp"]
    rows = evidence.tables.rows("share_partitions", columns, Condition("log_timestamp", "<=", limit))
    active = _share_groups(evidence, "Stable")
    ends = _ends(evidence)
    waiting = []
    for row in rows.to_pylist():
        lag = _lag(row, ends.get((row["topic"], row["partition"])))
        if row["group_id"] in active and lag is not None and lag > 0:
            waiting.append(row | {"lag": lag})
    for group_id, mine in _by_group(waiting):
        oldest = min(mine, key=itemgetter("log_timestamp"))
        places = {f"{row['topic']}-{row['partition']}" for row in mine}
        yield Finding.of(
            "share_partition_not_progressing",
            oldest,
            f"Share group {group_id} has members, and {counted(sum(row['lag'] for row in mine), 'record')} of "
            f"{some(places)} wait for it. Nothing was acknowledged, released or archived there since "
            f"{at(oldest['log_timestamp'])}, longer than the {format_duration(NOT_PROGRESSING_MS)} for which a record "
            "can be locked at most. Its consumers receive no records, or hang: "
            + tool("kafka-share-groups", f"--describe --group {shell_word(group_id)} --members"),
            since=oldest["log_timestamp"],
        )


def share_state_without_group(evidence: Evidence) -> Iterator[Finding]:
    """State of share partitions whose group does not exist, if its offsets partition was read."""
    if not evidence.has_share_state:
        return
    columns = [*SHARE_PARTITION, "topic", "log_timestamp"]
    listed = [Condition("init_state", "is null"), Condition("log_offset", "is not null")]
    rows = evidence.tables.rows("share_partitions", columns, *listed).to_pylist()
    groups = _share_groups(evidence)
    lost = [row for row in rows if row["group_id"] not in groups and _is_read(evidence, row["group_id"])]
    for group_id, mine in _by_group(lost):
        first = mine[0]
        yield Finding.of(
            "share_state_without_group",
            first,
            f"__share_group_state holds {counted(len(mine), 'share partition')} of {group_id}, and no share group of "
            "that name exists: its deletion was not finished, or its records are gone from __consumer_offsets. A new "
            "group of that name resumes from this state once it is initialized. If it is no longer needed, create the "
            "group again and delete it: " + tool("kafka-share-groups", f"--delete --group {shell_word(group_id)}"),
            since=first["log_timestamp"],
        )


def _by_group(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """The rows of each group, both in order."""
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=itemgetter("group_id", "topic_id", "partition")):
        found.setdefault(row["group_id"], []).append(row)
    return list(found.items())


def _share_groups(evidence: Evidence, state: str | None = None) -> set[str]:
    groups = evidence.groups.filter(pc.field("group_type") == "share").select([*GROUP, "state"])
    return {row["group_id"] for row in groups.to_pylist() if state in (None, row["state"])}


def _is_read(evidence: Evidence, group_id: str) -> bool:
    """Whether the group's offsets partition was read, as far as the partition numbers show."""
    count = len(evidence.log_starts)
    are_all = count > 0 and set(evidence.log_starts) == set(range(count))
    return are_all and offsets_partition(group_id, count) in evidence.log_starts


def _topics(evidence: Evidence) -> dict[str, str]:
    rows = evidence.tables.rows("share_partitions", ["topic_id", "topic"], Condition("topic", "is not null"))
    return dict(zip(rows["topic_id"].to_pylist(), rows["topic"].to_pylist(), strict=True))


def _ends(evidence: Evidence) -> dict[tuple[str, int], Row]:
    """The log ends that this audit asked the cluster for, with their topics' ids; empty if it asked none."""
    columns = ["topic", "topic_id", "partition", "log_end_offset"]
    rows = evidence.tables.rows("topic_offsets", columns, Condition("audit_id", "==", evidence.audit_id)).to_pylist()
    return {(row["topic"], row["partition"]): row for row in rows}


def _lag(row: Row, end: Row | None) -> int | None:
    """The lag of a share partition; None: unknown, as of a topic that was deleted, if another one has its name."""
    if end is None or end["topic_id"] not in (None, row["topic_id"]):
        return None
    return share_lag(row["start_offset"], row["delivery_complete_count"], end["log_end_offset"])
