"""`share_partitions` completed: the share coordinator's state, and the group coordinator's list of partitions."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.offsets.records import milliseconds
from kgroups_spark.share_coordinator.listed import ListedTopic, listed_share_partitions, listed_topics
from kgroups_spark.share_coordinator.rows import SharePartitionRow
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.tables.rows import as_table, table_batch

SHARE_PARTITIONS = "share_partitions"
# ShareGroupStatePartitionMetadata of __consumer_offsets.
LISTING = 15


def complete_share_partitions(writer: LakeWriter, stored: pa.Table) -> None:
    """Replaces share_partitions by the stored rows with topic and init_state, and rows of partitions only listed."""
    lake = writer.lake
    rows = listed_share_partitions(_rows(stored), _listed(lake), _topics(lake))
    batch = table_batch(SHARE_PARTITIONS, SharePartitionRow._fields, rows, audit_id=writer.audit_id)
    writer.replace_table(SHARE_PARTITIONS, as_table(batch))


def _rows(stored: pa.Table) -> list[SharePartitionRow]:
    columns = [milliseconds(stored[name]).to_pylist() for name in SharePartitionRow._fields]
    return [SharePartitionRow(*row) for row in zip(*columns, strict=True)]


def _listed(lake: Lake) -> list[ListedTopic]:
    """The contents of each group's newest listing; none of a group that was no share group later.

    A deleted group leaves a tombstone of its listing. The cleaner may remove it before an audit reads it. Then a
    correction (R6) removes the group, or makes it a new one of another type, and history has no end of the listing.
    """
    listings = _newest(_rows_of(lake, "group_records", "value", Condition("record_type", "==", LISTING)))
    if not listings:
        return []
    groups = sorted({group_id for _, group_id in listings})
    versions = _rows_of(lake, "group_versions", "group_type", Condition("group_id", "in", groups), "is_removed")
    ends = _newest(versions.filter(pc.field("is_removed") | (pc.field("group_type") != "share")))
    return [
        topic
        for group, (log_offset, value) in listings.items()
        if value is not None and ends.get(group, (-1, ""))[0] < log_offset
        for topic in listed_topics(group[1], orjson.loads(value))
    ]


def _rows_of(lake: Lake, table: str, column: str, condition: Condition, *more: str) -> pa.Table:
    columns = ["offsets_partition", "group_id", "log_offset", column, *more]
    return lake.rows(table, columns=columns, conditions=[condition]).select(columns)


def _newest(rows: pa.Table) -> dict[tuple[int, str], tuple[int, Any]]:
    """Log offset and the column after it of the newest row of each group in its offsets partition."""
    found = zip(*(column.to_pylist() for column in rows.sort_by("log_offset").columns[:4]), strict=True)
    return {(partition, group_id): (log_offset, value) for partition, group_id, log_offset, value in found}


def _topics(lake: Lake) -> dict[str, str]:
    known = lake.rows("topics", columns=["topic_id", "topic"])
    return dict(zip(known["topic_id"].to_pylist(), known["topic"].to_pylist(), strict=True))
