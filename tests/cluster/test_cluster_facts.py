"""A live cluster reports facts of itself; those that need a missing ACL are left out. (Real brokers: tests/broker.)"""

from __future__ import annotations

import orjson
import pytest

from kgroups_spark.audit import cluster_facts
from kgroups_spark.audit.cluster_facts import ClusterFacts
from kgroups_spark.cluster import cluster
from kgroups_spark.cluster.requests import Throttled
from kgroups_spark.replay.state_logs import ClusterFact, Settings
from tests.lake.table_rows import rows_of as table_rows
from tests.nights.fake_brokers import FakeBrokers, topic
from tests.views.arrow_tables import in_duckdb

OFFSETS = "__consumer_offsets"
TOPIC, BROKER, GROUP = 2, 4, 32


def facts(**brokers):
    return cluster_facts.cluster_facts(FakeBrokers(**brokers))


def test_everything_that_is_reported():
    reported = facts(
        known=[topic(OFFSETS, (1,), "o" * 22), topic("t", (1,), "t" * 22), topic("of old")],
        configs={
            1: {"offsets.retention.minutes": "10080", "group.coordinator.rebalance.protocols": "classic", "x": "y"}
        },
        topic_configs={"delete.retention.ms": "86400000", "cleanup.policy": "compact"},
        group_configs={"g": {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "3000"}},
    )
    assert reported == ClusterFacts(
        cluster_id="one",
        topic_ids=(("o" * 22, OFFSETS), ("t" * 22, "t")),
        release_version="4.3",
        release_evidence="release 4.3: the software supports metadata.version 30, as Kafka 4.3 does",
        offsets_retention_ms=10_080 * 60_000,
        delete_retention_ms=86_400_000,
        notes=(),
        rows=(
            ClusterFact("broker_config", "offsets.retention.minutes", "10080", "set", broker=1),
            ClusterFact("broker_config", "group.coordinator.rebalance.protocols", "classic", "set", broker=1),
            ClusterFact("feature", "group.version", "1"),
            ClusterFact("group_config", "consumer.heartbeat.interval.ms", "3000", "set", group_id="g"),
            ClusterFact("group_config", "consumer.session.timeout.ms", "60000", "set", group_id="g"),
            ClusterFact("leader", "0", "host:9001", broker=1),
        ),
    )


LIMIT = "group.share.delivery.count.limit"


def limits_by_sql(rows):
    """The limit of three groups by share_batches_as_of."""
    batches = orjson.dumps({"startOffset": 0, "stateBatches": [BATCH]}).decode()
    records = [
        {"group_id": group, "topic_id": "t", "log_offset": at, "value": batches, "record_type": 0}
        for at, group in enumerate(("g", "h", "of its own"))
    ]
    tables = {
        "cluster_facts": table_rows("cluster_facts", *(each._asdict() | {"audit_id": 1} for each in rows)),
        "share_group_state_records": table_rows("share_group_state_records", *records),
    }
    found = in_duckdb(tables).sql("SELECT group_id, attempts_left FROM share_batches_as_of(NULL)").fetchall()
    return dict(found)


BATCH = {"firstOffset": 0, "lastOffset": 0, "deliveryState": 0, "deliveryCount": 0}


@pytest.mark.parametrize(
    ("reported", "settings"),
    [
        ({"configs": {1: {LIMIT: "7"}}}, Settings(7, None, {})),
        (
            {"configs": {1: {LIMIT: "7"}}, "group_configs": {"g": {"share.delivery.count.limit": "10"}, "h": {}}},
            Settings(7, None, {"g": 10}),
        ),
        ({"configs": {1: {LIMIT: "7"}, 2: {LIMIT: "5"}}}, Settings(None, None, {})),
        ({"configs": {1: {LIMIT: "7"}}, "forbidden": ["list groups"]}, Settings(None, None, {})),
        (
            {
                "configs": {1: {LIMIT: "7"}},
                "group_configs": {"g": {"share.delivery.count.limit": "10"}},
                "forbidden": [(GROUP, "g")],
            },
            Settings(7, None, {"g": None}),
        ),
        ({}, Settings(None, None, {})),
    ],
    ids=["brokers", "group", "brokers differ", "groups unknown", "group unknown", "nobody reports it"],
)
def test_a_delivery_limit_is_known_or_unknown_and_never_a_default(reported, settings):
    found = facts(known=[topic(OFFSETS, (1, 2), "o" * 22)], features={1: 30, 2: 30}, **reported)
    option = ClusterFact("broker_config", LIMIT, "9", "option")
    with_option = settings._replace(delivery_count_limit=settings.delivery_count_limit or 9)
    for facts_known, expected in ((found.rows, settings), ((*found.rows, option), with_option)):
        assert Settings.of(facts_known) == expected
        assert limits_by_sql(facts_known) == {group: expected.limit_of(group) for group in ("g", "h", "of its own")}


@pytest.mark.parametrize(
    ("minutes", "ms"),
    [("abc", "abc"), ("1.5", "1.5"), ("0", "-1"), ("2147483648", "9223372036854775808"), ("9" * 400, "9" * 400)],
)
def test_a_number_that_no_broker_has_is_passed_over(minutes, ms):
    reported = facts(
        known=[topic(OFFSETS, (1, 2), "o" * 22)],
        features={1: 30, 2: 30},
        configs={1: {"offsets.retention.minutes": minutes}, 2: {"offsets.retention.minutes": " 20 "}},
        topic_configs={"delete.retention.ms": ms},
    )
    assert (reported.offsets_retention_ms, reported.delete_retention_ms) == (20 * 60_000, None)
    assert [note.partition(" is ignored: ")[0] for note in reported.notes] == [
        "offsets.retention.minutes of broker 1",
        f"delete.retention.ms of topic {OFFSETS}",
    ]


