"""`decode`: decodes records of the coordinators' logs in any DataFrame, from any source."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, NullType, ShortType, StringType, StructField, StructType

from kgroups_spark.errors import UsageError
from kgroups_spark.messages.coordinator_logs import COORDINATOR_LOGS, GROUP_LOG
from kgroups_spark.messages.decoded_columns import RecordsDecoder
from kgroups_spark.nearest import did_you_mean

COLUMNS = StructType(
    [
        StructField("record_type", ShortType(), True, {"comment": "Kafka's number; null: not a coordinator's record"}),
        StructField("record_name", StringType(), True, {"comment": "GroupMetadata, ShareSnapshot, TransactionLog ..."}),
        StructField("group_id", StringType(), True, {"comment": "null: the record is about no group"}),
        StructField("transactional_id", StringType(), True, {"comment": "null: not of __transaction_state"}),
        StructField("record_key", StringType(), True, {"comment": "JSON with Kafka's field names"}),
        StructField("value_version", ShortType(), True, {"comment": "null: tombstone"}),
        StructField("record_value", StringType(), True, {"comment": "JSON with Kafka's field names; null: tombstone"}),
        StructField("reason", StringType(), True, {"comment": "why it cannot be decoded; null: it can"}),
        StructField("detail", StringType(), True, {"comment": "one sentence about that"}),
    ]
)


def decode(frame: DataFrame, topic: str | None = None) -> DataFrame:
    """The frame's columns, then COLUMNS: the decoded records of its columns `key` and `value` (binary).

    `topic` is the topic of the records: `__consumer_offsets` (the default), `__share_group_state` or
    `__transaction_state`. Without the argument, a column `topic` has the topic of each row; a record of another topic,
    or of none, has the reason `other_topic`. COLUMNS are null for control records if the frame has a column
    `control_type`, as `kafka-segments` and `kafka-raw` do. (Other sources hide control records.) Raises UsageError for
    another topic, for anything but a DataFrame, or if the frame lacks one of the two columns or has it in another type.

        decode(spark.read.format("kafka-segments").option("subscribe", "__transaction_state").load("/var/kafka-logs"))
    """
    if not isinstance(frame, DataFrame):
        raise UsageError(f"decode needs a DataFrame of Spark, not {type(frame).__name__}")
    # In lower case: Spark finds `Topic` as topic.
    names = [name.lower() for name in frame.columns]
    _require(frame, names, topic)
    whose = F.lit(topic or GROUP_LOG.topic)
    if topic is None and "topic" in names:
        whose = F.coalesce(F.col("topic").cast("string"), F.lit(""))
    if "control_type" in names:
        whose = F.when(F.col("control_type").isNull(), whose)
    schema = StructType([*frame.schema.fields, *COLUMNS.fields])
    # By numbers, because mapInArrow looks its columns up by name, and does not find one with a dot in it.
    numbered = frame.select("*", whose.cast("string")).toDF(*(f"column_{n}" for n in range(len(frame.columns) + 1)))
    key, value = names.index("key"), names.index("value")
    return numbered.mapInArrow(partial(_with_decoded, schema.names, key, value), schema)


def _with_decoded(
    names: list[str], key: int, value: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """`names`: of the columns of the answer; `key`, `value`: the numbers of these columns."""
    decoder = RecordsDecoder()
    for batch in batches:
        *columns, topics = batch.columns
        decoded = decoder.decode(topics.to_pylist(), columns[key], columns[value])
        yield pa.RecordBatch.from_arrays([*columns, *decoded.flatten()], names=names)


def _require(frame: DataFrame, names: list[str], topic: str | None) -> None:
    if topic is not None and topic not in COORDINATOR_LOGS:
        raise UsageError(
            "the argument topic names the log, also for a copy with another name; "
            f"{topic} is no coordinator's log{did_you_mean(topic, COORDINATOR_LOGS)}"
        )
    if missing := [name for name in ("key", "value") if name not in names]:
        raise UsageError(f"decode needs the columns key and value; there is no {missing[0]}")
    for name in ("key", "value"):
        found = frame.schema[names.index(name)].dataType
        if isinstance(found, StringType):
            raise UsageError(
                f"decode needs binary columns key and value; {name} is string: unbase64({name}) makes bytes of base64"
            )
        if not isinstance(found, BinaryType | NullType):
            raise UsageError(f"decode needs binary columns key and value; {name} is {found.simpleString()}")
    if taken := [name for name in COLUMNS.names if name in names]:
        raise UsageError(f"the frame has a column {taken[0]} already: rename it, decode makes one of that name")
