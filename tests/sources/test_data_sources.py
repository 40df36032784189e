"""The data sources kafka-segments, over folders of segments, and kafka-raw, over a fake cluster."""

from __future__ import annotations

import pickle
from collections import Counter
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.sql.pandas.types import to_arrow_schema

from kgroups_spark.cluster.live_log import LiveLog, LiveLogs
from kgroups_spark.cluster.requests import PartitionMetadata, TopicMetadata
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.sources.partition_log import LogStartMoved
from kgroups_spark.spark.data_sources import (
    BYTES_PER_BATCH,
    RECORDS,
    KafkaRawDataSource,
    KafkaSegmentsDataSource,
    plan_spans,
)
from kgroups_spark.spark.data_sources import (
    parse_options as parse_kafka_options,
)
from kgroups_spark.spark.data_sources import parse_segments_options as parse_options
from tests.records.build import batch, message
from tests.sources.fake_cluster import TOPIC_ID, FakeCluster, records

CAPTURED = Path(__file__).parents[1] / "data" / "segments"


def read(options):
    return [row for part in read_parts(options) for row in part.to_pylist()]


def read_parts(options):
    """As Spark does it: plan, send the reader and the partitions away, read each."""
    source = KafkaSegmentsDataSource(options)
    reader, partitions = pickle.loads(
        pickle.dumps((source.reader(source.schema()), source.reader(RECORDS).partitions()))
    )
    return [part for partition in partitions for part in reader.read(partition)]


def put(folder, topic, partition, *logs):
    base_offset = 0
    for log in logs:
        path = folder / f"{topic}-{partition}" / f"{base_offset:020}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(log)
        base_offset += 10


def test_every_column_of_every_kind_of_record(tmp_path):
    marker = [(bytes([0, 0, 0, 1]), bytes(6))]
    put(
        tmp_path,
        "__consumer_offsets",
        3,
        message(0, b"old", None, magic=0)
        + batch(1, [(b"key", b"")], attributes=0x10, producer_id=7, producer_epoch=2, base_timestamp=1_500)
        + batch(2, marker, attributes=0x30, producer_id=7, producer_epoch=3)
        + batch(3, [(bytes([0, 0, 0, 0]), bytes(6))], attributes=0x30, producer_id=7, producer_epoch=3)
        + batch(4, [(bytes([0, 0, 0, 9]), bytes(6))], attributes=0x20)
        + batch(5, [(None, b"a value of more than twelve bytes")], attributes=0x08, max_timestamp=2_000),
    )
    rows = read({"path": str(tmp_path)})
    place = {"topic": "__consumer_offsets", "partition": 3}
    nothing = dict.fromkeys(RECORDS.names)
    assert rows[0] == {**nothing, **place, "offset": 0, "is_transactional": False, "key": b"old"}
    assert rows[1] == {
        **place,
        "offset": 1,
        "timestamp": datetime.fromtimestamp(1.5, UTC),
        "timestamp_type": 0,
        "leader_epoch": 3,
        "producer_id": 7,
        "producer_epoch": 2,
        "is_transactional": True,
        "control_type": None,
        "key": b"key",
        "value": b"",
    }
    assert [row["control_type"] for row in rows] == [None, None, "COMMIT", "ABORT", "9", None]
    assert (rows[5]["key"], rows[5]["value"]) == (None, b"a value of more than twelve bytes")
    assert (rows[5]["timestamp"], rows[5]["timestamp_type"]) == (datetime.fromtimestamp(2, UTC), 1)


def test_batches_have_the_schema_spark_expects(tmp_path):
    put(tmp_path, "__consumer_offsets", 0, batch(0, [(b"k", b"v")]))
    (part,) = read_parts({"path": str(tmp_path)})
    assert part.schema.equals(to_arrow_schema(RECORDS, timezone="UTC"))  # nullability, too: Spark's worker insists


def test_arrow_batches_end_at_64k_rows(tmp_path):
    put(tmp_path, "t", 0, batch(0, [(b"k", b"v")] * 70_000))
    parts = read_parts({"path": str(tmp_path), "subscribe": "t"})
    assert [part.num_rows for part in parts] == [65_536, 4_464]
    assert [row for part in parts for row in part["offset"].to_pylist()] == list(range(70_000))


def test_arrow_batches_end_at_32_mb(tmp_path):
    put(tmp_path, "t", 0, batch(0, [(b"k%d" % i, bytes(1 << 16)) for i in range(900)], codec=4))
    parts = read_parts({"path": str(tmp_path), "subscribe": "t"})
    assert len(parts) == 2 and sum(part.num_rows for part in parts) == 900
    assert all(part.nbytes < BYTES_PER_BATCH + 1000 for part in parts)


