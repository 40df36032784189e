"""`share_partitions` of a lake: what is stored, completed by the newest listing of each group."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kgroups_spark.audit.state_log_plan import complete_shares
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.writer import LakeWriter
from tests.lake.table_rows import rows_of

Row = dict[str, Any]


def listing(**topics: list[int]) -> str:
    """A value of record type 15 with these topics initialized."""
    listed = [{"topicId": f"id of {name}", "topicName": name, "partitions": of} for name, of in topics.items()]
    return json.dumps({"initializingTopics": [], "initializedTopics": listed, "deletingTopics": []})


def completed(
    session: SparkSession, folder: Path, records: list[Row], stored: list[Row], versions: list[Row] | None = None
) -> list[tuple[Any, ...]]:
    """Group, topic, partition, init_state and state epoch of the rows written."""
    lake = Lake.create(session, str(folder))
    writer = LakeWriter(lake, 3, lambda: None)
    topics = {"topic_id": "id of gone", "topic": "gone"}
    of_lake = {"group_records": records, "group_versions": versions or [], "topics": [topics]}
    for name, rows in of_lake.items():
        part = writer.lake.write(name, [rows_of(name, *rows)], writer.audit_id)
        lake.table(name).commit([part] if part else [], by="t", transaction=("t", 1))
    batches = [{**row, "first_offset": 1, "last_offset": 2} for row in stored]
    complete_shares(writer, [rows_of("share_partitions", *stored), rows_of("share_batches", *batches)])
    topics_of = {row["topic_id"]: row["topic"] for row in lake.rows("share_partitions").to_pylist()}
    named = {row["topic_id"]: row["topic"] for row in lake.rows("share_batches").to_pylist()}
    assert named == {row["topic_id"]: topics_of[row["topic_id"]] for row in stored}
    names = ("group_id", "topic", "partition", "init_state", "state_epoch")
    return [tuple(row[name] for name in names) for row in lake.rows("share_partitions").to_pylist()]


def test_the_newest_listing_of_each_group_completes_the_stored_rows(session: SparkSession, tmp_path: Path) -> None:
    records = [
        {"log_offset": at, "group_id": group_id, "record_type": record_type, "value": value}
        for at, group_id, record_type, value in (
            (4, "g", 15, listing(orders=[0, 1])),
            (2, "g", 15, listing(clicks=[0])),
            (5, "h", 15, listing(orders=[7])),
            (6, "h", 15, None),
            (7, "g", 14, "{}"),
        )
    ]
    stored = [
        {"group_id": "g", "topic_id": topic_id, "partition": 0, "state_epoch": 9}
        for topic_id in ("id of orders", "id of gone")
    ]
    assert completed(session, tmp_path / "lake", records, stored) == [
        ("g", "gone", 0, None, 9),
        ("g", "orders", 0, "initialized", 9),
        ("g", "orders", 1, "initialized", None),
    ]


def test_the_listing_of_a_group_that_was_no_share_group_later_does_not_count(
    session: SparkSession, tmp_path: Path
) -> None:
    """The cleaner removed the listing's tombstone before an audit read it, and a correction (R6) the group, or made it
    one of another type."""
    records = [
        {"offsets_partition": partition, "log_offset": 4, "group_id": group_id, "record_type": 15, "value": value}
        for partition, group_id, value in (
            (0, "gone", listing(a=[0])),
            (1, "new", listing(b=[0])),
            (1, "classic", listing(c=[0])),
        )
    ]
    removed = [
        {"offsets_partition": partition, "group_id": group_id, "log_offset": at, "is_removed": True}
        for partition, group_id, at in ((0, "gone", 4), (1, "new", 3), (0, "new", 9))
    ]
    removed = [{"group_type": "share", **row} for row in removed]
    there = {"offsets_partition": 1, "is_removed": False}
    removed.append(there | {"group_id": "new", "log_offset": 9, "group_type": "share"})
    removed.append(there | {"group_id": "classic", "log_offset": 8, "group_type": "classic"})
    stored = [{"group_id": "gone", "topic_id": "id of a", "partition": 0, "state_epoch": 9}]
    assert completed(session, tmp_path / "lake", records, stored, removed) == [
        ("gone", None, 0, None, 9),
        ("new", "b", 0, "initialized", None),
    ]


def test_where_nothing_is_listed_or_stored_the_table_is_empty(session: SparkSession, tmp_path: Path) -> None:
    assert completed(session, tmp_path / "lake", [], []) == []
