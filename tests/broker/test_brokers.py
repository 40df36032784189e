"""The brokers of the tests are real ones, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.broker.brokers import BrokerDied, Brokers, listens, until

ROOT = Path(__file__).parents[2]


def test_a_broker_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(BrokerDied, match=r"group\.consumer\.heartbeat\.interval\.ms"),
        Brokers("4.3.1", tmp_path / "brokers", {"group.consumer.heartbeat.interval.ms": "soon"}),
    ):
        pass
    assert not (tmp_path / "brokers").exists()


def test_a_broker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    serve = subprocess.Popen(
        [sys.executable, "-m", "tests.broker.serve"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert serve.stdout is not None
    with serve.stdout:
        port = next(int(line.rsplit(":", 1)[1]) for line in serve.stdout if line.startswith("PLAINTEXT"))
        assert listens(port)
        serve.send_signal(signal.SIGKILL)
        serve.wait()
    until("broker and folder are gone", lambda: not listens(port) and not list(tmp_path.iterdir()))


@pytest.mark.soak
def test_a_broker_is_up_again_after_kill_and_restart(kafka_4_3: Brokers) -> None:
    cluster = kafka_4_3.broker
    admin = AdminClient({"bootstrap.servers": kafka_4_3.address})
    before = admin.list_topics(timeout=30).cluster_id
    cluster.kill()
    with pytest.raises(BrokerDied, match="stopped"):
        kafka_4_3.check()
    cluster.start()
    assert admin.list_topics(timeout=30).cluster_id == before == kafka_4_3.cluster_id
