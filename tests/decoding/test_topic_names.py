"""Names of topic ids: whatever the order in which records, ranges and nights come."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

from kgroups_spark.messages.schema import uuid_text
from kgroups_spark.replay.counts import TopicNames
from tests.lake.table_rows import rows_of

# Ids by number, as 16 bytes; 0 is none.
ID = [bytes(15) + bytes([number]) for number in range(4)]
TOPICS = ["orders", "clicks", "orders"]

# (index of the topic, id, time) of offset commits: "orders" was created again with id 2 at 700.
COMMITS = [(0, 1, 500), (2, 1, 400), (0, 2, 700), (1, 3, -1), (1, 3, 900), (0, 0, 100), (2, 2, 800)]
NAMED = {
    (uuid_text(ID[1]), "orders", 400, "offset_commit"),
    (uuid_text(ID[2]), "orders", 700, "offset_commit"),
    (uuid_text(ID[3]), "clicks", 900, "offset_commit"),
}


def learnt(*chunks: list[tuple[int, int, int]]) -> TopicNames:
    """Names from chunks of offset commits."""
    names = TopicNames()
    for chunk in chunks:
        rows = [
            {
                "topic": TOPICS[code],
                "topic_id": uuid_text(ID[number]) if number else None,
                "log_timestamp": None if time < 0 else datetime.fromtimestamp(time / 1000, UTC),
            }
            for code, number, time in chunk
        ]
        names.add_commits(rows_of("offset_commits", *rows))
    return names


def test_an_id_that_was_only_seen_without_a_time_has_none() -> None:
    for commits in ([(0, 1, -1)], [(0, 2, 700), (0, 1, -1)]):
        assert (uuid_text(ID[1]), "orders", None, "offset_commit") in learnt(commits).rows()


def test_the_order_of_records_does_not_matter() -> None:
    for commits in itertools.permutations(COMMITS[:5]):
        assert set(learnt(list(commits), COMMITS[5:]).rows()) == NAMED


def test_merged_ranges_equal_one_range() -> None:
    for order in itertools.permutations([COMMITS[:2], COMMITS[2:4], COMMITS[4:]]):
        merged = TopicNames()
        for part in order:
            merged.merge(learnt(part).rows())
        assert set(merged.rows()) == NAMED


def test_values_of_types_4_9_and_15_name_topics() -> None:
    names = TopicNames()
    names.add_value(4, {"topics": [{"topicId": "A", "topicName": "orders"}]}, 30)
    names.add_value(9, {"topics": [{"topicId": "B", "topicName": "clicks"}]}, -1)
    shares = {"initializingTopics": [], "initializedTopics": [{"topicId": "A", "topicName": "orders"}]}
    names.add_value(15, {**shares, "deletingTopics": [{"topicId": "C", "topicName": "old"}]}, 20)
    names.add_value(4, None, 10)
    names.add_value(3, {"epoch": 1}, 10)
    assert set(names.rows()) == {
        ("A", "orders", 20, "group_record"),
        ("B", "clicks", None, "group_record"),
        ("C", "old", 20, "group_record"),
    }


def test_a_sighting_with_a_time_is_earlier_than_one_without() -> None:
    for times in ((-1, 40), (40, -1)):
        names = TopicNames()
        for time in times:
            names.add("A", "orders", time, "offset_commit")
        assert names.rows() == [("A", "orders", 40, "offset_commit")]