def offsets(folder, **options):
    rows = read({"path": str(folder), "subscribe": "t", **options})
    return [(row["partition"], row["offset"]) for row in rows]


def two_partitions(folder):
    segments = [batch(base, [(b"k", b"v")] * 10) for base in (0, 10, 20, 30)]
    put(folder, "t", 0, *segments)
    put(folder, "t", 1, *segments[:1])
    return folder


def test_starting_and_ending_offsets_by_partition(tmp_path):
    folder = two_partitions(tmp_path)
    given = {"startingOffsets": '{"t": {"0": 8, "1": -2}}', "endingOffsets": '{"t": {"0": 23, "1": 2}}'}
    assert offsets(folder, **given) == [*((0, i) for i in range(8, 23)), (1, 0), (1, 1)]
    assert len(offsets(folder, endingOffsets='{"t": {"0": -1}}')) == 50


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_offsets_of_a_partition_that_does_not_exist_are_refused(tmp_path, name):
    """They would have no effect: a typo reads everything."""
    with pytest.raises(UsageError, match=f"{name} names partition 7 of t, which has 2"):
        plan(two_partitions(tmp_path), **{name: '{"t": {"0": 8, "7": 1}}'})


def plan(folder, **options):
    source = KafkaSegmentsDataSource({"path": str(folder), "subscribe": "t", **options})
    return source.reader(RECORDS).partitions()


@pytest.mark.parametrize(("least", "expected"), [("0", [4, 1]), ("2", [4, 1]), ("4", [1, 1, 1, 1, 1]), ("99", [1] * 5)])
def test_more_spark_partitions_are_cut_between_segments(tmp_path, least, expected):
    folder = two_partitions(tmp_path)
    assert [len(part.span.pieces) for part in plan(folder, minPartitions=least)] == expected
    assert offsets(folder, minPartitions=least) == [*((0, i) for i in range(40)), *((1, i) for i in range(10))]


@pytest.mark.parametrize("least", ["0", "5"])
def test_a_log_that_begins_with_or_consists_of_an_empty_segment(tmp_path, least):
    put(tmp_path, "t", 0, b"")
    put(tmp_path, "t", 1, b"", batch(10, [(b"k", b"v")]))
    assert offsets(tmp_path, minPartitions=least) == [(1, 10)]


def test_segments_outside_the_offsets_are_not_opened(tmp_path):
    (first, _) = plan(two_partitions(tmp_path), startingOffsets='{"t": {"0": 12}}', endingOffsets='{"t": {"0": 20}}')
    assert [Path(piece.path).name for piece in first.span.pieces] == [f"{10:020}.log"]


def test_damage_stops_the_read_unless_reported_otherwise(tmp_path):
    damaged = bytearray(batch(0, [(b"k", b"v")]))
    damaged[66] ^= 1
    put(tmp_path, "t", 0, bytes(damaged) + batch(1, [(b"k", b"v")]))
    with pytest.raises(KgroupsError, match=r"0\.log, byte 0: 70 bytes cannot be read: the CRC .*failOnDataLoss=false"):
        offsets(tmp_path)
    assert offsets(tmp_path, failOnDataLoss="false") == [(0, 1)]
    assert offsets(tmp_path, startingOffsets='{"t": {"0": 1}}') == [(0, 1)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "needs a folder"),
        ({"path": "x", "topic": "t"}, "no option topic; use path, paths, subscribe"),
        ({"path": "x", "startingOffsets": "latest"}, 'startingOffsets is "earliest" or JSON'),
        ({"path": "x", "endingOffsets": '{"t": 4}'}, 'endingOffsets is "latest" or JSON'),
        ({"path": "x", "startingOffsets": '{"t": {"0": -1}}'}, "offset -1; 0 or more, or -2 for earliest"),
        (
            {"path": "x", "startingOffsets": '{"__consumer_offset": {"0": 5}}'},
            "__consumer_offset, which subscribe does",
        ),
        (
            {"path": "x", "startingOffsets": '{"t": {"3": 9}}', "endingOffsets": '{"t": {"3": 8}}', "subscribe": "t"},
            "startingOffsets of t-3 is 9, after endingOffsets, which is 8",
        ),
        ({"path": "x", "subscribe": " , "}, "subscribe names no topic"),
        ({"path": "x", "minPartitions": "-1"}, "minPartitions is a number, not '-1'"),
        ({"path": "x", "minPartitions": "1" * 5000}, r"minPartitions is a number, not '1{100}\.\.\.'$"),
        *(
            ({"path": "x", "subscribe": "t", "startingOffsets": text}, 'startingOffsets is "earliest" or JSON like')
            for text in (
                '{"t": {"0": %s}}' % ("9" * 5000),
                '{"t": {"0": true}}',
                "[" * 100_000,
            )
        ),
        ({"path": "x", "subscribe": "t", "endingOffsets": '{"t": {"0": 9223372036854775808}}'}, "has the offset 92233"),
        ({"paths": "[" * 100_000}, r"paths is a JSON list of folders, not '\[{100}\.\.\.'$"),
        ({"path": "x", "failOnDataLoss": "no"}, "failOnDataLoss is true or false, not 'no'"),
        ({"paths": "x,y"}, "paths is a JSON list of folders, not 'x,y'"),
        ({"paths": '"x"'}, "paths is a JSON list of folders"),
    ],
)
def test_invalid_options_are_refused(options, text):
    with pytest.raises(UsageError, match=text):
        parse_options(options)


