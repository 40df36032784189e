"""Logs made by hand, and how much of each offsets partition is garbage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa

from tests.lake.table_rows import MOMENT, rows_of

HOUR = MOMENT.replace(minute=0, second=0, microsecond=0)


def read(partition: int, start: int, end: int, records: int, **more: Any) -> dict[str, Any]:
    its = {"offsets_partition": partition, "start_offset": start, "end_offset": end, "records": records}
    return its | {"records_reread": 0, "bytes": 10 * records, "log_start_offset": 0, **more}


def audit(audit_id: int, *partitions: dict[str, Any], status: str = "finished") -> dict[str, Any]:
    newest = HOUR + timedelta(hours=30)
    return {"audit_id": audit_id, "status": status, "partitions": list(partitions), "newest_log_timestamp": newest}


def record(partition: int, log_offset: int, key: tuple[int, str, str | None], **more: Any) -> dict[str, Any]:
    record_type, group_id, member_id = key
    place = {"offsets_partition": partition, "log_offset": log_offset}
    return place | {"record_type": record_type, "group_id": group_id, "member_id": member_id, "value_version": 0} | more


def traffic(partition: int, hour: float | None, commits: int, tombstones: int = 0, **more: Any) -> dict[str, Any]:
    time = None if hour is None else HOUR + timedelta(hours=hour)
    return {
        "offsets_partition": partition,
        "group_id": "g",
        "hour": time,
        "commits": commits,
        "tombstones": tombstones,
        **more,
    }


def tables_of_cases() -> dict[str, pa.Table]:
    """Partition 0: read at once; 1: at its second night read again; 2: empty; 3: its start was cut off; 4: busy."""
    return {
        "audits": rows_of(
            "audits",
            audit(1, read(0, 0, 100, 100), read(1, 0, 100, 100), read(2, 0, 0, 0, log_start_offset=None)),
            audit(2, read(0, 100, 150, 40), read(1, 100, 150, 90, records_reread=50)),
            audit(
                3,
                *(read(0, 150, 150, 0), read(1, 150, 160, 10), read(2, 0, 0, 0, log_start_offset=None)),
                *(read(3, 40, 60, 20, log_start_offset=30), read(4, 5, 25, 20, log_start_offset=None)),
            ),
            audit(4, read(0, 150, 999, 999), status="running"),
        ),
        "group_records": rows_of(
            "group_records",
            record(0, 1, (2, "g", None)),
            record(0, 2, (2, "g", None)),
            record(0, 3, (2, "h", None)),
            record(0, 4, (2, "h", None), value_version=None),
            record(0, 5, (5, "h", "a")),
            record(0, 6, (5, "h", "b")),
            record(0, 7, (8, "h", "b"), value_version=None),
            record(0, 8, (8, "h", "b")),
            record(0, 9, (16, "h", None), regular_expression="x"),
            record(0, 10, (16, "h", None), regular_expression="y"),
            record(1, 1, (2, "g", None), value_version=None, audit_id=1),
            record(1, 155, (2, "g", None), value_version=None, audit_id=3),
        ),
        "committed_offsets": rows_of(
            "committed_offsets", *({"group_id": "g", "topic": "t", "partition": number} for number in range(4))
        ),
        "pending_offsets": rows_of("pending_offsets", {"group_id": "g", "topic": "t", "partition": 9}),
        "open_transactions": rows_of(
            "open_transactions",
            {"producer_id": 7, "transaction_start_offset": 90, "open_since": HOUR},
            {"producer_id": 8, "transaction_start_offset": 20, "open_since": None},
            {"producer_id": 9, "offsets_partition": 3, "transaction_start_offset": 50, "open_since": HOUR},
        ),
        "group_traffic": rows_of(
            "group_traffic",
            traffic(0, 0, 30, 5, audit_id=1),
            traffic(0, 2, 10, 1, audit_id=2),
            traffic(0, None, 3, audit_id=2),
            traffic(1, 0, 9, 50, audit_id=1),
            traffic(1, 9, 0, 4, audit_id=2),
            traffic(1, 9, 0, 3, audit_id=3),
            # More than a day: the last 24 hours count.
            *(traffic(4, hour, 10 if hour >= 6 else 1000, group_id=group) for hour in range(30) for group in "ab"),
            # Stamped 20 years later: it is not taken for the partition's last hour.
            traffic(4, 20 * 8766, 1, group_id="a"),
        ),
    }
