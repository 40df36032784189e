"""The data source kafka-raw over a fake cluster: options, plans, rows, lost offsets."""

from __future__ import annotations

import pickle
from collections import Counter
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource

from kgroups_spark.cluster.live_log import LiveLog, LiveLogs
from kgroups_spark.cluster.requests import PartitionMetadata, TopicMetadata
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.sources.partition_log import LogStartMoved
from kgroups_spark.spark.data_sources import (
    RECORDS,
    FetchedSpans,
    KafkaRawDataSource,
    KafkaSegmentsDataSource,
    parse_options,
    plan_spans,
)
from tests.records.build import KeyValue, batch, message
from tests.sources.fake_cluster import TOPIC_ID, FakeCluster

SERVERS = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t"}


def records(count: int) -> list[KeyValue]:
    return [(b"key %d" % i, b"value") for i in range(count)]


MARKER = [(bytes([0, 0, 0, 1]), bytes(6))]
LOG = [
    message(0, b"old", None, magic=1),
    batch(1, records(3)),
    batch(4, records(2), attributes=0x10, producer_id=7, producer_epoch=2),
    batch(6, MARKER, attributes=0x30, producer_id=7, producer_epoch=3),
    batch(9, records(4)),  # 7 and 8 were compacted away
]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster(list(LOG))
    monkeypatch.setattr("kgroups_spark.cluster.cluster.Cluster", lambda client: nullcontext(fake))
    return fake


def read_parts(options: dict[str, str]) -> list[pa.RecordBatch]:
    """As Spark does it: plan, send the reader and the partitions away, read each."""
    reader = KafkaRawDataSource({**SERVERS, **options}).reader(RECORDS)
    partitions = reader.partitions()
    reader, partitions = pickle.loads(pickle.dumps((reader, partitions)))
    return [part for partition in partitions for part in reader.read(partition)]


def rows(**options: str) -> list[dict[str, Any]]:
    return [row for part in read_parts(options) for row in part.to_pylist()]


def offsets(**options: str) -> list[int]:
    return [row["offset"] for row in rows(**options)]


def test_kafka_raw_equals_kafka_segments(cluster: FakeCluster, tmp_path: Path) -> None:
    segment = tmp_path / "t-0" / f"{0:020}.log"
    segment.parent.mkdir()
    segment.write_bytes(b"".join(LOG))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 13\n")  # confirms the batch after the gap
    reader = KafkaSegmentsDataSource({"path": str(tmp_path), "subscribe": "t"}).reader(RECORDS)
    of_segments = [row for p in reader.partitions() for part in reader.read(p) for row in part.to_pylist()]
    assert rows() == of_segments
    assert [row["control_type"] for row in of_segments].count("COMMIT") == 1


@pytest.mark.parametrize(("start", "end"), [(start, end) for end in (1, 5, 10, 13) for start in range(end + 1)])
@pytest.mark.parametrize("min_partitions", ["0", "3", "50"])
def test_offsets_are_those_asked_for_whatever_the_number_of_tasks(
    cluster: FakeCluster, start: int, end: int, min_partitions: str
) -> None:
    there = [0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 12]
    asked = {"startingOffsets": f'{{"t": {{"0": {start}}}}}', "endingOffsets": f'{{"t": {{"0": {end}}}}}'}
    found = offsets(minPartitions=min_partitions, **asked)
    assert found == [offset for offset in there if start <= offset < end]


class TestDataLoss:
    def test_a_start_before_the_log(self, cluster: FakeCluster) -> None:
        cluster.log_start, cluster.batches = 4, cluster.batches[2:]
        asked = '{"t": {"0": 1}}'
        with pytest.raises(
            KgroupsError, match="t-0 has offsets 4 to 12; startingOffsets asks for 1; failOnDataLoss=false"
        ):
            offsets(startingOffsets=asked)
        assert offsets(startingOffsets=asked, failOnDataLoss="false") == [4, 5, 6, 9, 10, 11, 12]
        assert offsets() == [4, 5, 6, 9, 10, 11, 12]

    def test_offsets_after_the_log(self, cluster: FakeCluster) -> None:
        for name in ("startingOffsets", "endingOffsets"):
            asked = {name: '{"t": {"0": 99}}'}
            with pytest.raises(KgroupsError, match=rf"t-0 has offsets 0 to 12; {name} asks for .*99"):
                offsets(**asked)
        assert offsets(startingOffsets='{"t": {"0": 99}}', failOnDataLoss="false") == []
        assert len(offsets(endingOffsets='{"t": {"0": 99}}', failOnDataLoss="false")) == 11

    @pytest.mark.parametrize("fail_on_data_loss", [True, False])
    def test_a_log_start_that_moves_during_the_read(self, cluster: FakeCluster, fail_on_data_loss: bool) -> None:
        def delete(fake: FakeCluster) -> None:
            fake.log_start, fake.batches = 4, fake.batches[2:]

        cluster.script = [lambda _: None, delete]  # the first one asks whether we may read
        if fail_on_data_loss:
            with pytest.raises(LogStartMoved, match="t-0 starts at offset 4"):
                offsets()
        else:
            assert offsets(failOnDataLoss="false") == [4, 5, 6, 9, 10, 11, 12]

    def test_damage(self, cluster: FakeCluster) -> None:
        broken = cluster.batches[1]
        cluster.batches[1] = broken[:-1] + bytes([broken[-1] ^ 1])
        with pytest.raises(
            KgroupsError, match=r"t-0 at offset 1: \d+ bytes cannot be read: .*CRC.*; failOnDataLoss=false"
        ):
            offsets()
        assert offsets(failOnDataLoss="false") == [0, 4, 5, 6, 9, 10, 11, 12]


