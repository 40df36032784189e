"""Committed offsets of a group that does not exist, of a share group, or of a deleted topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc

from kgroups_spark.counts import counted
from kgroups_spark.escapes import shell_option, shell_word
from kgroups_spark.findings.evidence import Condition, Evidence, Row, group_of, listed, of_groups, per_group
from kgroups_spark.findings.finding import Finding, at, tool
from kgroups_spark.tables.schemas import GROUP


def orphaned_offsets(evidence: Evidence) -> Iterator[Finding]:
    """Committed offsets whose group does not exist (T30)."""
    columns = [*GROUP, "topic", "log_offset"]
    rows = evidence.tables.rows("committed_offsets", columns, Condition("is_orphan", "==", True))
    for row in per_group(rows, ("topic", "count_distinct"), ("topic", "min"), ("log_offset", "max")):
        topics = row["topic_count_distinct"]
        yield Finding.of(
            "orphaned_offsets",
            row,
            f"{counted(row['count_all'], 'committed offset')} on {counted(topics, 'topic')} belong to "
            f"{row['group_id']}, which no longer exists: its record was deleted, its offsets were not. The "
            "coordinator answers as if there were none and never expires them. Consumers start by auto.offset.reset, "
            "and the next record that names the group restores all of these offsets. Keep a copy (kgroups "
            f"export-offsets {shell_option('--group', row['group_id'])}), or let the group start from nothing and "
            "reset it",
            topic=row["topic_min"] if topics == 1 else None,
            log_offset=row["log_offset_max"],
        )


def clean_up_fails(evidence: Evidence) -> Iterator[Finding]:
    """Share groups whose committed offsets break the clean-up of an offsets partition in which something would
    expire."""
    for row, kept in _share_groups_with_offsets(evidence):
        if kept is not None:
            offsets, groups = kept
            yield _of_share_group(
                "clean_up_fails",
                row,
                "A coordinator of this release throws on these offsets, so clean-up of partition "
                f"{row['offsets_partition']} of __consumer_offsets stops there: "
                f"{counted(offsets, 'committed offset')} and {counted(groups, 'group')} in it never expire. Write "
                "tombstones for the share group's offsets, use another name for the share group, or run brokers of "
                "4.1 to 4.3, which skip such groups",
            )


def offsets_of_share_group(evidence: Evidence) -> Iterator[Finding]:
    """Committed offsets of a share group that do not break the clean-up."""
    for row, kept in _share_groups_with_offsets(evidence):
        if kept is None:
            yield _of_share_group(
                "offsets_of_share_group",
                row,
                "Share groups keep their start offsets in __share_group_state and do not read these offsets. No "
                "clean-up removes them. Brokers reject such commits: these were committed before it was a share "
                "group, or a client wrote to the topic directly. Use another name for one of the two groups",
            )


def _of_share_group(name: str, row: Row, detail: str) -> Finding:
    detail = f"Share group {row['group_id']} has {counted(row['count_all'], 'committed offset')}. {detail}"
    return Finding.of(name, row, detail, log_offset=row["log_offset_max"])


def _share_groups_with_offsets(evidence: Evidence) -> list[tuple[Row, tuple[int, int] | None]]:
    """Share groups with their number of committed offsets and the newest record. Each comes with the number of offsets
    and groups of its partition that stay because the clean-up fails; None: there are none."""
    share = listed(evidence.groups.filter(pc.field("group_type") == "share").select(GROUP))
    if not share:
        return []
    names = sorted({row["group_id"] for row in share})
    columns = [*GROUP, "topic", "log_offset"]
    rows = evidence.tables.rows("committed_offsets", columns, Condition("group_id", "in", names))
    found = per_group(of_groups(rows, map(group_of, share)), ("log_offset", "max"))
    # Decisions are read only if there is such a group: nearly no lake has one.
    kept = _kept_by_failing_clean_ups(evidence) if found else {}
    return [(row, kept.get(row["offsets_partition"])) for row in found]


def _kept_by_failing_clean_ups(evidence: Evidence) -> dict[int, tuple[int, int]]:
    """By offsets partition, the number of offsets and groups that stay only for that reason."""
    fails = Condition("reason", "==", "clean_up_fails")
    offsets, groups = (
        Counter(evidence.tables.rows(name, ["offsets_partition"], fails)["offsets_partition"].to_pylist())
        for name in ("offset_expiry", "group_expiry")
    )
    return {number: (offsets[number], groups[number]) for number in offsets | groups}


def topic_recreated(evidence: Evidence) -> Iterator[Finding]:
    """Offsets committed under an older topic id than the newest known one (the view stale_offsets has all of them)."""
    newest = _newest_ids(evidence)
    if not newest:
        return
    columns = [*GROUP, "topic", "topic_id", "partition", "log_offset"]
    rows = evidence.tables.rows("committed_offsets", columns, Condition("topic", "in", sorted(newest)))
    rows = rows.filter(pc.is_valid(rows["topic_id"]))
    aggregates: list[Any] = [([], "count_all"), ("partition", "min"), ("log_offset", "max")]
    reported = rows.group_by([*GROUP, "topic", "topic_id"]).aggregate(aggregates)
    stale: dict[tuple[int, str, str], Row] = {}
    for row in listed(reported):
        if row["topic_id"] != newest[row["topic"]]["topic_id"]:
            key = (*group_of(row), row["topic"])
            before = stale.get(key)
            stale[key] = row if before is None else row | {"count_all": row["count_all"] + before["count_all"]}
    for row in stale.values():
        group_id, topic = row["group_id"], row["topic"]
        seen = newest[topic]["seen_log_timestamp"]
        yield Finding.of(
            "topic_recreated",
            row,
            f"{counted(row['count_all'], 'committed offset')} of {group_id} on {topic} refer to a topic that was "
            f"deleted; {topic} has been created again{'' if seen is None else f', at the latest at {at(seen)}'}. They "
            "point into the deleted log. A consumer that resumes there skips records or resets. Reset them: "
            + tool(
                "kafka-consumer-groups",
                f"--group {shell_word(group_id)} --topic {shell_word(topic)} --reset-offsets --to-earliest --execute",
            ),
            log_offset=row["log_offset_max"],
            since=seen,
        )


def _newest_ids(evidence: Evidence) -> dict[str, Row]:
    """The newest id of each topic with several. An id that only a cluster reported is newer than all ids in the log."""
    rows = evidence.tables.rows("topics", ["topic", "topic_id", "seen_log_timestamp"])
    names = rows.group_by("topic").aggregate([([], "count_all")]).filter(pc.field("count_all") > 1)["topic"]
    newest: dict[str, Row] = {}
    for row in rows.filter(pc.is_in(rows["topic"], names.combine_chunks())).to_pylist():
        if row["topic"] not in newest or _age(row) > _age(newest[row["topic"]]):
            newest[row["topic"]] = row
    return newest


def _age(row: Row) -> tuple[Any, ...]:
    seen = row["seen_log_timestamp"]
    return seen is None, 0 if seen is None else seen, row["topic_id"]
