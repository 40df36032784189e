"""Counts of ranges: commits by group and hour of log time, names of topic ids, partitions that fit."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np

from kgroups_spark.messages.schema import uuid_text
from kgroups_spark.replay.counts import (
    HOUR_MS,
    MOST_PARTITIONS,
    DecodedChunk,
    GroupTraffic,
    TopicNames,
    counts_in_all,
    fitting_partition_counts,
)
from kgroups_spark.words import to_epoch_ms
from tests.lake.table_rows import rows_of

HOUR = 1_700_000_000_000 // HOUR_MS * HOUR_MS


def rows(traffic):
    columns = traffic.rows(1, [0]).to_pydict().values()
    return {
        (group_id, hour and to_epoch_ms(hour)): counts for _, _, group_id, hour, *counts in zip(*columns, strict=True)
    }


def add(traffic, *commits):
    """Commits: number of the group, time, tombstone, transactional, bytes."""
    table = np.array(commits, np.int64).reshape(-1, 5)
    (group, timestamp, _, _, size), (is_tombstone, is_transactional) = table.T, table.T[2:4].astype(np.bool_)
    none = np.zeros(len(commits), np.int64)
    records = SimpleNamespace(
        key_length=none, value_length=size, timestamp=timestamp, is_transactional=is_transactional
    )
    decoded = SimpleNamespace(rows=np.arange(len(commits)), code=group, is_tombstone=is_tombstone)
    keys = SimpleNamespace(groups=["a", "b"], group=np.arange(2))
    traffic.add_chunk(DecodedChunk(records, none, decoded, keys, []))


def test_commits_tombstones_and_transactional_commits_are_counted_apart():
    traffic = GroupTraffic()
    add(
        traffic,
        (0, HOUR, False, False, 10),
        (0, HOUR + HOUR_MS - 1, False, True, 20),
        (0, HOUR, True, False, 3),
        (0, HOUR, True, True, 4),  # a tombstone in a transaction is a tombstone
        (1, HOUR, False, False, 50),
    )
    assert rows(traffic) == {("a", HOUR): [2, 2, 1, 0, 37], ("b", HOUR): [1, 0, 0, 0, 50]}


def test_records_without_a_time_have_no_hour():
    traffic = GroupTraffic()
    add(traffic, (0, -1, False, False, 1), (0, 0, False, False, 2))
    traffic.add_record((0, "a"), -1, 5)
    assert rows(traffic) == {("a", None): [1, 0, 0, 1, 6], ("a", 0): [1, 0, 0, 0, 2]}


def test_chunks_and_records_of_other_types_add_up():
    traffic = GroupTraffic()
    for _ in range(2):
        add(traffic, (1, HOUR + 7, False, False, 8))
        traffic.add_record((0, "b"), HOUR + 9, 100)
    assert rows(traffic) == {("b", HOUR): [2, 0, 0, 2, 216]}


def test_a_chunk_without_commits_counts_nothing():
    traffic = GroupTraffic()
    add(traffic)
    assert rows(traffic) == {}


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


def learnt(*chunks):
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


def test_an_id_that_was_only_seen_without_a_time_has_none():
    for commits in ([(0, 1, -1)], [(0, 2, 700), (0, 1, -1)]):
        assert (uuid_text(ID[1]), "orders", None, "offset_commit") in learnt(commits).rows()


def test_the_order_of_records_does_not_matter():
    for commits in itertools.permutations(COMMITS[:5]):
        assert set(learnt(list(commits), COMMITS[5:]).rows()) == NAMED


def test_merged_ranges_equal_one_range():
    for order in itertools.permutations([COMMITS[:2], COMMITS[2:4], COMMITS[4:]]):
        merged = TopicNames()
        for part in order:
            merged.merge(learnt(part).rows())
        assert set(merged.rows()) == NAMED


def test_values_of_types_4_9_and_15_name_topics():
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


def test_a_sighting_with_a_time_is_earlier_than_one_without():
    for times in ((-1, 40), (40, -1)):
        names = TopicNames()
        for time in times:
            names.add("A", "orders", time, "offset_commit")
        assert names.rows() == [("A", "orders", 40, "offset_commit")]


# Partitions among 50, as Kafka's own classes say.
AMONG_50 = {"a": 47, "test-group": 12, "connect-sink-1": 42, "schema-registry": 29, "café": 21, "😀": 49}


def test_a_few_groups_leave_only_the_right_number():
    assert counts_in_all(fitting_partition_counts([group], at) for group, at in AMONG_50.items()) == {50}


def test_numbers_that_a_partition_would_not_be_in_do_not_fit():
    assert fitting_partition_counts(["a"], 47) == [50]  # its hash is 97: 97 % 50 is 47
    assert fitting_partition_counts(["a"], 97) == list(range(98, MOST_PARTITIONS + 1))


def test_a_hash_without_absolute_value_is_in_partition_0():
    assert fitting_partition_counts(["polygenelubricants"], 0) == list(range(1, MOST_PARTITIONS + 1))
    assert fitting_partition_counts(["polygenelubricants"], 1) == []


def test_groups_in_wrong_partitions_fit_no_number():
    fitting = [fitting_partition_counts(["a"], 47), fitting_partition_counts(["test-group"], 13)]
    assert counts_in_all(fitting) == set()


def test_the_numbers_that_fit_all():
    assert counts_in_all([[10, 20, 30], [20, 30]]) == {20, 30}
    assert counts_in_all([[10, 20, 30], [20, 40]]) == {20}
    assert counts_in_all([]) == set()
