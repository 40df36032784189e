"""The public `decode`: rows of any DataFrame with keys and values, against what `kgroups dump` prints."""

from __future__ import annotations

import json
from base64 import b64encode

import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import kgroups_spark
from kgroups_spark.cli.main import main
from kgroups_spark.errors import UsageError
from kgroups_spark.messages.coordinator_records import COORDINATOR_LOGS, GROUP_LOG
from kgroups_spark.messages.schema import ZERO_UUID
from kgroups_spark.spark import data_sources
from kgroups_spark.spark.data_sources import COLUMNS, RECORDS, KafkaSegmentsDataSource, typed_columns
from kgroups_spark.tables.columns import without_comments
from kgroups_spark.tables.spark_types import spark_schema
from tests import recorded_state_logs
from tests.messages.vectors import ALL, KEY_OF_TYPE, assert_has
from tests.recorded_logs import unpacked

FACTS = ("record_type", "record_name", "group_id", "transactional_id", "value_version", "reason", "detail")


@pytest.mark.parametrize(
    ("recording", "topic"),
    [
        ("share-4.4", "__consumer_offsets"),
        ("share-4.4", "__share_group_state"),
        ("transactions-4.4", "__transaction_state"),
    ],
)
def test_decoded_records_equal_the_output_of_dump(spark, tmp_path, capsys, recording, topic):
    folder = str(recorded_state_logs.write_logs(recording, tmp_path, topic))
    spark.dataSource.register(KafkaSegmentsDataSource)
    frame = spark.read.format("kafka-segments").option("subscribe", topic).load(folder)
    rows = kgroups_spark.decode(frame).orderBy("partition", "offset").collect()
    main(["dump", folder, "--topic", topic])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == len(lines) > 15
    for row, line in zip(rows, lines, strict=True):
        assert {name: row[name] for name in FACTS} == {name: line.get(name) for name in FACTS}
        assert json.loads(row.record_value or "null") == line.get("value")
        assert json.loads(row.record_key or "null") == line.get("key")


def test_a_record_that_is_not_decoded_has_a_reason_unless_it_is_a_control_record(spark):
    rows = [
        ("__consumer_offsets", bytearray(KEY_OF_TYPE[2]), bytearray(b"\0\x63"), None),
        ("__consumer_offsets", None, None, None),
        ("__consumer_offsets", bytearray(b"\0\0\0\1"), bytearray(6), "COMMIT"),
        ("orders", bytearray(b"17"), bytearray(b"{}"), None),
        (None, bytearray(KEY_OF_TYPE[2]), None, None),
    ]
    frame = spark.createDataFrame(rows, "topic string, key binary, value binary, control_type string")
    nothing, group_id = (None,) * 9, KEY_OF_TYPE[2][4:].decode()
    unknown = "GroupMetadataValue version 99 is unknown (0 to 4 are known)"
    no_key = "The record has no key, so nothing says what it is about"
    copy = "for a copy of a log give its name as the argument topic: decode(frame, topic='__consumer_offsets')"
    decoded = [
        (2, "GroupMetadata", group_id, None, None, 99, None, "unknown_value_version", unknown),
        (*nothing[:7], "null_key", no_key),
        nothing,
        (*nothing[:7], "other_topic", f"topic orders is not a coordinator's log; {copy}"),
        (*nothing[:7], "other_topic", f"the row has no topic; {copy}"),
    ]
    expected = [row + columns for row, columns in zip(rows, decoded, strict=True)]
    schema = StructType([*frame.schema.fields, *COLUMNS.fields])
    assert_df_equality(kgroups_spark.decode(frame), spark.createDataFrame(expected, schema))


def test_an_argument_names_the_topic_where_the_frame_does_not(spark):
    frame = spark.createDataFrame([(bytearray(b"\0\0\0\2me"), None)], "key binary, value binary")
    (row,) = kgroups_spark.decode(frame.withColumn("a.b", F.lit(7)), topic="__transaction_state").collect()
    assert (row.transactional_id, row.record_value, row.reason, row["a.b"]) == ("me", None, None, 7)