class TestTasks:
    """`leaders`: of partitions 0, 1, ..., which have 100 offsets each."""

    def planned(self, monkeypatch: pytest.MonkeyPatch, leaders: list[int], min_partitions: int) -> list[FetchedSpans]:
        metadata = {number: PartitionMetadata(leader, 5, None) for number, leader in enumerate(leaders)}
        topic = TopicMetadata("t", TOPIC_ID, metadata, None)
        fake = FakeCluster([]).as_cluster()
        logs = [LiveLog(fake, topic, number, 0, 100, 5) for number in metadata]
        monkeypatch.setattr("kgroups_spark.cluster.live_log.live_logs", lambda cluster, name: LiveLogs(topic, logs, []))
        return plan_spans(parse_options({**SERVERS, "minPartitions": str(min_partitions)}), fake)

    def test_two_at_most_for_a_broker(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tasks = self.planned(monkeypatch, [1, 2, 1, 1, 3, 1], 0)
        leaders = [{span.piece.leader for span in task.spans} for task in tasks]
        assert all(len(each) == 1 for each in leaders)
        assert Counter(leader for each in leaders for leader in each) == {1: 2, 2: 1, 3: 1}
        assert sorted(span.piece.partition for task in tasks for span in task.spans) == [0, 1, 2, 3, 4, 5]

    def test_more_where_min_partitions_asks_for_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tasks = self.planned(monkeypatch, [1, 1], 7)
        assert len(tasks) >= 7
        for partition in (0, 1):
            pieces = [span.piece for task in tasks for span in task.spans if span.piece.partition == partition]
            assert (pieces[0].start_offset, pieces[-1].end_offset) == (0, 100)
            assert all(one.end_offset == other.start_offset for one, other in pairwise(pieces))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "kafka-raw needs brokers"),
        ({"kafka.bootstrap.servers": "b"}, "a broker must be host:port"),
        ({**SERVERS, "startingOffset": "earliest"}, "no option startingoffset.*did you mean startingOffsets"),
        ({**SERVERS, "assign": '{"t": [0]}'}, "no option assign; use .*subscribe"),
        ({**SERVERS, "includeHeaders": "true"}, "no option includeheaders"),
        ({**SERVERS, "startingOffsets": "latest"}, "startingOffsets is"),
        ({**SERVERS, "endingOffsets": '{"t": {"0": -2}}'}, "endingOffsets has the offset -2"),
        ({**SERVERS, "minPartitions": "-1"}, "minPartitions is a number"),
        ({**SERVERS, "failOnDataLoss": "no"}, "failOnDataLoss is true or false"),
        ({**SERVERS, "kafka.security.protocoll": "SSL"}, "security.protocol"),
        ({**SERVERS, "commandConfig": "nowhere.properties"}, "nowhere.properties"),
        ({**SERVERS, "subscribe": " , "}, "subscribe names no topic"),
        ({**SERVERS, "endingOffsets": '{"tt": {"0": 2}}'}, "for tt, which subscribe does not name; did you mean t"),
        ({**SERVERS, "kafka.ssl.keystore.key": "PEM"}, "kafka.ssl.keystore.key is a secret that Spark can show"),
    ],
)
def test_bad_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_options(options)


def test_a_secret_that_spark_shows_is_refused_before_there_is_a_plan() -> None:
    """CREATE VIEW asks for the schema, and no more."""
    with pytest.raises(UsageError, match="give it in a file, by the option commandConfig") as raised:
        KafkaRawDataSource({**SERVERS, "kafka.ssl.keystore.key": "hush"}).schema()
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("source", [KafkaRawDataSource(SERVERS), KafkaSegmentsDataSource({"path": "x"})])
def test_streams_are_refused(source: DataSource) -> None:
    with pytest.raises(UsageError, match=rf"{source.name()} .*: spark\.read, not spark\.readStream"):
        source.streamReader(RECORDS)


def test_an_unknown_topic_suggests_the_nearest_name(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.topic_error = "UNKNOWN_TOPIC_OR_PARTITION"
    known = {"__consumer_offsets": None, "t": None}
    monkeypatch.setattr(
        cluster,
        "topics",
        lambda names=None: known if names is None else FakeCluster.topics(cluster) | {names[0]: MISSING},
    )
    with pytest.raises(
        UsageError, match=r"the cluster has no topic __consumer_offset; did you mean __consumer_offsets\?"
    ):
        offsets(subscribe="__consumer_offset")


MISSING = TopicMetadata("__consumer_offset", None, {}, "UNKNOWN_TOPIC_OR_PARTITION")


def test_an_unknown_partition_is_refused(cluster: FakeCluster) -> None:
    with pytest.raises(UsageError, match="startingOffsets names partition 3 of t, which has 1"):
        offsets(startingOffsets='{"t": {"3": 0}}')
