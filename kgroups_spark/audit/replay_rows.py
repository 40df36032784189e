"""The input of the replay of records: one row per record, in Arrow, and the state it starts from.

`rebuild`, baselines and comparisons make them from the history tables. Times are milliseconds and Kafka's -1 stays -1,
because the state machine compares what the log holds, not what a TIMESTAMP can.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

# kind, in the order of what a shard does with it at one log offset: a correction comes before the records there.
STATE, CORRECTION, VALUE, TOMBSTONE, RECORD, UNREADABLE, MARKER = range(7)

_FIELDS: list[tuple[str, pa.DataType, DataType]] = [
    ("offsets_partition", pa.int32(), IntegerType()),
    ("log_offset", pa.int64(), LongType()),
    ("kind", pa.int8(), ByteType()),
    ("log_timestamp", pa.int64(), LongType()),
    ("record_type", pa.int16(), ShortType()),
    ("value_version", pa.int16(), ShortType()),
    ("producer_id", pa.int64(), LongType()),
    ("producer_epoch", pa.int16(), ShortType()),
    ("is_transactional", pa.bool_(), BooleanType()),
    ("group_id", pa.string(), StringType()),
    ("topic", pa.string(), StringType()),
    ("partition", pa.int32(), IntegerType()),
    ("committed_offset", pa.int64(), LongType()),
    ("leader_epoch", pa.int32(), IntegerType()),
    ("metadata", pa.string(), StringType()),
    ("commit_timestamp", pa.int64(), LongType()),
    ("expire_timestamp", pa.int64(), LongType()),
    ("topic_id", pa.string(), StringType()),
    # VALUE: the value's bytes, where the columns do not say everything.
    ("raw_value", pa.binary(), BinaryType()),
    ("member_id", pa.string(), StringType()),
    ("regular_expression", pa.string(), StringType()),
    # RECORD: the value's JSON text; STATE, CORRECTION: the entry's payload (null: there is none any more).
    ("text", pa.string(), StringType()),
    # STATE, CORRECTION: the entry's type; MARKER: committed, aborted or null.
    ("outcome", pa.string(), StringType()),
    ("coordinator_epoch", pa.int32(), IntegerType()),
    ("control_type", pa.int16(), ShortType()),
]

REPLAY_ROWS = pa.schema([pa.field(name, arrow_type) for name, arrow_type, _ in _FIELDS])
REPLAY_ROWS_SPARK = StructType([StructField(name, spark_type) for name, _, spark_type in _FIELDS])
