"""Logs that have changed since the last audit: their beginning or end is gone, or they are other logs."""

from __future__ import annotations

import shutil

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType

from kgroups_spark.records.segment import scan_batches
from tests.broker.brokers import Brokers, new_id, until
from tests.broker.live_audits import (
    GROUPS,
    OFFSETS_TOPIC,
    at_fetch,
    commit_all,
    files_of,
    last_finished,
    live_audit,
    make_topic,
)
from tests.broker.members import SILENT
from tests.nights.lakes import assert_every_record_is_in_one_table, rows

pytestmark = pytest.mark.in_turn("logs that change")
by_session = pytest.mark.usefixtures("commands_have_the_session")

# Retention looks at the log as soon as it is set to; by default every five minutes.
RETENTION_AT_ONCE = {"log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "100"}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    with Brokers("4.3.1", tmp_path_factory.mktemp("changing") / "brokers", RETENTION_AT_ONCE) as brokers:
        make_topic(brokers.address)
        yield brokers


def admin_of(brokers):
    return AdminClient({"bootstrap.servers": brokers.address}, logger=SILENT)


def ends(lake):
    """How far the lake has read each partition."""
    return {each["offsets_partition"]: each["end_offset"] for each in last_finished(lake)["partitions"]}


def lost(lake):
    """By partition the offsets that were lost before they were read, as the ledger has them: from, to."""
    partitions = last_finished(lake)["partitions"]
    found = {each["offsets_partition"]: (each["lost_from"], each["lost_to"]) for each in partitions}
    return {number: each for number, each in found.items() if each != (None, None)}


def set_retention(admin, ms):
    """Sets the retention of the offsets topic, which is still compacted."""
    entries = {"cleanup.policy": "compact,delete", "retention.ms": str(ms)}
    configs = [ConfigEntry(*each, incremental_operation=AlterConfigOpType.SET) for each in entries.items()]
    topic = ConfigResource(ResourceType.TOPIC, OFFSETS_TOPIC, incremental_configs=configs)
    admin.incremental_alter_configs([topic])[topic].result(30)


def offsets_of_log(admin, at):
    """Where the partitions start or end."""
    asked = {TopicPartition(OFFSETS_TOPIC, number): at for number in range(4)}
    return {place.partition: future.result(30).offset for place, future in admin.list_offsets(asked).items()}


def delete_all_records(brokers):
    """By retention: DeleteRecords is not allowed in an internal topic."""
    admin = admin_of(brokers)
    ends = offsets_of_log(admin, OffsetSpec.latest())
    set_retention(admin, 1)
    until("all records are gone", lambda: offsets_of_log(admin, OffsetSpec.earliest()) == ends)
    set_retention(admin, -1)


# Spark's tasks beside that one have read their partitions by then.
@by_session
@pytest.mark.parametrize("session", ["local"], indirect=True)
def test_the_logs_start_moves_in_the_middle_and_before_an_audit(session, local, brokers, tmp_path, audit_command):
    lake = tmp_path / "lake"
    commit_all(brokers.address, 100, times=1)
    live_audit(local, lake, brokers.address)
    read = ends(lake)
    commit_all(brokers.address, 200, times=2)
    with at_fetch(1, lambda: delete_all_records(brokers)):
        code, (*_, last) = audit_command(lake, brokers.address, "--strict")
    assert code == 1
    assert last.startswith(f"kgroups: nothing could be read to its end: {OFFSETS_TOPIC}-")
    assert last.endswith("have been deleted")
    assert ends(lake) == read
    starts = offsets_of_log(admin_of(brokers), OffsetSpec.earliest())
    commit_all(brokers.address, 300, times=1)
    code, lines = audit_command(lake, brokers.address, "--strict")
    assert code == 3
    assert lost(lake) == {number: (read[number], start) for number, start in starts.items()}
    for number, start in starts.items():
        note = f"offsets {read[number]} to {start - 1} of partition {number} were gone before they were read"
        assert any(note in line for line in lines), lines
    assert_every_record_is_in_one_table(lake)
    assert audit_command(lake, brokers.address, "--strict")[0] == 0
    assert lost(lake) == {}


@by_session
def test_a_log_that_was_cut_back_is_read_on_from_the_cut(local, brokers, tmp_path, audit_command):
    lake, broker = tmp_path / "lake", brokers.broker
    commit_all(brokers.address, 100, times=2)
    live_audit(local, lake, brokers.address)
    read = ends(lake)
    broker.stop()
    cut_back(broker, GROUPS[0])
    broker.start()
    commit_all(brokers.address, 300, times=1)
    code, lines = audit_command(lake, brokers.address)
    assert code == 0, lines
    (replaced,) = last_finished(lake)["replaced_ranges"]
    assert replaced["to_offset"] == read[replaced["offsets_partition"]]
    assert any(f"partition {replaced['offsets_partition']} was cut back" in line for line in lines), lines
    live_audit(local, tmp_path / "new", brokers.address)
    for name in ("committed_offsets", "groups", "pending_offsets"):
        found = [
            sorted(repr({**row, "audit_id": 0}) for row in rows(folder, name)) for folder in (lake, tmp_path / "new")
        ]
        assert found[0] == found[1]


NO_TOPIC = (
    f"kgroups: the cluster has no topic {OFFSETS_TOPIC}: Kafka creates it when the first consumer group joins or "
    "commits"
)


@by_session
def test_a_log_that_is_not_the_lakes_is_refused_and_nothing_is_written(local, brokers, tmp_path, audit_command):
    """The last test: it begins another cluster."""
    lake, broker = tmp_path / "lake", brokers.broker
    commit_all(brokers.address, 100, times=1)
    live_audit(local, lake, brokers.address)
    before = files_of(lake)

    def assert_refused(why):
        code, (*progress, last) = audit_command(lake, brokers.address)
        assert (code, files_of(lake)) == (2, before)
        assert why in last and "use a new lake" in last
        assert set(progress) <= {"asking the cluster", f"connecting to {brokers.address}"}

    admin = admin_of(brokers)
    topic_id = {row["topic_id"] for row in last_finished(lake)["partitions"]}.pop()
    admin.delete_topics([OFFSETS_TOPIC])[OFFSETS_TOPIC].result(30)
    until("the topic is gone", lambda: OFFSETS_TOPIC not in admin.list_topics(timeout=30).topics)
    code, (*_, last) = audit_command(lake, brokers.address)
    assert (code, last, files_of(lake)) == (2, NO_TOPIC, before)
    make_offsets_topic(brokers)
    assert_refused(f"the lake holds topic id {topic_id}; use a new lake")

    # The same addresses, another cluster.
    broker.stop()
    shutil.rmtree(broker.data)
    broker.format(new_id())
    broker.start()
    make_offsets_topic(brokers)
    assert_refused("kgroups: this is another log: the lake holds cluster ")


def cut_back(broker, group):
    """Takes the last batch from a partition's log, as a broker's disk that lost its latest writes."""
    segment = max(broker.data.glob(f"{OFFSETS_TOPIC}-*/*.log"), key=lambda file: file.stat().st_size)
    with segment.open("rb") as file:
        batches = scan_batches(file)
    with segment.open("r+b") as file:
        file.truncate(int(batches.position[-1]))
    for index in segment.parent.glob("*index"):
        index.unlink()
    (broker.data / ".kafka_cleanshutdown").unlink()


def make_offsets_topic(brokers):
    """As brokers make it when a client asks for a group's coordinator."""
    make_topic(brokers.address, OFFSETS_TOPIC, 4, config={"cleanup.policy": "compact"})
