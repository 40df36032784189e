"""Clusters that do not let an audit in, or not everywhere: one line that says why, before Spark starts, and no lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kgroups_spark.cluster.client_properties import client_properties
from kgroups_spark.cluster.cluster import Cluster
from tests.broker.brokers import Brokers, Security, until
from tests.broker.live_audits import AuditCommand, last_finished
from tests.broker.members import SILENT
from tests.broker.small_log import GROUPS, OFFSETS_TOPIC, PARTITIONS, TOPIC, commit_all, make_topic
from tests.nights.lakes import rows

MODULES = "org.apache.kafka.common.security"
# Passwords by what their users may do.
PASSWORDS = {"nobody": "nobody-s3cret", "seer": "seer-s3cret", "reader": "reader-s3cret"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """A broker with TLS and passwords, which lets `seer` describe the offsets topic and `reader` read it."""
    security = Security(users=PASSWORDS, acls=True)
    with Brokers("4.3.1", tmp_path_factory.mktemp("guarded") / "brokers", security=security) as brokers:
        make_topic(brokers.address)
        commit_all(brokers.address, 100, GROUPS, times=1)
        allow(brokers, "seer", AclOperation.DESCRIBE)
        allow(brokers, "reader", AclOperation.READ)
        yield brokers


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit that starts Spark fails."""

    def start_spark(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("kgroups_spark.cli.audit.start_engine", start_spark)


def allow(brokers: Brokers, user: str, operation: AclOperation) -> None:
    """On the offsets topic; waits until it holds."""
    admin = AdminClient({"bootstrap.servers": brokers.address}, logger=SILENT)
    rule = AclBinding(
        ResourceType.TOPIC,
        OFFSETS_TOPIC,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([rule])[rule].result(30)
    client = client_properties(brokers.addresses("SASL_SSL"), as_user(brokers, user))
    with Cluster(client) as cluster:
        until(f"{user} may {operation}", lambda: cluster.topics([OFFSETS_TOPIC])[OFFSETS_TOPIC].error is None)


def as_user(
    brokers: Brokers, user: str, mechanism: str = "SCRAM-SHA-512", password: str | None = None
) -> dict[str, str]:
    assert brokers.certificates is not None
    module = f"{MODULES}.plain.PlainLoginModule" if mechanism == "PLAIN" else f"{MODULES}.scram.ScramLoginModule"
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(brokers.certificates.authority),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password or PASSWORDS[user]}";',
    }


@pytest.mark.usefixtures("no_spark")
class TestRefused:
    @pytest.fixture(autouse=True)
    def command(self, guarded: Brokers, tmp_path: Path, audit_command: AuditCommand) -> None:
        self.brokers, self.lake, self.run = guarded, tmp_path / "lake", audit_command

    def refused(self, address: str, properties: dict[str, str]) -> str:
        """The last line of an audit that the cluster does not let in."""
        said = self.run(self.lake, address, properties=properties)
        assert said.code == 1
        first, line = said.lines
        assert first == f"connecting to {address}"
        assert line.startswith("kgroups: ")
        assert [password for password in (*PASSWORDS.values(), "wr0ng-s3cret") if password in line] == []
        assert not self.lake.exists()
        return line

    def test_nothing_is_allowed(self) -> None:
        line = self.refused(self.brokers.addresses("SASL_SSL"), as_user(self.brokers, "nobody"))
        assert line == f"kgroups: not authorized: grant DESCRIBE on topic {OFFSETS_TOPIC}"

    def test_the_topic_may_be_described_but_not_read(self) -> None:
        line = self.refused(self.brokers.addresses("SASL_SSL"), as_user(self.brokers, "seer"))
        assert line == f"kgroups: not authorized: grant READ on topic {OFFSETS_TOPIC}"


@pytest.mark.usefixtures("commands_have_the_session")
def test_an_audit_that_may_only_read_the_topic_notes_the_missing_permissions(guarded, tmp_path, audit_command):
    lake = tmp_path / "lake"
    said = audit_command(lake, guarded.addresses("SASL_SSL"), properties=as_user(guarded, "reader"))
    assert said.code == 0
    assert len(rows(lake, "committed_offsets")) == len(GROUPS) * PARTITIONS
    needed = "grant {}"
    missing = {
        "offsets.retention.minutes of the brokers is unknown": "DESCRIBE_CONFIGS on cluster kafka-cluster",
        f"delete.retention.ms of topic {OFFSETS_TOPIC} is unknown": f"DESCRIBE_CONFIGS on topic {OFFSETS_TOPIC}",
        "the configuration of single groups is unknown": "DESCRIBE_CONFIGS on cluster kafka-cluster",
        "log start and end of 1 topic with committed offsets are unknown": f"DESCRIBE on topic {TOPIC}",
    }
    notes = last_finished(lake)["notes"]
    for what, acl in missing.items():
        note = f"{what}: {needed.format(acl)}"
        assert note in notes
        assert any(note in line for line in said.lines)
    assert {row["status"] for row in rows(lake, "topic_offsets")} == {"not_authorized"}
