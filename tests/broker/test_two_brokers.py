"""Audits of two brokers, of which one restarts, gives leadership back or is away: partitions are read wherever they
are, and those that are nowhere are named. And what two brokers with two settings say."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from kgroups_spark.audit.cluster_facts import cluster_facts
from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.cluster.cluster import Cluster
from tests.broker.brokers import Brokers, until
from tests.broker.live_audits import (
    OFFSETS_TOPIC,
    SMALL_ANSWERS,
    at_fetch,
    copy_audit,
    copy_of_log,
    fill,
    last_finished,
    live_audit,
    of_the_log,
)
from tests.broker.members import SILENT
from tests.nights.lakes import assert_every_record_is_in_one_table

pytestmark = pytest.mark.in_turn("leaders that move")

# Node ids by partition, the preferred leader first. One partition is on the second broker alone.
REPLICAS = [[1, 2], [2, 1], [1, 2], [2]]
MOVING, ALONE = 1, 3
# By partition, when the second broker has been away and nothing has been elected since.
AFTER_A_RESTART = [1, 1, 1, 2]
# A broker that comes back is let in when the session that it had before has ended.
SESSION = {"broker.session.timeout.ms": "9000"}
# offsets.retention.minutes of the first and the second.
RETENTION = (77, 66)
SHORTEST_MS = 66 * 60_000


@dataclass(frozen=True)
class TwoBrokers:
    """`expected`: what an undisturbed audit of a copy of their log says."""

    brokers: Brokers
    expected: dict[str, list[str]]

    @property
    def admin(self):
        return AdminClient({"bootstrap.servers": self.brokers.address}, logger=SILENT)

    def leaders(self):
        """By partition, as a broker says; -1: none."""
        partitions = self.admin.list_topics(OFFSETS_TOPIC, timeout=30).topics[OFFSETS_TOPIC].partitions
        return [each.leader for _, each in sorted(partitions.items())]

    def await_replicas(self):
        """Until either broker could lead."""

        def are_there():
            partitions = self.admin.list_topics(OFFSETS_TOPIC, timeout=30).topics[OFFSETS_TOPIC].partitions
            return all(sorted(partitions[number].isrs) == sorted(nodes) for number, nodes in enumerate(REPLICAS))

        until("all replicas are in sync", are_there)

    def restart_the_second(self):
        """Unless the first leads wherever it may."""
        self.await_replicas()
        if self.leaders() != AFTER_A_RESTART:
            self.brokers.nodes[1].restart()
            self.await_replicas()
        assert self.leaders() == AFTER_A_RESTART

    def elect_preferred(self):
        """The moving partition's."""
        place, admin = TopicPartition(OFFSETS_TOPIC, MOVING), self.admin
        admin.elect_leaders(ElectionType.PREFERRED, [place]).result(30)
        until("the preferred replica leads", lambda: self.leaders()[MOVING] == REPLICAS[MOVING][0])


