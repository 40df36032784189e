"""Brokers for the tests of this folder, started once for a process of pytest, and their logs in what fails."""

from __future__ import annotations

import json

import pytest

from kgroups_spark.cli import main as cli
from tests.broker.brokers import TWO_PHASE, Brokers
from tests.broker.live_audits import AS_OF


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
    """`kgroups audit` in this process: its exit code, and what it said on stderr, line by line. It starts Spark, but
    where `commands_have_the_session`."""

    def run(lake, address, *options, properties=()):
        """`properties`: of the client."""
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in dict(properties).items()))
        command = ["audit", "--lake", str(lake), "--bootstrap-server", address, "--command-config", str(file)]
        capfd.readouterr()
        code = cli.main([*command, "--as-of", str(AS_OF), "--include", "none", *options])
        out, err = capfd.readouterr()
        assert out == "" and "Traceback" not in err, err
        return code, err.splitlines()

    return run


@pytest.fixture
def json_of(capsys):
    """The rows that a command prints."""

    def run(*words):
        capsys.readouterr()
        assert cli.main([*words, "--format", "json"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


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
