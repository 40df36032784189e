"""`share_partitions` completed: the share coordinator's state, and the group coordinator's list of partitions."""

from __future__ import annotations

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.share_coordinator.listed import ListedTopic, listed_share_partitions, listed_topics
from kgroups_spark.share_coordinator.rows import SharePartitionRow
from kgroups_spark.tables.conditions import Condition
from kgroups_spark.tables.rows import table_batch

TABLE = "share_partitions"
# ShareGroupStatePartitionMetadata of __consumer_offsets.
LISTING = 15


def complete_share_partitions(writer: LakeWriter, stored: pa.Table) -> None:
    """Replaces share_partitions by the stored rows with topic and init_state, and rows of partitions only listed."""
    lake = writer.lake
    rows = listed_share_partitions(_rows(stored), _listed(lake), _topics(lake))
    batch = table_batch(TABLE, SharePartitionRow._fields, rows, audit_id=writer.audit_id)
    writer.replace_table(TABLE, pa.Table.from_batches([batch]))


def _rows(stored: pa.Table) -> list[SharePartitionRow]:
    columns = [_as_ms(stored[name]).to_pylist() for name in SharePartitionRow._fields]
    return [SharePartitionRow(*row) for row in zip(*columns, strict=True)]


def _as_ms(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.divide(column.cast(pa.int64()), 1000) if pa.types.is_timestamp(column.type) else column


def _listed(lake: Lake) -> list[ListedTopic]:
    """The contents of each group's newest listing."""
    columns = ["group_id", "log_offset", "value"]
    records = lake.rows("group_records", columns=columns, conditions=[Condition("record_type", "==", LISTING)])
    newest = {row["group_id"]: row["value"] for row in records.sort_by("log_offset").to_pylist()}
    return [
        topic
        for group_id, value in newest.items()
        for topic in listed_topics(group_id, None if value is None else orjson.loads(value))
    ]


def _topics(lake: Lake) -> dict[str, str]:
    known = lake.rows("topics", columns=["topic_id", "topic"])
    return dict(zip(known["topic_id"].to_pylist(), known["topic"].to_pylist(), strict=True))
