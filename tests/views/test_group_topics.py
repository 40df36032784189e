"""View group_topics over the story; group_topics.sql has its cases."""

from __future__ import annotations

from tests.views.arrow_tables import in_duckdb
from tests.views.recorded import STORY, tables_of


def test_members_in_the_story_read_the_topics_that_it_names() -> None:
    reported: dict[str, set[str]] = {}
    sources: dict[str, set[str]] = {}
    for _, group_id, topic, source in in_duckdb(tables_of("story")).sql("FROM group_topics").fetchall():
        if source != "committed":
            reported.setdefault(group_id, set()).add(topic)
            sources.setdefault(source, set()).add(group_id)
    # One group subscribes by an expression, and the story does not say which topics match it.
    assert sources.pop("regex") == {"ml-features"}
    assert reported.pop("ml-features") == {"orders", "fraud-scores", "price-changes"}
    assert reported == {group_id: set(STORY["groups"][group_id]["topics"]) for group_id in reported}
    assert len(reported) > 15 and sources["topology"] == {"order-totals"}
