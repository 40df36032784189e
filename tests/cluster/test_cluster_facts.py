"""A live cluster reports facts of itself; those that need a missing ACL are left out. (Real brokers: tests/broker.)"""

from __future__ import annotations

from typing import Any

import pytest

from kgroups_spark.audit import cluster_facts
from kgroups_spark.audit.cluster_facts import ClusterFacts
from kgroups_spark.audit.log_source import settle
from kgroups_spark.audit.options import AuditOptions
from kgroups_spark.cluster import cluster as cluster_configs
from kgroups_spark.cluster.requests import Throttled
from kgroups_spark.replay.state_logs import Settings
from tests.nights.fake_brokers import FakeBrokers, topic

OFFSETS = "__consumer_offsets"
TOPIC, BROKER, GROUP = 2, 4, 32


def facts(**brokers: Any) -> ClusterFacts:
    return cluster_facts.cluster_facts(FakeBrokers(**brokers))


def test_everything_that_is_reported() -> None:
    reported = facts(
        known=[topic(OFFSETS, (1,), "o" * 22), topic("t", (1,), "t" * 22), topic("of old")],
        configs={1: {"offsets.retention.minutes": "10080", "group.coordinator.rebalance.protocols": "classic"}},
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
        notes=("group g: consumer.heartbeat.interval.ms = 3000, consumer.session.timeout.ms = 60000 (group config)",),
        state_settings=Settings(limits_of_groups={}),
    )


LIMIT = "group.share.delivery.count.limit"