@pytest.mark.parametrize(
    ("columns", "topic", "said"),
    [
        ("key binary, value binary", "__transaction_stat", "did you mean __transaction_state"),
        ("key binary", None, "there is no value"),
        ("key binary, value string", None, r"value is string: unbase64\(value\) makes bytes of base64"),
        ("key int, value binary", None, "decode needs binary columns key and value; key is int$"),
        (
            "key binary, value binary",
            "src.__consumer_offsets",
            "topic names the log, also for a copy with another name",
        ),
        ("key binary, value binary, reason string", None, "has a column reason already"),
        ("key binary, value binary, Reason string", None, "has a column reason already"),
    ],
)
def test_unsuitable_frames_and_topics_are_refused(spark, columns, topic, said):
    with pytest.raises(UsageError, match=said):
        kgroups_spark.decode(spark.createDataFrame([], columns), topic=topic)
    with pytest.raises(UsageError, match="decode needs a DataFrame of Spark, not list"):
        kgroups_spark.decode([])


# `decode` of one record type, typed: against Kafka's own samples and what `kgroups dump` prints, without a session;
# then once in Spark.
TYPED = ("key", "value", "record_type", "value_version", "reason", "detail")
NAMES = [
    (log, name)
    for log in COORDINATOR_LOGS.values()
    for name in dict.fromkeys(kind.name.removeprefix("Legacy") for kind in log.record_types.values())
]


def typed(log, record, records):
    """The rows that a task returns for topics, keys and values."""
    columns = [pa.array(each, kind) for each, kind in zip(zip(*records, strict=True), KINDS, strict=True)]
    batch = pa.RecordBatch.from_arrays([columns[1], columns[2], columns[0]], names=["key", "value", "topic"])
    schema = without_comments(typed_columns(log, record))
    made = data_sources._with_typed(log, record, schema, list(TYPED), 0, 1, iter([batch]))
    return [row for each in made for row in each.to_pylist()]


KINDS = (pa.string(), pa.binary(), pa.binary())


def in_json(found):
    """As `dump` prints it: bytes in base64."""
    if isinstance(found, dict):
        return {name: in_json(value) for name, value in found.items()}
    if isinstance(found, list):
        return [in_json(each) for each in found]
    return b64encode(found).decode() if isinstance(found, bytes) else found


@pytest.mark.parametrize("vector", [pytest.param(v, id=v["name"]) for v in ALL if v["kind"] == "value"])
def test_kafkas_samples_have_their_fields(vector):
    """Samples of `__consumer_offsets`, of every type and version."""
    kind = GROUP_LOG.record_types[vector["type"]]
    key, value = KEY_OF_TYPE[kind.number], bytes.fromhex(vector["hex"])
    (row,) = typed(GROUP_LOG, kind.name.removeprefix("Legacy"), [(GROUP_LOG.topic, key, value)])
    (sample,) = (v["fields"] for v in ALL if v["kind"] == "key" and v["type"] == kind.number)
    assert_has(row["key"], sample)
    assert (row["record_type"], row["value_version"], row["reason"]) == (kind.number, vector["version"], None)
    assert_has(in_json(row["value"]), vector["fields"])


def test_every_record_type_has_columns_for_spark_with_a_comment_each():
    for log, name in NAMES:
        schema = spark_schema(typed_columns(log, name))
        assert schema.names == ["key", "value"]
        assert all(field.metadata["comment"] for field in schema["value"].dataType), name


@pytest.mark.parametrize(
    ("recording", "topic"),
    [
        ("share-4.4", "__consumer_offsets"),
        ("share-4.4", "__share_group_state"),
        ("transactions-4.4", "__transaction_state"),
        *((name, "__consumer_offsets") for name in ("legacy-1.1", "kip848-4.0", "transactions-4.3", "streams-4.3")),
    ],
)
def test_recordings_have_the_fields_that_dump_prints(tmp_path, capsys, recording, topic):
    has_state_logs = recording.endswith("-4.4")
    write = recorded_state_logs.write_logs if has_state_logs else lambda name, to, _: unpacked(to, name)
    folder = write(recording, tmp_path, topic)
    reader = KafkaSegmentsDataSource({"path": str(folder), "subscribe": topic}).reader(RECORDS)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    records = [(row["topic"] if row["control_type"] is None else None, row["key"], row["value"]) for row in rows]
    log = COORDINATOR_LOGS[topic]
    main(["dump", str(folder), "--topic", topic])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    total = 0
    for of_log, name in NAMES:
        rows = typed(of_log, name, records)
        mine = [line for line in lines if line.get("record_name", "").removeprefix("Legacy") == name]
        assert of_log is log or not rows
        for row, line in zip(rows, mine if of_log is log else [], strict=True):
            assert row["key"] == line["key"]
            assert (row["value_version"], row["reason"]) == (line["value_version"], line.get("reason"))
            assert without_blobs(in_json(row["value"])) == without_blobs(line["value"])
        total += len(rows)
    assert total == sum("record_name" in line for line in lines) > 10


