"""Brokers for the tests of this folder, started once for a process of pytest, and their logs in what fails."""

from __future__ import annotations

import pytest

from tests.broker.brokers import TWO_PHASE, Brokers
from tests.broker.live_audits import AuditCommand


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failure shows how the logs of the running brokers end."""
    report = yield
    if report.failed:
        for brokers in Brokers.running:
            for node in brokers.nodes:
                report.sections.append((f"Kafka {node.release}, {node.state()}", node.last_words()))
    return report


@pytest.fixture
def audit_command(capfd, tmp_path):
    """It starts Spark, but where `commands_have_the_session`."""
    return AuditCommand(capfd, tmp_path)


@pytest.fixture
def commands_have_the_session(session, monkeypatch):
    """They start none."""
    monkeypatch.setattr("kgroups_spark.cli.audit.start_engine", lambda *_: session)


@pytest.fixture(scope="session")
def kafka_4_3(tmp_path_factory):
    """One broker of 4.3.1, for all tests that do not mind each other's groups."""
    with Brokers("4.3.1", tmp_path_factory.mktemp("kafka") / "brokers", TWO_PHASE) as brokers:
        yield brokers


@pytest.fixture(scope="session")
def kafka_4_4(tmp_path_factory):
    """The same of 4.4.0."""
    with Brokers("4.4.0", tmp_path_factory.mktemp("kafka") / "brokers", TWO_PHASE) as brokers:
        yield brokers


@pytest.fixture(scope="session")
def kafka_3_9(tmp_path_factory):
    """The same of 3.9.2, whose coordinator is Scala's."""
    with Brokers("3.9.2", tmp_path_factory.mktemp("kafka") / "brokers") as brokers:
        yield brokers
