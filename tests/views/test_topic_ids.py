"""Views topic_ids and stale_offsets over recorded logs; topic_ids.sql has their cases."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.views.arrow_tables import in_duckdb
from tests.views.recorded import STORY, tables_of


def rows(tables: dict[str, pa.Table], query: str) -> list[tuple[Any, ...]]:
    with in_duckdb(tables) as connection:
        found: list[tuple[Any, ...]] = connection.sql(query).fetchall()
    return found


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
