from __future__ import annotations

import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.spark.data_sources import (
    BYTES_PER_BATCH,
    RECORDS,
    KafkaSegmentsDataSource,
    SegmentRange,
)
from kgroups_spark.spark.data_sources import parse_segments_options as parse_options
from tests.records.build import batch, message

CAPTURED = Path(__file__).parents[1] / "data" / "segments"


def read(options: dict[str, str]) -> list[dict[str, Any]]:
    return [row for part in read_parts(options) for row in part.to_pylist()]


def read_parts(options: dict[str, str]) -> list[pa.RecordBatch]:
    """As Spark does it: plan, send the reader and the partitions away, read each."""
    source = KafkaSegmentsDataSource(options)
    reader, partitions = pickle.loads(
        pickle.dumps((source.reader(source.schema()), source.reader(RECORDS).partitions()))
    )
    return [part for partition in partitions for part in reader.read(partition)]


def put(folder: Path, topic: str, partition: int, *logs: bytes) -> None:
    base_offset = 0
    for log in logs:
        path = folder / f"{topic}-{partition}" / f"{base_offset:020}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(log)
        base_offset += 10


def test_every_column_of_every_kind_of_record(tmp_path: Path) -> None:
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
    assert rows[0] == {
        "topic": "__consumer_offsets",
        "partition": 3,
        "offset": 0,
        "timestamp": None,
        "timestamp_type": None,
        "leader_epoch": None,
        "producer_id": None,
        "producer_epoch": None,
        "is_transactional": False,
        "control_type": None,
        "key": b"old",
        "value": None,
    }
    assert rows[1] == {
        "topic": "__consumer_offsets",
        "partition": 3,
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


def test_batches_have_the_schema_spark_expects(tmp_path: Path) -> None:
    put(tmp_path, "__consumer_offsets", 0, batch(0, [(b"k", b"v")]))
    (part,) = read_parts({"path": str(tmp_path)})
    assert part.schema.equals(to_arrow_schema(RECORDS, timezone="UTC"))  # nullability, too: Spark's worker insists


def test_arrow_batches_end_at_64k_rows(tmp_path: Path) -> None:
    put(tmp_path, "t", 0, batch(0, [(b"k", b"v")] * 70_000))
    parts = read_parts({"path": str(tmp_path), "subscribe": "t"})
    assert [part.num_rows for part in parts] == [65_536, 4_464]
    assert [row for part in parts for row in part["offset"].to_pylist()] == list(range(70_000))


def test_arrow_batches_end_at_32_mb(tmp_path: Path) -> None:
    put(tmp_path, "t", 0, batch(0, [(b"k%d" % i, bytes(1 << 16)) for i in range(900)], codec=4))
    parts = read_parts({"path": str(tmp_path), "subscribe": "t"})
    assert len(parts) == 2 and sum(part.num_rows for part in parts) == 900
    assert all(part.nbytes < BYTES_PER_BATCH + 1000 for part in parts)


def offsets(folder: Path, **options: str) -> list[tuple[int, int]]:
    rows = read({"path": str(folder), "subscribe": "t", **options})
    return [(row["partition"], row["offset"]) for row in rows]


def two_partitions(folder: Path) -> Path:
    segments = [batch(base, [(b"k", b"v")] * 10) for base in (0, 10, 20, 30)]
    put(folder, "t", 0, *segments)
    put(folder, "t", 1, *segments[:1])
    return folder


def test_starting_and_ending_offsets_by_partition(tmp_path: Path) -> None:
    folder = two_partitions(tmp_path)
    given = {"startingOffsets": '{"t": {"0": 8, "1": -2}}', "endingOffsets": '{"t": {"0": 23, "1": 2}}'}
    assert offsets(folder, **given) == [*((0, i) for i in range(8, 23)), (1, 0), (1, 1)]
    assert len(offsets(folder, endingOffsets='{"t": {"0": -1}}')) == 50


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_offsets_of_a_partition_that_does_not_exist_are_refused(tmp_path: Path, name: str) -> None:
    """They would have no effect: a typo reads everything."""
    with pytest.raises(UsageError, match=f"{name} names partition 7 of t, which has 2"):
        plan(two_partitions(tmp_path), **{name: '{"t": {"0": 8, "7": 1}}'})


def plan(folder: Path, **options: str) -> list[SegmentRange]:
    source = KafkaSegmentsDataSource({"path": str(folder), "subscribe": "t", **options})
    return source.reader(RECORDS).partitions()


@pytest.mark.parametrize(("least", "expected"), [("0", [4, 1]), ("2", [4, 1]), ("4", [1, 1, 1, 1, 1]), ("99", [1] * 5)])
def test_more_spark_partitions_are_cut_between_segments(tmp_path: Path, least: str, expected: list[int]) -> None:
    folder = two_partitions(tmp_path)
    assert [len(part.span.pieces) for part in plan(folder, minPartitions=least)] == expected
    assert offsets(folder, minPartitions=least) == [*((0, i) for i in range(40)), *((1, i) for i in range(10))]


@pytest.mark.parametrize("least", ["0", "5"])
def test_a_log_that_begins_with_or_consists_of_an_empty_segment(tmp_path: Path, least: str) -> None:
    put(tmp_path, "t", 0, b"")
    put(tmp_path, "t", 1, b"", batch(10, [(b"k", b"v")]))
    assert offsets(tmp_path, minPartitions=least) == [(1, 10)]


def test_segments_outside_the_offsets_are_not_opened(tmp_path: Path) -> None:
    (first, _) = plan(two_partitions(tmp_path), startingOffsets='{"t": {"0": 12}}', endingOffsets='{"t": {"0": 20}}')
    assert [Path(piece.path).name for piece in first.span.pieces] == [f"{10:020}.log"]


def test_damage_stops_the_read_unless_reported_otherwise(tmp_path: Path) -> None:
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
        ({"path": "x", "minPartitions": "many"}, "minPartitions is a number, not 'many'"),
        ({"path": "x", "minPartitions": "1" * 5000}, r"minPartitions is a number, not '1{100}\.\.\.'$"),
        *(
            ({"path": "x", "subscribe": "t", "startingOffsets": text}, 'startingOffsets is "earliest" or JSON like')
            for text in (
                '{"t": {"0": %s}}' % ("9" * 5000),
                '{"t": {"0": 1e400}}',
                '{"t": {"0": 1.5}}',
                '{"t": {"0": true}}',
                '{"t": {"0": null}}',
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
def test_invalid_options_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse_options(options)


def test_option_names_ignore_case_and_paths_takes_several_folders() -> None:
    options = parse_options({"PATHS": '["a", "b"]', "FailOnDataLoss": "FALSE", "minpartitions": "3"})
    assert (options.folders, options.fail_on_data_loss, options.min_partitions) == (("a", "b"), False, 3)


def test_spark_reads_the_source_by_its_name(spark: SparkSession) -> None:
    spark.dataSource.register(KafkaSegmentsDataSource)
    frame = spark.read.format("kafka-segments").load(str(CAPTURED / "transactions-4.3"))
    read_here = pa.Table.from_batches(read_parts({"path": str(CAPTURED / "transactions-4.3")}))
    assert_df_equality(frame, spark.createDataFrame(read_here, RECORDS), ignore_row_order=True)
    assert frame.schema["offset"].metadata == {"comment": "offset of the record"}
    assert {"COMMIT", "ABORT", None} <= {row["control_type"] for row in read_here.to_pylist()}
