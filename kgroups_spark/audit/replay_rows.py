"""What the replay reads: one row per record that reduce left, in Arrow, and the state it starts from.

Stage 1 writes them beside the history, `rebuild` and the `spark` writer make them from the history tables. Times are
milliseconds and Kafka's -1 stays -1, because the state machine compares what the log holds, not what a TIMESTAMP can.
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
STATE, TRAFFIC, CORRECTION, FILE, FIRST_VALUE, VALUE, TOMBSTONE, RECORD, UNREADABLE, MARKER = range(10)

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
    # RECORD: the record's bytes, or (made from group_records) the member and the value's JSON text.
    # TRAFFIC: the value is a range's rows of group_traffic, as Arrow's IPC bytes (traffic.py).
    ("raw_key", pa.binary(), BinaryType()),
    ("raw_value", pa.binary(), BinaryType()),
    ("member_id", pa.string(), StringType()),
    ("regular_expression", pa.string(), StringType()),
    # RECORD: the value's JSON text; STATE, CORRECTION: the entry's payload (null: there is none any more); FILE: where
    # more rows are.
    ("text", pa.string(), StringType()),
    # STATE, CORRECTION: the entry's type; MARKER: committed, aborted or null; FILE: where its climbs are (null: none).
    ("outcome", pa.string(), StringType()),
    ("coordinator_epoch", pa.int32(), IntegerType()),
    ("control_type", pa.int16(), ShortType()),
    # MARKER: the replay writes its row of transaction_markers, because only it knows where the transaction began.
    ("is_deferred", pa.bool_(), BooleanType()),
    # VALUE: false where stage 1 tells of moves forward itself (audit/offset_moves.py).
    ("tells_climb", pa.bool_(), BooleanType()),
]

REPLAY_ROWS = pa.schema([pa.field(name, arrow_type) for name, arrow_type, _ in _FIELDS])
REPLAY_ROWS_SPARK = StructType([StructField(name, spark_type) for name, _, spark_type in _FIELDS])


def replay_batch(rows: int, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """A batch of `rows` replay rows from some of the columns; the others are null."""
    arrays = [columns.get(field.name) for field in REPLAY_ROWS]
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(rows, field.type) if array is None else array.cast(field.type)
            for field, array in zip(REPLAY_ROWS, arrays, strict=True)
        ],
        schema=REPLAY_ROWS,
    )
