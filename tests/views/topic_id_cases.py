"""Topics that were deleted and created again, as tables made by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa

from tests.lake.table_rows import MOMENT, rows_of


def hours(number: float) -> Any:
    return MOMENT + timedelta(hours=number)


def topic(topic_id: str, name: str, seen: float | None, source: str = "offset_commit") -> dict[str, Any]:
    return {
        "topic_id": topic_id,
        "topic": name,
        "seen_log_timestamp": None if seen is None else hours(seen),
        "source": source,
    }


def asked(audit_id: int, name: str, topic_id: str | None, seen_at: float) -> dict[str, Any]:
    status = "ok" if topic_id else "unknown_topic"
    return {
        "audit_id": audit_id,
        "topic": name,
        "topic_id": topic_id,
        "partition": 0,
        "status": status,
        "seen_at": hours(seen_at),
    }


def committed(group: str, name: str, topic_id: str | None, **more: Any) -> dict[str, Any]:
    return {"group_id": group, "topic": name, "partition": 0, "topic_id": topic_id, "committed_offset": 5, **more}


def tables_of_cases() -> dict[str, pa.Table]:
    return {
        "topics": rows_of(
            "topics",
            topic("one", "once", 1),
            # By the log, in whatever order they were read.
            topic("b2", "twice", 2),
            topic("a1", "twice", 1, "group_record"),
            # The cluster reports an id under which no offset has been committed yet.
            topic("a9", "in cluster", None, "cluster"),
            topic("b8", "in cluster", 3),
            # The log has shown another id since the cluster was asked last, if by a clock that is slow.
            topic("c3", "since", 1),
            topic("c1", "since", 7),
            # Two that only the cluster reported, one after the other.
            topic("d2", "only in cluster", None, "cluster"),
            topic("d1", "only in cluster", None, "cluster"),
            # The same, without committed offsets: only that it is newer than those of the log.
            topic("e1", "idle", None, "cluster"),
            topic("e2", "idle", 3),
        ),
        "topic_offsets": rows_of(
            "topic_offsets",
            asked(1, "in cluster", "b8", 3.5),
            asked(2, "in cluster", "a9", 4),
            asked(1, "since", "c3", 5),
            asked(2, "since", "c3", 7.1),
            asked(1, "only in cluster", "d2", 1),
            asked(2, "only in cluster", "d1", 2),
            asked(3, "only in cluster", None, 9),
        ),
        "committed_offsets": rows_of(
            "committed_offsets",
            committed("g", "once", "one"),
            committed("g", "twice", "a1", log_offset=7, commit_timestamp=hours(1), is_orphan=True),
            committed("h", "twice", "a1"),
            committed("i", "twice", "b2"),
            committed("before topic ids were logged", "twice", None),
            committed("g", "in cluster", "b8"),
            committed("g", "since", "c1"),
            committed("h", "since", "c3"),
        ),
    }
