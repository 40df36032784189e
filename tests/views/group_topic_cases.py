"""Logs of groups made by hand, and the topics that they have."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from tests.lake.table_rows import rows_of


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
