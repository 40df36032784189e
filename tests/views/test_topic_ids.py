"""Views topic_ids and stale_offsets: topics that were deleted and created again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa

from tests.lake.table_rows import MOMENT, rows_of
from tests.views.arrow_tables import in_duckdb
from tests.views.recorded import STORY, tables_of

VIEWS = ("topic_ids", "stale_offsets")


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
            # The cluster says what nobody has committed under yet.
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


def rows(tables: dict[str, pa.Table], query: str) -> list[tuple[Any, ...]]:
    with in_duckdb(tables) as connection:
        found: list[tuple[Any, ...]] = connection.sql(query).fetchall()
    return found


def test_ids_in_their_order() -> None:
    query = "SELECT topic, topic_id, number, is_newest, valid_from, valid_to FROM topic_ids ORDER BY topic, number"
    assert rows(tables_of_cases(), query) == [
        ("idle", "e2", 1, False, hours(3), None),
        ("idle", "e1", 2, True, None, None),
        ("in cluster", "b8", 1, False, hours(3), None),
        ("in cluster", "a9", 2, True, None, None),
        ("once", "one", 1, True, hours(1), None),
        ("only in cluster", "d2", 1, False, None, None),
        ("only in cluster", "d1", 2, True, None, None),
        ("since", "c3", 1, False, hours(1), hours(7)),
        ("since", "c1", 2, True, hours(7), None),
        ("twice", "a1", 1, False, hours(1), hours(2)),
        ("twice", "b2", 2, True, hours(2), None),
    ]


def test_who_said_so_and_what_was_committed_under_it() -> None:
    query = "SELECT topic_id, source, seen_in_cluster_at, committed_offset_count FROM topic_ids ORDER BY topic_id"
    assert rows(tables_of_cases(), query) == [
        ("a1", "group_record", None, 2),
        ("a9", "cluster", hours(4), 0),
        ("b2", "offset_commit", None, 1),
        ("b8", "offset_commit", hours(3.5), 1),
        ("c1", "offset_commit", None, 1),
        ("c3", "offset_commit", hours(7.1), 1),
        ("d1", "cluster", hours(2), 0),
        ("d2", "cluster", hours(1), 0),
        ("e1", "cluster", None, 0),
        ("e2", "offset_commit", None, 0),
        ("one", "offset_commit", None, 1),
    ]


def test_stale_offsets_are_those_of_an_older_id() -> None:
    query = (
        "SELECT group_id, topic, topic_id, newest_topic_id, newest_since FROM stale_offsets ORDER BY topic, group_id"
    )
    assert rows(tables_of_cases(), query) == [
        ("g", "in cluster", "b8", "a9", None),
        ("h", "since", "c3", "c1", hours(7)),
        ("g", "twice", "a1", "b2", hours(2)),
        ("h", "twice", "a1", "b2", hours(2)),
    ]
    query = "SELECT * FROM stale_offsets WHERE topic = 'twice' AND group_id = 'g'"
    assert rows(tables_of_cases(), query) == [
        (0, "g", "twice", 0, 5, hours(1), "a1", "b2", hours(2), 7, True),
    ]


CREATED_AGAIN = "SELECT DISTINCT topic FROM topic_ids WHERE number > 1"


def test_a_topic_that_a_broker_created_again() -> None:
    """`doomed` was deleted and created again; one of its two groups, a simple one, committed on it again."""
    tables = tables_of("classic-4.3")
    assert rows(tables, CREATED_AGAIN) == [("doomed.10356e",)]
    query = f"SELECT committed_offset_count FROM topic_ids WHERE topic IN ({CREATED_AGAIN}) ORDER BY number"
    assert rows(tables, query) == [(0,), (1,)]
    assert rows(tables, "SELECT * FROM stale_offsets") == []


def test_the_one_topic_that_the_story_created_again_is_reported() -> None:
    (recreated,) = {event["topic"] for event in STORY["events"] if event["what"] == "topic_recreated"}
    first = min(e["at_ms"] for e in STORY["events"] if e["what"] == "first_commit_of_new_topic")
    tables = tables_of("story")
    assert rows(tables, CREATED_AGAIN) == [(recreated,)]
    query = f"SELECT epoch_ms(valid_to) FROM topic_ids WHERE topic = '{recreated}' AND number = 1"
    assert rows(tables, query) == [(first,)]
