"""Real brokers report facts about themselves and the ends of topics, but for those that an authorizer forbids."""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kgroups_spark.audit.cluster_facts import cluster_facts, topic_offsets
from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.cluster.cluster import Cluster
from kgroups_spark.replay.state_logs import ClusterFact
from tests.broker.answers import Asking, log_offsets
from tests.broker.brokers import Brokers, Security, until
from tests.broker.lab import lab_of
from tests.broker.live_audits import last_finished
from tests.broker.members import SILENT
from tests.chosen import one_of
from tests.nights.lakes import rows

OFFSETS = "__consumer_offsets"
GROUP = "group with configs"
RETENTION = {"offsets.retention.minutes": "77", "log.cleaner.delete.retention.ms": "123456"}
GROUP_CONFIG = ClusterFact("group_config", "consumer.session.timeout.ms", "50000", "set", group_id=GROUP)

# Clusters of 3.9.2: their properties, and the release that they should be given.
OLD = {
    "3.9.2": ({}, "3.9"),
    "3.9.2 with Java's coordinator": ({"group.coordinator.rebalance.protocols": "classic,consumer"}, "3.9-java"),
    "3.9.2 with the internal switch": ({"group.coordinator.new.enable": "true"}, "3.9-java"),
}


@contextmanager
def cluster(release, folder, properties, topics, **more):
    """With these topics of two partitions, from which a group has read."""
    with (
        Brokers(release, folder / "brokers", {**RETENTION, **properties}, **more) as brokers,
        lab_of(brokers) as lab,
    ):
        for name in topics:
            lab.alter("g", {lab.topic(name, 2, records=20)[0]: 5})
        yield lab


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """With ACLs, and a configuration of a group."""
    security = Security(listeners=("SASL_SSL",), acls=True)
    with cluster("4.3.1", tmp_path_factory.mktemp("acls"), {}, ("t", "u"), security=security) as lab:
        lab.group_setting(GROUP, "consumer.session.timeout.ms", 50_000)
        yield lab


@pytest.fixture(scope="module", params=["4.3", *one_of(*OLD)])
def asked(request, tmp_path_factory):
    """A cluster, and the release that it should be given."""
    if request.param not in OLD:
        yield request.getfixturevalue("secured"), request.param
        return
    properties, expected = OLD[request.param]
    with cluster("3.9.2", tmp_path_factory.mktemp("facts"), properties, ("t",)) as lab:
        yield lab, expected


def cluster_of(lab):
    return Cluster(client_properties(lab.address, {}))


def test_facts_that_a_cluster_reports_of_itself(asked):
    lab, expected = asked
    with cluster_of(lab) as cluster:
        reported = cluster_facts(cluster)
        ids = {name: topic.topic_id for name, topic in cluster.topics().items()}
    assert reported.release_version == expected
    assert reported.release_evidence.startswith(f"release {expected}: the software supports metadata.version ")
    assert (reported.offsets_retention_ms, reported.delete_retention_ms) == (77 * 60_000, 123_456)
    assert reported.cluster_id == lab.brokers.cluster_id
    assert set(reported.topic_ids) == {(topic_id, name) for name, topic_id in ids.items()}
    assert ids == Asking(lab.clients).topic_ids
    assert reported.notes == ()
    of_groups = [each for each in reported.rows if each.kind == "group_config"]
    assert of_groups == ([] if lab.brokers.security is None else [GROUP_CONFIG])
    leaders = {each.value for each in reported.rows if each.kind == "leader"}
    assert leaders == {lab.address}
    retention = [each.value for each in reported.rows if each.name == "offsets.retention.minutes"]
    assert retention == ["77"]


def test_ends_of_topics_equal_those_of_the_admin_client(asked):
    lab, _ = asked
    admin = AdminClient({"bootstrap.servers": lab.address}, logger=SILENT)
    admin.delete_records([TopicPartition("t", 0, 3)])[TopicPartition("t", 0)].result(30)
    committed = [("t", 0), ("t", 9), ("never made", 0), ("no topic's name!", 1)]
    with cluster_of(lab) as cluster:
        found = list(topic_offsets(cluster, committed))
        topic_id = cluster.topics(["t"])["t"].topic_id
    assert [tuple(row) for row in found] == [
        ("never made", None, 0, None, None, "unknown_topic"),
        ("no topic's name!", None, 1, None, None, "unknown_topic"),
        ("t", topic_id, 0, 3, 20, "ok"),
        ("t", topic_id, 1, 0, 20, "ok"),
        ("t", topic_id, 9, None, None, "unknown_topic"),
    ]
    assert log_offsets(lab.clients, [("t", 0), ("t", 1)]) == {("t", 0): (3, 20), ("t", 1): (0, 20)}


def test_a_deleted_topic_is_unknown_and_the_question_does_not_create_it_again(asked):
    lab, _ = asked
    lab.topic("short-lived", 1)
    lab.delete_topic("short-lived")
    until("the topic is gone", lambda: "short-lived" not in lab.admin.listTopics().names().get())
    with cluster_of(lab) as cluster:
        (row,) = topic_offsets(cluster, [("short-lived", 0)])
        assert row.status == "unknown_topic"
        assert "short-lived" not in cluster.topics()