def test_option_names_ignore_case_and_paths_takes_several_folders():
    options = parse_options({"PATHS": '["a", "b"]', "FailOnDataLoss": "FALSE", "minpartitions": "3"})
    assert (options.folders, options.fail_on_data_loss, options.min_partitions) == (("a", "b"), False, 3)


def test_spark_reads_the_source_by_its_name(spark):
    spark.dataSource.register(KafkaSegmentsDataSource)
    frame = spark.read.format("kafka-segments").load(str(CAPTURED / "transactions-4.3"))
    read_here = pa.Table.from_batches(read_parts({"path": str(CAPTURED / "transactions-4.3")}))
    assert_df_equality(frame, spark.createDataFrame(read_here, RECORDS), ignore_row_order=True)
    assert frame.schema["offset"].metadata == {"comment": "offset of the record"}
    assert {"COMMIT", "ABORT", None} <= {row["control_type"] for row in read_here.to_pylist()}


# The data source kafka-raw over a fake cluster: options, plans, rows, lost offsets.
SERVERS = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t"}
MARKER = [(bytes([0, 0, 0, 1]), bytes(6))]
LOG = [
    message(0, b"old", None, magic=1),
    batch(1, records(3)),
    batch(4, records(2), attributes=0x10, producer_id=7, producer_epoch=2),
    batch(6, MARKER, attributes=0x30, producer_id=7, producer_epoch=3),
    batch(9, records(4)),  # 7 and 8 were compacted away
]


@pytest.fixture
def cluster(monkeypatch):
    fake = FakeCluster(list(LOG))
    monkeypatch.setattr("kgroups_spark.cluster.cluster.Cluster", lambda client: nullcontext(fake))
    return fake


def rows(**options):
    """As Spark does it: plan, send the reader and the partitions away, read each."""
    reader = KafkaRawDataSource({**SERVERS, **options}).reader(RECORDS)
    reader, partitions = pickle.loads(pickle.dumps((reader, reader.partitions())))
    return [row for partition in partitions for part in reader.read(partition) for row in part.to_pylist()]


def fetched_offsets(**options):
    return [row["offset"] for row in rows(**options)]


def test_kafka_raw_equals_kafka_segments(cluster, tmp_path):
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
def test_offsets_are_those_asked_for_whatever_the_number_of_tasks(cluster, start, end, min_partitions):
    there = [0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 12]
    asked = {"startingOffsets": f'{{"t": {{"0": {start}}}}}', "endingOffsets": f'{{"t": {{"0": {end}}}}}'}
    found = fetched_offsets(minPartitions=min_partitions, **asked)
    assert found == [offset for offset in there if start <= offset < end]