# `dump` prints these as the protocols in them.
BLOBS = {"subscription", "assignment", "subscriptionRaw", "assignmentRaw", "metadata", "metadataRaw"}


def without_blobs(value):
    """The value without protocols, without fields of another layout, which are null or empty, and without the id of no
    topic, which is null in `dump`."""
    if isinstance(value, list):
        return [without_blobs(each) for each in value]
    if not isinstance(value, dict):
        return value
    is_commit = "commitTimestamp" in value
    return {
        name: without_blobs(each)
        for name, each in value.items()
        if each not in (None, [], ZERO_UUID) and (is_commit or name not in BLOBS)
    }


LARGE = 2**62 + 1


def commit(offset, version=3):
    return version.to_bytes(2) + offset.to_bytes(8) + b"\xff\xff\xff\xff" + b"\0\1m" + (7).to_bytes(8)


def test_nothing_is_null_without_a_reason_and_numbers_of_64_bits_survive():
    key = KEY_OF_TYPE[1]
    named = {"group": "grp", "topic": "topic-a", "partition": 3}
    records = [
        (GROUP_LOG.topic, key, commit(LARGE)),
        (GROUP_LOG.topic, key, None),
        (GROUP_LOG.topic, key, b"\0\x63"),
        (GROUP_LOG.topic, key[:5], commit(1)),
        (GROUP_LOG.topic, KEY_OF_TYPE[2], None),  # another type
        (GROUP_LOG.topic, None, commit(1)),
        ("orders", key, commit(1)),
        (None, key, commit(1)),  # a control record
    ]
    large, tombstone, unknown, torn = typed(GROUP_LOG, "OffsetCommit", records)
    assert large["key"] == {**named, **large["key"]} and large["value"]["offset"] == LARGE
    # Version 3 has no expireTimestamp and no topicId: their defaults, as dump prints them.
    assert (large["value"]["expireTimestamp"], large["value"]["topicId"]) == (-1, "AAAAAAAAAAAAAAAAAAAAAA")
    assert (tombstone["value"], tombstone["value_version"], tombstone["reason"]) == (None, None, None)
    assert tombstone["key"] == large["key"] == unknown["key"]
    assert (unknown["value"], unknown["value_version"], unknown["reason"]) == (None, 99, "unknown_value_version")
    assert (torn["key"], torn["value"], torn["record_type"], torn["reason"]) == (None, None, 1, "truncated")


def test_in_spark_the_structs_take_the_place_of_the_bytes(spark, tmp_path):
    topic = "__transaction_state"
    folder = str(recorded_state_logs.write_logs("transactions-4.4", tmp_path, topic))
    spark.dataSource.register(KafkaSegmentsDataSource)
    frame = spark.read.format("kafka-segments").option("subscribe", topic).load(folder).withColumn("a.b", F.lit(7))
    decoded = kgroups_spark.decode(frame, "TransactionLog")
    assert decoded.columns == [*frame.columns, "record_type", "value_version", "reason", "detail"]
    asked = decoded.select("key.transactionalId", "value.producerId", "value.transactionPartitions.topic", "`a.b`")
    found = {(row.transactionalId, row.producerId) for row in asked.collect()}
    as_json = kgroups_spark.decode(frame).where("record_value IS NOT NULL").collect()
    assert {(row.transactional_id, json.loads(row.record_value)["producerId"]) for row in as_json} == {
        pair for pair in found if pair[1] is not None
    }


@pytest.mark.parametrize(
    ("record", "topic", "said"),
    [
        ("OffsetComit", None, "no log has records OffsetComit; did you mean OffsetCommit"),
        ("ShareSnapshot", "__consumer_offsets", "__consumer_offsets has no records ShareSnapshot"),
        ("__consumer_offsets", None, r"is a topic and no record type: decode\(frame, topic='__consumer_offsets'\)"),
    ],
)
def test_a_name_that_is_no_record_type_is_refused(record, topic, said):
    with pytest.raises(UsageError, match=said):
        data_sources._log_of(record, topic)
