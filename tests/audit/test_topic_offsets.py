"""Where the logs of topics with committed offsets start and end, as far as their leaders say."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kgroups_spark.audit import cluster_facts
from kgroups_spark.audit.cluster_facts import topic_offsets, topic_offsets_notes, topic_offsets_table
from kgroups_spark.cluster.cluster import EARLIEST, LATEST
from kgroups_spark.cluster.requests import TopicMetadata
from kgroups_spark.tables.schemas import arrow_schema
from tests.nights.fake_brokers import FakeBrokers, topic

SEEN_AT = datetime(2026, 11, 16, 6, 30, 15, 123_456, tzinfo=UTC)
FORBIDDEN = TopicMetadata("secret", None, {}, "TOPIC_AUTHORIZATION_FAILED")


def seen(brokers, *committed):
    return [tuple(row) for row in topic_offsets(brokers, committed)]


def test_every_partition_of_a_topic_with_committed_offsets_has_a_row():
    brokers = FakeBrokers(
        known=[topic("t", (1, 2, 1), "t" * 22), topic("of old", (1,)), topic("nobody's", (1,), "n" * 22)],
        ends={("t", 0): (10, 50), ("t", 1): (0, 0), ("t", 2): (7, 8), ("of old", 0): (1, 2)},
    )
    assert seen(brokers, ("t", 1), ("of old", 0), ("t", 1)) == [
        ("of old", None, 0, None, None, "unknown_topic"),
        ("t", "t" * 22, 0, 10, 50, "ok"),
        ("t", "t" * 22, 1, 0, 0, "ok"),
        ("t", "t" * 22, 2, 7, 8, "ok"),
    ]


@pytest.mark.parametrize("name", ["", ".", "..", "t t", "tä", "t\n", "t/u", "x" * 256, "t\x00"])
def test_a_name_that_no_topic_can_have_is_unknown_without_a_request(name):
    brokers = FakeBrokers()
    assert seen(brokers, (name, 3)) == [(name, None, 3, None, None, "unknown_topic")]
    assert [each for each in brokers.asked if [] not in each] == []


@pytest.mark.parametrize("name", ["...", ".t", "t..", "x" * 255, "A.b_c-9"])
def test_brokers_are_asked_for_odd_but_valid_topic_names(name):
    assert seen(FakeBrokers(known=[topic(name)], ends={(name, 0): (1, 2)}), (name, 0))[0][3:] == (1, 2, "ok")


@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        (FORBIDDEN, "not_authorized"),
        (TopicMetadata("secret", None, {}, "UNKNOWN_TOPIC_OR_PARTITION"), "unknown_topic"),
        (TopicMetadata("secret", None, {}, "INVALID_TOPIC_EXCEPTION"), "unknown_topic"),
        (TopicMetadata("secret", None, {}, "UNKNOWN_SERVER_ERROR"), "unavailable"),
        (TopicMetadata("secret", None, {}, "LEADER_NOT_AVAILABLE"), "unavailable"),
    ],
    ids=lambda each: each.error if isinstance(each, TopicMetadata) else each,
)
def test_a_topic_is_gone_only_where_the_cluster_says_so(metadata, status):
    rows = seen(FakeBrokers(known=[metadata]), ("secret", 0), ("secret", 2))
    assert rows == [("secret", None, number, None, None, status) for number in (0, 2)]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("UNKNOWN_TOPIC_OR_PARTITION", "unknown_topic"),
        ("TOPIC_AUTHORIZATION_FAILED", "not_authorized"),
        ("NOT_LEADER_OR_FOLLOWER", "unavailable"),
        ("error 999", "unavailable"),
    ],
)
def test_the_leaders_answer_decides_the_status_of_a_partition(error, status):
    brokers = FakeBrokers(known=[topic("t", (1, 1), "t" * 22)], ends={("t", 0): error, ("t", 1): (3, 4)})
    assert seen(brokers, ("t", 0)) == [("t", "t" * 22, 0, None, None, status), ("t", "t" * 22, 1, 3, 4, "ok")]


def test_a_partition_without_a_leader_is_unavailable_and_one_that_the_topic_lacks_unknown():
    brokers = FakeBrokers(known=[topic("t", (1, None), "t" * 22)], ends={("t", 0): (3, 4)})
    assert seen(brokers, ("t", 0), ("t", 7), ("t", -1)) == [
        ("t", "t" * 22, -1, None, None, "unknown_topic"),
        ("t", "t" * 22, 0, 3, 4, "ok"),
        ("t", "t" * 22, 1, None, None, "unavailable"),
        ("t", "t" * 22, 7, None, None, "unknown_topic"),
    ]


class Losing(FakeBrokers):
    """Its leaders disappear while they are asked."""

    def list_offsets(self, partitions, at, **more):
        answers = super().list_offsets(partitions, at, **more)
        self.ends = {("t", 0): "NOT_LEADER_OR_FOLLOWER", ("t", 1): "UNKNOWN_TOPIC_OR_PARTITION"}
        return answers


def test_a_start_without_an_end_is_not_reported():
    brokers = Losing(known=[topic("t", (1, 1), "t" * 22)], ends={("t", 0): (3, 4), ("t", 1): (3, 4)})
    assert seen(brokers, ("t", 0)) == [
        ("t", "t" * 22, 0, None, None, "unavailable"),
        ("t", "t" * 22, 1, None, None, "unknown_topic"),
    ]


def test_thousands_of_topics_are_asked_for_in_lots(monkeypatch):
    monkeypatch.setattr(cluster_facts, "TOPICS_AT_ONCE", 4)
    names = [f"t{number}" for number in range(10)]
    brokers = FakeBrokers(known=[topic(name, (1, 2)) for name in names])
    assert len(seen(brokers, *((name, 0) for name in names))) == 20
    assert [len(each[1]) for each in brokers.asked if each[0] == "topics"] == [4, 4, 2]
    # The start first: whatever is appended meanwhile, it is not after the end.
    asked = [(each[1], len(each[2])) for each in brokers.asked if each[0] == "list_offsets"]
    assert asked == [(EARLIEST, 8), (LATEST, 8), (EARLIEST, 8), (LATEST, 8), (EARLIEST, 4), (LATEST, 4)]


def test_rows_fit_the_table_and_notes_name_what_is_missing():
    brokers = FakeBrokers(
        known=[topic("t", (1, None), "t" * 22), FORBIDDEN, TopicMetadata("hidden", None, {}, FORBIDDEN.error)],
        ends={("t", 0): (3, 4)},
    )
    committed = [("t", 0), ("secret", 0), ("secret", 1), ("hidden", 4), ("gone", 0)]
    table = topic_offsets_table(topic_offsets(brokers, committed), 7, SEEN_AT)
    assert table.schema == arrow_schema("topic_offsets")
    assert {(row["audit_id"], row["seen_at"]) for row in table.to_pylist()} == {
        (7, SEEN_AT.replace(microsecond=123_000))
    }
    assert [row["status"] for row in table.to_pylist()] == [
        "unknown_topic",
        "not_authorized",
        "not_authorized",
        "not_authorized",
        "ok",
        "unavailable",
    ]
    assert topic_offsets_notes(table) == [
        "log start and end of 2 topics with committed offsets are unknown: grant DESCRIBE on topic hidden and 1 other",
        "could not fetch log start and end of 1 partition of topics with committed offsets, t-1 among them: no "
        "leader answered",
    ]