@pytest.mark.parametrize(
    ("reported", "settings"),
    [
        ({"configs": {1: {LIMIT: "7"}}}, Settings(7, None, {})),
        (
            {"configs": {1: {LIMIT: "7"}}, "group_configs": {"g": {"share.delivery.count.limit": "10"}, "h": {}}},
            Settings(7, None, {"g": 10}),
        ),
        ({"configs": {1: {LIMIT: "7"}, 2: {LIMIT: "5"}}}, Settings(None, None, {})),
        ({"configs": {1: {LIMIT: "7"}}, "forbidden": ["list groups"]}, Settings(None, None, None)),
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
def test_a_delivery_limit_is_known_or_unknown_and_never_a_default(reported: Any, settings: Settings) -> None:
    found = facts(known=[topic(OFFSETS, (1, 2), "o" * 22)], features={1: 30, 2: 30}, **reported)
    assert found.state_settings == settings
    option = settle(AuditOptions(lake="lake", share_delivery_count_limit=9), 0, found).states
    assert option == settings._replace(delivery_count_limit=settings.delivery_count_limit or 9)
    assert settle(AuditOptions(lake="lake", share_delivery_count_limit=9), 0).states == Settings(9)
    differ = [note for note in found.notes if note.startswith(LIMIT)]
    assert differ == [f"{LIMIT} differs between brokers (5, 7): how often share groups try is unknown"] * (
        len(reported.get("configs", {})) > 1
    )


@pytest.mark.parametrize(
    ("minutes", "ms"),
    [("abc", "abc"), ("1.5", "1.5"), ("0", "-1"), ("2147483648", "9223372036854775808"), ("9" * 400, "9" * 400)],
)
def test_a_number_that_no_broker_has_is_passed_over(minutes: str, ms: str) -> None:
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


def test_a_delete_retention_of_nothing_is_one() -> None:
    reported = facts(topic_configs={"delete.retention.ms": "0"})
    assert reported.delete_retention_ms == 0
    options = AuditOptions(lake="lake", segments=[])
    assert settle(options, 0, reported).delete_retention_ms == 0
    assert settle(options, 0, None).delete_retention_ms == 24 * 3_600_000


ALL = {
    "configs": {1: {"offsets.retention.minutes": "1"}},
    "topic_configs": {"delete.retention.ms": "5"},
    "group_configs": {"g": {"consumer.session.timeout.ms": "60000"}, "h": {"consumer.session.timeout.ms": "1"}},
}
G_NOTE, H_NOTE = (f"group {g}: consumer.session.timeout.ms = {v} (group config)" for g, v in (("g", 60000), ("h", 1)))


@pytest.mark.parametrize(
    ("forbidden", "left", "notes"),
    [
        (
            (BROKER, "1"),
            (None, 5),
            [
                "offsets.retention.minutes of the brokers is unknown: grant DESCRIBE_CONFIGS on cluster kafka-cluster",
                G_NOTE,
                H_NOTE,
            ],
        ),
        (
            (TOPIC, OFFSETS),
            (60_000, None),
            [
                "delete.retention.ms of topic __consumer_offsets is unknown: grant DESCRIBE_CONFIGS on topic "
                "__consumer_offsets",
                G_NOTE,
                H_NOTE,
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
                H_NOTE,
                "the configuration of group g is unknown: grant DESCRIBE_CONFIGS on group g",
            ],
        ),
    ],
    ids=["broker", "topic", "list", "group"],
)
def test_facts_that_need_a_missing_acl_are_left_out_and_a_note_names_it(
    forbidden: object, left: tuple[int | None, int | None], notes: list[str]
) -> None:
    reported = facts(forbidden=[forbidden], **ALL)
    assert (reported.offsets_retention_ms, reported.delete_retention_ms) == left
    assert list(reported.notes) == notes
    assert reported.release_version == "4.3"


def test_one_of_several_groups_without_permission_is_named() -> None:
    reported = facts(forbidden=[(GROUP, "g"), (GROUP, "h")], **ALL)
    assert reported.notes == ("the configuration of group g and 1 other is unknown: grant DESCRIBE_CONFIGS on group g",)


def test_brokers_before_4_1_list_no_groups_and_nothing_is_missing() -> None:
    assert facts(lists_groups=False, **ALL).notes == ()


class Throttling(FakeBrokers):
    """They throttle whoever asks for configurations."""

    def send(self, request: Any, node_id: int | None = None, *, timeout_ms: int | None = None) -> Any:
        raise Throttled("for too long")


def test_brokers_that_throttle_us_are_not_taken_for_old_ones() -> None:
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


def test_some_of_many_groups_with_configs_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_facts, "GROUPS_REPORTED", 2)
    monkeypatch.setattr(cluster_configs, "AT_ONCE", 3)
    groups = {f"g{number}": {"share.session.timeout.ms": str(number)} for number in range(7)}
    brokers = FakeBrokers(group_configs=groups)
    reported = cluster_facts.cluster_facts(brokers)
    assert reported.notes == (
        "group g0: share.session.timeout.ms = 0 (group config)",
        "group g1: share.session.timeout.ms = 1 (group config)",
        "5 more groups have their own configuration",
    )
    # Itself, the offsets topic, and three lots of groups.
    assert [each[0] for each in brokers.asked].count("DescribeConfigsRequest") == 5


def test_brokers_that_lead_offsets_partitions_are_asked_and_where_they_differ_it_is_reported() -> None:
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


def test_a_broker_that_is_down_is_left_out() -> None:
    configs = {node: {"offsets.retention.minutes": "9"} for node in (2, 3)}
    reported = facts(known=[topic(OFFSETS, (2, 3))], features={2: 29, 3: 30}, configs=configs, down=[2])
    assert (reported.release_version, reported.offsets_retention_ms) == ("4.3", 9 * 60_000)
    assert reported.notes == (
        "broker 2 reported neither its release nor its configuration: broker 2 has not answered in 15 s: it does not",
    )


def test_all_brokers_are_asked_if_partitions_have_no_leader_or_the_topic_is_hidden() -> None:
    for known in ([topic(OFFSETS, (None,))], []):
        brokers = FakeBrokers(known=known, features={1: 30, 2: 30})
        assert cluster_facts.cluster_facts(brokers).release_version == "4.3"
        assert {each[1] for each in brokers.asked if each[0] == "DescribeConfigsRequest"} == {1, 2, None}
