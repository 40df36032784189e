"""`kafka-raw` against a real broker: every record of the log, and no secret in anything that Spark tells."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import read_segment
from kgroups_spark.sources.segments import find_partitions
from kgroups_spark.storage.files import open_file
from tests.broker.brokers import Brokers, Security
from tests.broker.small_log import copy_of_log, fill

PASSWORD = "raw-s3cret/with=odd+letters"


def test_all_records_come_and_no_secret_goes(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    security = Security(listeners=("SASL_SSL",), users={"auditor": PASSWORD})
    with Brokers("4.3.1", tmp_path_factory.mktemp("raw") / "brokers", security=security) as brokers:
        fill(brokers.address)
        assert brokers.certificates is not None
        properties = tmp_path / "client.properties"
        properties.write_text(
            "security.protocol=SASL_SSL\n"
            "sasl.mechanism=SCRAM-SHA-512\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={brokers.certificates.authority}\n"
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="auditor" password="{PASSWORD}";\n'
        )
        command = [sys.executable, "-m", "tests.broker.raw_reads", brokers.addresses("SASL_SSL"), str(properties)]
        said = subprocess.run([*command, str(tmp_path / "events")], capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stderr[-3000:]
        there = records_in(copy_of_log(brokers.nodes, tmp_path / "copy"))
    assert f"records={there}\n" in said.stdout
    assert "refused=" in said.stdout and "the cluster has no topic nowhere" in said.stdout
    assert "BatchScan kafka-raw" in said.stdout
    events = b"".join(file.read_bytes() for file in (tmp_path / "events").rglob("*") if file.is_file())
    assert b"SparkListenerSQLExecutionStart" in events
    told = said.stdout + said.stderr + events.decode(errors="replace")
    for form in (PASSWORD, quote(PASSWORD, safe=""), base64.b64encode(PASSWORD.encode()).decode()):
        assert form not in told
    assert "ScramLoginModule" not in told


def records_in(log: Path) -> int:
    """Of __consumer_offsets, control records included."""
    count = 0
    for copy in find_partitions([str(log)]):
        for segment in copy.segments:
            with open_file(segment.path) as file:
                count += sum(len(item) for item in read_segment(file) if isinstance(item, RecordColumns))
    return count