class TestDataLoss:
    def test_a_start_before_the_log(self, cluster):
        cluster.log_start, cluster.batches = 4, cluster.batches[2:]
        asked = '{"t": {"0": 1}}'
        with pytest.raises(
            KgroupsError, match="t-0 has offsets 4 to 12; startingOffsets asks for 1; failOnDataLoss=false"
        ):
            fetched_offsets(startingOffsets=asked)
        assert fetched_offsets(startingOffsets=asked, failOnDataLoss="false") == [4, 5, 6, 9, 10, 11, 12]
        assert fetched_offsets() == [4, 5, 6, 9, 10, 11, 12]

    def test_offsets_after_the_log(self, cluster):
        for name in ("startingOffsets", "endingOffsets"):
            asked = {name: '{"t": {"0": 99}}'}
            with pytest.raises(KgroupsError, match=rf"t-0 has offsets 0 to 12; {name} asks for .*99"):
                fetched_offsets(**asked)
        assert fetched_offsets(startingOffsets='{"t": {"0": 99}}', failOnDataLoss="false") == []
        assert len(fetched_offsets(endingOffsets='{"t": {"0": 99}}', failOnDataLoss="false")) == 11

    @pytest.mark.parametrize("fail_on_data_loss", [True, False])
    def test_a_log_start_that_moves_during_the_read(self, cluster, fail_on_data_loss):
        def delete(fake):
            fake.log_start, fake.batches = 4, fake.batches[2:]

        cluster.script = [lambda _: None, delete]  # the first one asks whether we may read
        if fail_on_data_loss:
            with pytest.raises(LogStartMoved, match="t-0 starts at offset 4"):
                fetched_offsets()
        else:
            assert fetched_offsets(failOnDataLoss="false") == [4, 5, 6, 9, 10, 11, 12]

    def test_damage(self, cluster):
        broken = cluster.batches[1]
        cluster.batches[1] = broken[:-1] + bytes([broken[-1] ^ 1])
        with pytest.raises(
            KgroupsError, match=r"t-0 at offset 1: \d+ bytes cannot be read: .*CRC.*; failOnDataLoss=false"
        ):
            fetched_offsets()
        assert fetched_offsets(failOnDataLoss="false") == [0, 4, 5, 6, 9, 10, 11, 12]


class TestTasks:
    """`leaders`: of partitions 0, 1, ..., which have 100 offsets each."""

    def planned(self, monkeypatch, leaders, min_partitions):
        metadata = {number: PartitionMetadata(leader, 5, None) for number, leader in enumerate(leaders)}
        topic = TopicMetadata("t", TOPIC_ID, metadata, None)
        fake = FakeCluster([]).as_cluster()
        logs = [LiveLog(fake, topic, number, 0, 100, 5) for number in metadata]
        monkeypatch.setattr("kgroups_spark.cluster.live_log.live_logs", lambda cluster, name: LiveLogs(topic, logs, []))
        return plan_spans(parse_kafka_options({**SERVERS, "minPartitions": str(min_partitions)}), fake)

    def test_two_at_most_for_a_broker(self, monkeypatch):
        tasks = self.planned(monkeypatch, [1, 2, 1, 1, 3, 1], 0)
        leaders = [{span.piece.leader for span in task.spans} for task in tasks]
        assert all(len(each) == 1 for each in leaders)
        assert Counter(leader for each in leaders for leader in each) == {1: 2, 2: 1, 3: 1}
        assert sorted(span.piece.partition for task in tasks for span in task.spans) == [0, 1, 2, 3, 4, 5]

    def test_more_where_min_partitions_asks_for_them(self, monkeypatch):
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
        ({**SERVERS, "kafka.security.protocoll": "SSL"}, "security.protocol"),
        ({**SERVERS, "commandConfig": "nowhere.properties"}, "nowhere.properties"),
        ({**SERVERS, "endingOffsets": '{"tt": {"0": 2}}'}, "for tt, which subscribe does not name; did you mean t"),
        ({**SERVERS, "kafka.ssl.keystore.key": "PEM"}, "kafka.ssl.keystore.key is a secret that Spark can show"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(UsageError, match=message):
        parse_kafka_options(options)


def test_a_secret_that_spark_shows_is_refused_before_there_is_a_plan():
    """CREATE VIEW asks for the schema, and no more."""
    with pytest.raises(UsageError, match="give it in a file, by the option commandConfig") as raised:
        KafkaRawDataSource({**SERVERS, "kafka.ssl.keystore.key": "hush"}).schema()
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("source", [KafkaRawDataSource(SERVERS), KafkaSegmentsDataSource({"path": "x"})])
def test_streams_are_refused(source):
    with pytest.raises(UsageError, match=rf"{source.name()} .*: spark\.read, not spark\.readStream"):
        source.streamReader(RECORDS)


def test_an_unknown_topic_suggests_the_nearest_name(cluster, monkeypatch):
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
        fetched_offsets(subscribe="__consumer_offset")


MISSING = TopicMetadata("__consumer_offset", None, {}, "UNKNOWN_TOPIC_OR_PARTITION")


def test_an_unknown_partition_is_refused(cluster):
    with pytest.raises(UsageError, match="startingOffsets names partition 3 of t, which has 1"):
        fetched_offsets(startingOffsets='{"t": {"3": 0}}')
