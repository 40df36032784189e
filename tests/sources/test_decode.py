"""The public `decode`: rows of any DataFrame with keys and values, against what `kgroups dump` prints."""

import json

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import kgroups_spark
from kgroups_spark.cli.main import main
from kgroups_spark.errors import UsageError
from kgroups_spark.spark.data_sources import COLUMNS, KafkaSegmentsDataSource
from tests import recorded_state_logs
from tests.messages.vectors import KEY_OF_TYPE

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
