"""A share group of Kafka 4.4 that rejects, releases and times out until its limit, with a dead-letter queue:
each record that it gave up is there once, with its reason, and nothing else."""

from __future__ import annotations

import pytest

import kgroups_spark
from kgroups_spark.audit.options import STATE_LOGS
from tests.broker.brokers import Brokers, until
from tests.broker.lab import lab_of
from tests.broker.live_audits import live_audit

pytestmark = pytest.mark.in_turn("dead letters")

TOPIC, QUEUE, GROUP, LIMIT = "letters", "dlq.letters", "workers", 3
# Offsets of 12 records: released until the limit, rejected, left once until their lock times out, left so until the
# limit; the last two are accepted.
RELEASED, REJECTED, LEFT, TIMED_OUT = range(4), range(4, 6), range(6, 8), range(8, 10)
LOCK_MS = 2_000
PROPERTIES = {"unstable.api.versions.enable": "true", "group.share.min.record.lock.duration.ms": str(LOCK_MS)}


@pytest.fixture(scope="module")
def lake(local, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dead_letters")
    with Brokers("4.4.0", folder / "brokers", PROPERTIES) as brokers, lab_of(brokers) as lab:
        upgrade = ("--bootstrap-server", brokers.address, "upgrade", "--feature", "share.version=2")
        lab.clients.tool("FeatureCommand", *upgrade)
        lab.topic(TOPIC, 1, records=12)
        lab.topic(QUEUE, 1)
        settings = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": LIMIT}
        settings |= {"share.record.lock.duration.ms": LOCK_MS, "errors.deadletterqueue.topic.name": QUEUE}
        for name, value in settings.items():
            lab.group_setting(GROUP, name, value)
        work(lab)
        live_audit(local, folder / "lake", lab.address, include=STATE_LOGS, as_of=None)
        yield str(folder / "lake")


def work(lab):
    """Until the records that are released have been given up, and those left were delivered again and accepted."""
    more = {"share_acknowledgement_mode": "explicit", "max_poll_records": 50}
    consumer = lab.clients.consumer("KafkaShareConsumer", group_id=GROUP, client_id="worker", **more)
    consumer.subscribe([TOPIC])
    kinds = lab.clients.kafka.clients.consumer.AcknowledgeType
    deliveries: dict[int, int] = {}

    def has_finished():
        late = []
        for record in list(consumer.poll(lab.clients.jvm.java.time.Duration.ofMillis(300)).iterator()):
            offset = record.offset()
            deliveries[offset] = deliveries.get(offset, 0) + 1
            if offset in TIMED_OUT or (offset in LEFT and deliveries[offset] == 1):
                late.append(record)
                continue
            kind = kinds.RELEASE if offset in RELEASED else kinds.REJECT if offset in REJECTED else kinds.ACCEPT
            consumer.acknowledge(record, kind)
        consumer.commitSync()
        if late:
            lab.clients.sleep(2 * LOCK_MS / 1000)
        for record in late:
            consumer.acknowledge(record, kinds.ACCEPT)
        consumer.commitSync()  # too late: refused, or without effect
        given_up = (*RELEASED, *TIMED_OUT)
        return all(deliveries.get(offset, 0) >= LIMIT for offset in given_up) and len(deliveries) == 12

    until("the group has given up what it could not process", has_finished)
    consumer.close()
    lab.await_group(GROUP, "share", "Empty", 0)


def asked(lake, query):
    return kgroups_spark.open_lake(lake).rows(query)


def test_each_record_that_was_given_up_is_there_once_with_its_reason(lake):
    rows = asked(lake, "SELECT * FROM dead_letters ORDER BY first_offset")
    reasons = {
        offset: (row["reason"], row["queue_topic"])
        for row in rows
        for offset in range(row["first_offset"], row["last_offset"] + 1)
    }
    assert sum(row["records"] for row in rows) == len(reasons)
    used_up = dict.fromkeys((*RELEASED, *TIMED_OUT), ("attempts_used_up", QUEUE))
    assert reasons == used_up | dict.fromkeys(REJECTED, ("rejected_or_gap", QUEUE))
    assert all(row["given_up_at"] is not None and row["topic"] == TOPIC for row in rows)


def test_redeliveries_are_those_of_the_group_at_least(lake):
    [row] = asked(
        lake, "SELECT group_id, sum(redeliveries) AS times, max(delivery_count) AS most FROM redeliveries GROUP BY 1"
    )
    again = (LIMIT - 1) * len((*RELEASED, *TIMED_OUT)) + len(LEFT)
    assert (row["group_id"], row["most"]) == (GROUP, LIMIT)
    assert 0 < row["times"] <= again


def test_nothing_else_is_found(lake):
    found = {row["finding"] for row in asked(lake, "SELECT finding FROM current_findings")}
    assert not found & {"share_window_full", "share_records_archiving", "share_delivery_near_limit"}
    [window] = asked(lake, "SELECT record_locks, is_full FROM share_windows")
    assert (window["record_locks"], window["is_full"]) == (LOCK_MS, False)
