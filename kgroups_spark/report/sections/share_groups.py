"""Share partitions, and the records that are near their delivery limit."""

from __future__ import annotations

from kgroups_spark.counts import counted, group_count
from kgroups_spark.report.figures import Column, Section, table
from kgroups_spark.report.sections.shared import GROUP, GROUPS_BYTES, Answers


def share_groups_section(answers: Answers) -> Section:
    rows, near = answers["share_partitions"], answers["share_near_limit"]
    heading = "Share groups"
    if not rows:
        nothing = "No share partition is known: there is none, or __share_group_state was not read."
        return Section("share-groups", heading, [nothing])
    groups = counted(group_count(rows), "share group")
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    waiting = (
        f"{counted(sum(lags), 'record')} of {counted(len(lags), 'partition')} are still to be processed."
        if lags
        else "Their lag is unknown: no audit of a live cluster saw the topics' ends, or the brokers are older than 4.2."
    )
    sentences = [f"{groups} with {counted(len(rows), 'share partition')}. {waiting}"]
    columns = [
        GROUP,
        Column("topic", "Topic"),
        Column("partition", "Partition", "count"),
        Column("init_state", "State", is_minor=True),
        Column("start_offset", "Start offset", "count"),
        Column("lag", "Lag", "count"),
        Column("archived", "Archived", "count", is_minor=True),
        Column("log_timestamp", "Last stored (UTC)", "time", is_minor=True),
    ]
    figures = [
        table("share_partitions", "Share partitions, the longest lag first", columns, rows, budget_bytes=GROUPS_BYTES)
    ]
    if near:
        records = counted(sum(row["records"] for row in near), "record")
        sentences.append(
            f"{records} can be delivered once more at most. If that fails they are archived, and no consumer receives "
            "them again."
        )
        columns = [
            GROUP,
            Column("topic", "Topic"),
            Column("partition", "Partition", "count"),
            Column("first_offset", "From offset", "count"),
            Column("last_offset", "To offset", "count"),
            Column("delivery_count", "Delivered", "count"),
            Column("attempts_left", "Attempts left", "count"),
        ]
        figures.insert(0, table("share_near_limit", "Records near their delivery limit", columns, near))
    return Section("share-groups", heading, sentences, figures)
