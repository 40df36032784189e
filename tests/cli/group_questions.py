"""Lakes in memory, for commands on groups."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kgroups_spark.words import to_datetime
from tests.cli.story_reader import ArrowReader
from tests.lake.table_rows import rows_of as table_rows
from tests.share_coordinator import histories as shares

Said = tuple[int, str, str]


def share_group(name: str = "g", *, is_read: bool = True, records_lost: int = 0, start_offset: int = 27) -> ArrowReader:
    """A group with state of two partitions of the topic `orders` from second 3 on, and other start offsets from seconds
    5 and 7 on. `is_read`: the share coordinator's log was read, up to second 7; `records_lost`: how many;
    `start_offset`: the last one of partition 0."""
    listing = {"topicId": "A", "topicName": "orders", "partitions": [0, 1]}
    listed = {"initializingTopics": [], "initializedTopics": [listing], "deletingTopics": []}
    of_group = {"offsets_partition": 3, "group_id": name, "log_timestamp": second(1)}
    stored = {
        (0, 3): (0, shares.snapshot(start=20, complete=0)),
        (1, 3): (0, shares.snapshot(start=30, complete=0)),
        (0, 5): (1, shares.update([], start_offset, complete=0)),
        (1, 7): (1, shares.update([], 38, complete=1)),
    }
    records = [
        {"record_type": kind, "group_id": name, "topic_id": "A", "partition": partition, "log_offset": at}
        | {"log_timestamp": second(at), "value": json.dumps(value)}
        for (partition, at), (kind, value) in stored.items()
    ]
    entry = {"offsets_partition": 0, "topic": SHARE, "end_offset": 8, "records": 8 - records_lost}
    entry |= {"records_reread": 0, "newest_log_timestamp": second(7)}
    current = {"group_id": name, "topic_id": "A", "topic": "orders", "init_state": "initialized"}
    now = [
        {"partition": at, "start_offset": start, "delivery_complete_count": at}
        for at, start in enumerate((start_offset, 38))
    ]
    state = {"share_group_state_records": records, "share_partitions": [current | each for each in now]}
    ends = [{"audit_id": 1, "topic": "orders", "partition": at, "log_end_offset": 40} for at in (0, 1)]
    return reader_of(
        partitions=[entry] if is_read else [],
        groups=[group(3, group_id=name, group_type="share")],
        group_versions=[group(3, **PLACE, group_id=name, group_type="share", log_offset=2)],
        group_records=[of_group | {"record_type": 15, "log_offset": 1, "value": json.dumps(listed)}],
        topic_offsets=ends,
        **(state if is_read else {}),
    )


PLACE = {"audit_id": 1, "log_timestamp": to_datetime(1000)}


def group(partition: int, **more: Any) -> dict[str, Any]:
    return {"offsets_partition": partition, "group_id": "g", "group_type": "classic", "state": "Empty", **more}


def committed(offsets_partition: int, offset: int, at: datetime | None, **more: Any) -> dict[str, Any]:
    slot = {"group_id": "g", "topic": "t", "partition": 0, "metadata": ""}
    return {"offsets_partition": offsets_partition, "committed_offset": offset, "commit_timestamp": at, **slot, **more}


def reader_of(
    release_version: str = "4.3", partitions: Sequence[dict[str, Any]] = (), **tables: list[dict[str, Any]]
) -> ArrowReader:
    rows = {name: table_rows(name, *some) for name, some in tables.items()}
    return ArrowReader(rows, to_datetime(10_000), release_version, partitions)


SHARE, TRANSACTION = "__share_group_state", "__transaction_state"


def second(number: int) -> datetime:
    return to_datetime(10**12 + 1000 * number)


def gone(*, removed_at: datetime | None, events: list[dict[str, Any]]) -> ArrowReader:
    """A group that committed three offsets in second 1, lost one in 2 as its topic was deleted, one in 3, and was
    removed with the last one in 4."""
    place = {"audit_id": 1, "log_timestamp": second(1)}
    slots = [("dead", 0), ("t", 0), ("t", 1)]
    commits = [
        committed(3, 50 + n, second(1), topic=topic, partition=p, log_offset=n, record_type=1, value_version=3) | place
        for n, (topic, p) in enumerate(slots)
    ]
    tombstones = [
        {**row, "committed_offset": None, "log_offset": 10 + n, "log_timestamp": second(2 + n)}
        for n, row in enumerate(commits)
    ]
    versions = [
        group(3, log_offset=0, **place),
        group(3, log_offset=13, is_removed=True, audit_id=1, log_timestamp=removed_at),
    ]
    return reader_of(offset_commits=[*commits, *tombstones], group_versions=versions, group_events=events)


def removal(log_offset: int, in_second: int, event: str, cause: str, **more: Any) -> dict[str, Any]:
    facts = {"offsets_partition": 3, "group_id": "g", "log_offset": log_offset, "event": event, "cause": cause}
    return {"audit_id": 1, "log_timestamp": second(in_second), "event_timestamp": second(in_second), **facts, **more}


def gone_piece_by_piece() -> ArrowReader:
    events = [
        removal(1, 1, "offset_removed", "expired", topic="t", partition=1, offset_before=1),  # and committed again
        removal(10, 2, "offset_removed", "topic_deleted", topic="dead", partition=0, offset_before=50),
        removal(11, 3, "offset_removed", "expired", topic="t", partition=0, offset_before=51),
        removal(12, 4, "offset_removed", "expired", topic="t", partition=1, offset_before=52),
        removal(13, 4, "group_removed", "expired"),
    ]
    return gone(removed_at=second(4), events=events)