def test_the_end_is_the_high_watermark_not_that_of_an_open_transaction(asked):
    lab, _ = asked
    lab.topic("in-transaction", 1, records=4)
    transaction = lab.transactions("p")
    transaction.begin()
    transaction.producer.produce("in-transaction", "open", partition=0)
    assert transaction.producer.flush(30) == 0
    with cluster_of(lab) as cluster:
        (row,) = topic_offsets(cluster, [("in-transaction", 0)])
    transaction.abort()
    assert (row.log_start_offset, row.log_end_offset, row.status) == (0, 5, "ok")


def of_auditor(brokers):
    """The properties of its client."""
    ((name, password),) = brokers.security.users.items()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{module} required username="{name}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(brokers.certificates.authority),
    }


def acl(resource, name, operation):
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    return AclBinding(resource, name, literal, "User:auditor", "*", operation, allow)


CONFIGS = AclOperation.DESCRIBE_CONFIGS
# All that an audit needs, and the extras.
ACLS = {
    "READ on the offsets topic": acl(ResourceType.TOPIC, OFFSETS, AclOperation.READ),
    "DESCRIBE on topics": acl(ResourceType.TOPIC, "*", AclOperation.DESCRIBE),
    "DESCRIBE_CONFIGS on the cluster": acl(ResourceType.BROKER, "kafka-cluster", CONFIGS),
    "DESCRIBE_CONFIGS on the offsets topic": acl(ResourceType.TOPIC, OFFSETS, CONFIGS),
    "DESCRIBE_CONFIGS on groups": acl(ResourceType.GROUP, "*", CONFIGS),
}
ANYTHING = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


def allow(lab, bindings):
    """The ACLs of the cluster are these, and the broker knows."""
    admin = AdminClient({"bootstrap.servers": lab.address}, logger=SILENT)
    for deleted in admin.delete_acls([ANYTHING]).values():
        deleted.result(30)
    for made in admin.create_acls(bindings).values() if bindings else ():
        made.result(30)
    until("the ACLs", lambda: set(admin.describe_acls(ANYTHING).result(30)) == set(bindings))


def asked_by_auditor(lab):
    address = lab.brokers.addresses("SASL_SSL")
    with Cluster(client_properties(address, of_auditor(lab.brokers))) as cluster:
        found = topic_offsets(cluster, [("t", 0), ("u", 0), ("gone", 0)])
        ends = {row.topic: (row.log_end_offset, row.status) for row in found if row.partition == 0}
        return cluster_facts(cluster), ends


WHOLE = {"t": (20, "ok"), "u": (20, "ok"), "gone": (None, "unknown_topic")}


def test_with_all_acls_nothing_is_missing(secured):
    allow(secured, list(ACLS.values()))
    reported, ends = asked_by_auditor(secured)
    assert reported.release_version == "4.3"
    assert (reported.offsets_retention_ms, reported.delete_retention_ms) == (77 * 60_000, 123_456)
    assert {name for _, name in reported.topic_ids} == set(Asking(secured.clients).topic_ids)
    assert reported.notes == () and GROUP_CONFIG in reported.rows
    assert ends == WHOLE


def test_topics_that_may_not_be_described_are_not_taken_for_gone(secured):
    but_topics = [binding for name, binding in ACLS.items() if name != "DESCRIBE on topics"]
    allow(secured, [*but_topics, acl(ResourceType.TOPIC, "t", AclOperation.DESCRIBE)])
    reported, ends = asked_by_auditor(secured)
    # A client that may not describe a topic does not learn whether it exists.
    assert ends == {"t": (20, "ok"), "u": (None, "not_authorized"), "gone": (None, "not_authorized")}
    assert {name for _, name in reported.topic_ids} == {"t", OFFSETS}


@pytest.mark.parametrize(("allowed", "grant"), [([], "DESCRIBE"), ([AclOperation.DESCRIBE], "READ")])
def test_an_audit_that_may_not_read_the_topic_is_refused_before_spark_starts(
    secured, tmp_path, audit_command, allowed, grant
):
    allow(secured, [acl(ResourceType.TOPIC, OFFSETS, operation) for operation in allowed])
    address = secured.brokers.addresses("SASL_SSL")
    with mock.patch("kgroups_spark.cli.audit.start_engine", side_effect=AssertionError("Spark was started")):
        code, lines = audit_command(tmp_path / "lake", address, properties=of_auditor(secured.brokers))
    refused = f"kgroups: not authorized: grant {grant} on topic {OFFSETS}"
    assert (code, lines) == (1, [f"connecting to {address}", refused])
    assert not (tmp_path / "lake").exists()


@pytest.mark.usefixtures("commands_have_the_session")
def test_an_audit_that_may_only_read_the_topic_notes_the_missing_permissions(secured, tmp_path, audit_command):
    allow(secured, [ACLS["READ on the offsets topic"]])
    lake, address = tmp_path / "lake", secured.brokers.addresses("SASL_SSL")
    code, lines = audit_command(lake, address, properties=of_auditor(secured.brokers))
    assert code == 0
    assert len(rows(lake, "committed_offsets")) > 0
    for note in (
        "offsets.retention.minutes of the brokers is unknown: grant DESCRIBE_CONFIGS on cluster kafka-cluster",
        f"delete.retention.ms of topic {OFFSETS} is unknown: grant DESCRIBE_CONFIGS on topic {OFFSETS}",
        "the configuration of single groups is unknown: grant DESCRIBE_CONFIGS on cluster kafka-cluster",
    ):
        assert note in last_finished(lake)["notes"]
        assert any(note in line for line in lines)
    assert {row["status"] for row in rows(lake, "topic_offsets")} == {"not_authorized"}