ALL = {
    "configs": {1: {"offsets.retention.minutes": "1"}},
    "topic_configs": {"delete.retention.ms": "5"},
    "group_configs": {"g": {"consumer.session.timeout.ms": "60000"}, "h": {"consumer.session.timeout.ms": "1"}},
}


@pytest.mark.parametrize(
    ("forbidden", "left", "notes"),
    [
        (
            (BROKER, "1"),
            (None, 5),
            [
                "offsets.retention.minutes of the brokers is unknown: grant DESCRIBE_CONFIGS on cluster kafka-cluster",
            ],
        ),
        (
            (TOPIC, OFFSETS),
            (60_000, None),
            [
                "delete.retention.ms of topic __consumer_offsets is unknown: grant DESCRIBE_CONFIGS on topic "
                "__consumer_offsets",
            ],
        ),
        (
            "list groups",
            (60_000, 5),
            ["the configuration of single groups is unknown: grant DESCRIBE_CONFIGS on cluster kafka-cluster"],
        ),
        (
            (GROUP, "g"),
            (60_000, 5),
            [
                "the configuration of group g is unknown: grant DESCRIBE_CONFIGS on group g",
            ],
        ),
    ],
    ids=["broker", "topic", "list", "group"],
)
def test_facts_that_need_a_missing_acl_are_left_out_and_a_note_names_it(forbidden, left, notes):
    reported = facts(forbidden=[forbidden], **ALL)
    assert (reported.offsets_retention_ms, reported.delete_retention_ms) == left
    assert list(reported.notes) == notes
    assert reported.release_version == "4.3"


def test_one_of_several_groups_without_permission_is_named():
    reported = facts(forbidden=[(GROUP, "g"), (GROUP, "h")], **ALL)
    assert reported.notes == ("the configuration of group g and 1 other is unknown: grant DESCRIBE_CONFIGS on group g",)


def test_brokers_before_4_1_list_no_groups_and_nothing_is_missing():
    assert facts(lists_groups=False, **ALL).notes == ()


class Throttling(FakeBrokers):
    """They throttle whoever asks for configurations."""

    def send(self, request, node_id=None, *, timeout_ms=None):
        raise Throttled("for too long")


def test_brokers_that_throttle_us_are_not_taken_for_old_ones():
    reported = cluster_facts.cluster_facts(Throttling(**ALL))
    assert (reported.offsets_retention_ms, reported.delete_retention_ms) == (None, None)
    assert reported.notes == tuple(
        f"{what} is unknown: the broker answered THROTTLING_QUOTA_EXCEEDED"
        for what in (
            "offsets.retention.minutes of the brokers",
            "delete.retention.ms of topic __consumer_offsets",
            "the configuration of single groups",
        )
    )


def test_many_groups_are_asked_for_in_lots(monkeypatch):
    monkeypatch.setattr(cluster, "AT_ONCE", 3)
    groups = {f"g{number}": {"share.session.timeout.ms": str(number)} for number in range(7)}
    brokers = FakeBrokers(group_configs=groups)
    reported = cluster_facts.cluster_facts(brokers)
    assert [(each.group_id, each.value) for each in reported.rows if each.kind == "group_config"] == [
        (f"g{number}", str(number)) for number in range(7)
    ]
    # Itself, the offsets topic, and three lots of groups.
    assert [each[0] for each in brokers.asked].count("DescribeConfigsRequest") == 5


def test_brokers_that_lead_offsets_partitions_are_asked_and_where_they_differ_it_is_reported():
    brokers = FakeBrokers(
        known=[topic(OFFSETS, (2, 3, 3, None), "o" * 22)],
        features={1: 25, 2: 30, 3: 29},
        configs={node: {"offsets.retention.minutes": minutes} for node, minutes in ((1, "1"), (2, "9"), (3, "7"))},
    )
    reported = cluster_facts.cluster_facts(brokers)
    assert reported.release_version == "4.2"
    assert "(broker 2: 4.3; broker 3: 4.2: an upgrade in progress?)" in reported.release_evidence
    assert reported.offsets_retention_ms == 7 * 60_000
    assert reported.notes == (
        "offsets.retention.minutes differs: 9 on broker 2, 7 on broker 3; the shortest is used for all partitions",
    )
    assert {each[1] for each in brokers.asked if each[0] == "DescribeConfigsRequest"} == {2, 3, None}


def test_a_broker_that_is_down_is_left_out():
    configs = {node: {"offsets.retention.minutes": "9"} for node in (2, 3)}
    reported = facts(known=[topic(OFFSETS, (2, 3))], features={2: 29, 3: 30}, configs=configs, down=[2])
    assert (reported.release_version, reported.offsets_retention_ms) == ("4.3", 9 * 60_000)
    assert reported.notes == (
        "broker 2 reported neither its release nor its configuration: broker 2 has not answered in 15 s: it does not",
    )


def test_all_brokers_are_asked_if_partitions_have_no_leader_or_the_topic_is_hidden():
    for known in ([topic(OFFSETS, (None,))], []):
        brokers = FakeBrokers(known=known, features={1: 30, 2: 30})
        assert cluster_facts.cluster_facts(brokers).release_version == "4.3"
        assert {each[1] for each in brokers.asked if each[0] == "DescribeConfigsRequest"} == {1, 2, None}
