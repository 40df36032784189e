"""Views topic_ids and stale_offsets: topics that were deleted and created again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.views.arrow_tables import in_duckdb
from tests.views.recorded import STORY, tables_of
from tests.views.topic_id_cases import hours, tables_of_cases

VIEWS = ("topic_ids", "stale_offsets")


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


def test_each_id_has_its_source_and_its_count_of_committed_offsets() -> None:
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
