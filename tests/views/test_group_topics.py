"""View group_topics: where a group's topics are from."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.views.arrow_tables import in_duckdb
from tests.views.group_topic_cases import tables_of_cases
from tests.views.recorded import STORY, tables_of


def topics(tables: dict[str, pa.Table]) -> list[tuple[Any, ...]]:
    with in_duckdb(tables) as connection:
        found: list[tuple[Any, ...]] = connection.sql("SELECT * FROM group_topics ORDER BY ALL").fetchall()
    return found


def test_every_source_of_a_topic_is_reported_once() -> None:
    assert topics(tables_of_cases()) == [
        (0, "gone", "old", "committed"),
        (0, "names", "t", "committed"),
        (0, "names", "t", "subscribed"),
        (0, "names", "u", "subscribed"),
        (0, "regex", "aa", "regex"),
        (0, "regex", "ab", "regex"),
        (0, "streams", "in", "topology"),
        (0, "streams", "it's", "topology"),
        (0, "streams", "mid", "topology"),
        (7, "names", "t", "subscribed"),
    ]


def test_members_in_the_story_read_the_topics_that_it_names() -> None:
    reported: dict[str, set[str]] = {}
    sources: dict[str, set[str]] = {}
    for _, group_id, topic, source in topics(tables_of("story")):
        if source != "committed":
            reported.setdefault(group_id, set()).add(topic)
            sources.setdefault(source, set()).add(group_id)
    # One group subscribes by an expression, and the story does not say which topics match it.
    assert sources.pop("regex") == {"ml-features"}
    assert reported.pop("ml-features") == {"orders", "fraud-scores", "price-changes"}
    assert reported == {group_id: set(STORY["groups"][group_id]["topics"]) for group_id in reported}
    assert len(reported) > 15 and sources["topology"] == {"order-totals"}