@pytest.fixture(scope="module")
def cluster(local, tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    settings = {**SMALL_ANSWERS, **SESSION, "auto.leader.rebalance.enable": "false"}
    brokers = Brokers("4.3.1", folder / "brokers", settings, nodes=2)
    for node, minutes in zip(brokers.nodes, RETENTION, strict=True):
        node.properties["offsets.retention.minutes"] = str(minutes)
    with brokers:
        make_topic_of_replicas(brokers.address)
        fill(brokers.address, replicas=2)
        copy = copy_of_log(brokers.nodes, folder / "copy")
        expected = copy_audit(local, folder / "undisturbed", copy, retention_ms=SHORTEST_MS)
        yield TwoBrokers(brokers, expected)


@pytest.fixture
def both(cluster):
    """Both are up, whatever a test before this one left behind."""
    for node in cluster.brokers.nodes:
        if node.state() != "up":
            node.stop()
            node.start()
    return cluster


def make_topic_of_replicas(address):
    """No topic begins with partitions of different numbers of replicas."""
    admin = AdminClient({"bootstrap.servers": address}, logger=SILENT)
    two_each = [*REPLICAS[:ALONE], [2, 1]]
    topic = NewTopic(OFFSETS_TOPIC, len(REPLICAS), replica_assignment=two_each, config={"cleanup.policy": "compact"})
    admin.create_topics([topic])[OFFSETS_TOPIC].result(30)
    request = AlterPartitionReassignmentsRequest
    of_topic = request.ReassignableTopic
    alone = of_topic(
        name=OFFSETS_TOPIC, partitions=[of_topic.ReassignablePartition(partition_index=ALONE, replicas=REPLICAS[ALONE])]
    )
    with Cluster(client_properties(address, {})) as cluster:
        answer = cluster.send(request(topics=[alone]))
    assert answer.error_code == answer.responses[0].partitions[0].error_code == 0


def assert_undisturbed(lake, both):
    assert of_the_log(lake) == both.expected
    assert_every_record_is_in_one_table(lake)


def test_two_brokers_with_two_retentions(both):
    with Cluster(client_properties(both.brokers.address, {})) as cluster:
        until("both lead offsets partitions", lambda: set(both.leaders()) == {1, 2})
        reported = cluster_facts(cluster)
    assert reported.offsets_retention_ms == SHORTEST_MS
    assert reported.notes == (
        "offsets.retention.minutes differs: 77 on broker 1, 66 on broker 2; the shortest is used for all partitions",
    )


def test_a_broker_restarts_and_another_one_leads(local, both, tmp_path):
    both.await_replicas()
    if both.leaders()[MOVING] == 1:
        both.elect_preferred()
    with at_fetch(2, both.brokers.nodes[1].restart, MOVING):
        live_audit(local, tmp_path / "lake", both.brokers.address)
    assert both.leaders() == AFTER_A_RESTART
    assert_undisturbed(tmp_path / "lake", both)


def test_a_partition_without_a_leader_is_left_to_the_audit_that_finds_one(local, both, tmp_path):
    """Its leader is lost while one audit reads it, and is away when the next one begins, in a lake of its own."""
    lost, away, second = tmp_path / "lost", tmp_path / "away", both.brokers.nodes[1]
    both.restart_the_second()
    with at_fetch(1, second.stop, ALONE):
        live_audit(local, lost, both.brokers.address, properties={"default.api.timeout.ms": "4000"})
    left = f"partition {ALONE} is left to the next audit: {OFFSETS_TOPIC}-"
    assert [note for note in last_finished(lost)["notes"] if note.startswith(left)] != []
    assert_all_but_one_partition(lost, both)
    until("a partition has no leader", lambda: both.leaders()[ALONE] == -1)
    # A broker that is away does not report its retention: the audit is given one.
    options = {"retention_ms": SHORTEST_MS, "properties": {"default.api.timeout.ms": "3000"}}
    live_audit(local, away, both.brokers.address, **options)
    notes = last_finished(away)["notes"]
    assert f"not read, their leaders did not answer: partition {ALONE}: LEADER_NOT_AVAILABLE" in notes
    assert_all_but_one_partition(away, both)
    second.start()
    until("it has a leader again", lambda: both.leaders()[ALONE] == 2)
    for lake in (lost, away):
        live_audit(local, lake, both.brokers.address)
        assert_undisturbed(lake, both)


def assert_all_but_one_partition(lake, both):
    other = f"('offsets_partition', {ALONE})"
    assert of_the_log(lake) == {name: [row for row in rows if other not in row] for name, rows in both.expected.items()}
    assert_every_record_is_in_one_table(lake)


def test_leadership_moves_between_running_brokers(local, both, tmp_path):
    both.restart_the_second()
    with at_fetch(2, both.elect_preferred, MOVING):
        live_audit(local, tmp_path / "lake", both.brokers.address)
    assert_undisturbed(tmp_path / "lake", both)
