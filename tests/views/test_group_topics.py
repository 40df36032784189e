"""View group_topics: where a group's topics are from."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from tests.lake.table_rows import rows_of
from tests.views.arrow_tables import in_duckdb
from tests.views.recorded import STORY, tables_of


def group(group_id: str, **columns: Any) -> dict[str, Any]:
    return {"group_id": group_id, "group_type": "consumer", "state": "Stable", "member_count": 1, **columns}


def member(group_id: str, member_id: str, topics: list[str] | None, **columns: Any) -> dict[str, Any]:
    return {"group_id": group_id, "member_id": member_id, "subscribed_topics": topics, **columns}


def subtopology(source: list[str], repartition: list[str]) -> dict[str, Any]:
    topics = [{"name": name, "partitions": 1, "replicationFactor": 1, "topicConfigs": []} for name in repartition]
    changelogs = [{"name": "changelog", "partitions": 1, "replicationFactor": 1, "topicConfigs": []}]
    return {
        "subtopologyId": "0",
        "sourceTopics": source,
        "sourceTopicRegex": ["x.*"],
        "stateChangelogTopics": changelogs,
        "repartitionSinkTopics": ["sink"],
        "repartitionSourceTopics": topics,
    }


def tables_of_cases() -> dict[str, pa.Table]:
    topology = {"epoch": 0, "subtopologies": [subtopology(["in", "it's"], []), subtopology([], ["mid"])]}
    return {
        "groups": rows_of(
            "groups",
            group("names"),
            group("regex", resolved_regex_topics={"a.*": ["aa", "ab"], "ab.*": ["ab"], "none": []}),
            group("streams", topology=json.dumps(topology)),
            group("no topology yet"),
        ),
        "group_members": rows_of(
            "group_members",
            member("names", "1", ["t", "u"]),
            member("names", "2", ["t"]),
            member("names", "3", []),
            member("names", "4", None),
            member("names", "1", ["t"], offsets_partition=7),
            member("streams", "1", None),
        ),
        "committed_offsets": rows_of(
            "committed_offsets",
            *({"group_id": "names", "topic": "t", "partition": partition} for partition in range(3)),
            {"group_id": "gone", "topic": "old", "partition": 0, "is_orphan": True},
        ),
    }


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


def test_of_the_story_members_read_what_it_says_they_read() -> None:
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
