"""How a column of a table is written down: name, type, comment, and whether it may be null."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

BIGINT = LongType()
INT = IntegerType()
SMALLINT = ShortType()
STRING = StringType()
BOOLEAN = BooleanType()
BINARY = BinaryType()
TIMESTAMP = TimestampType()


# Inside arrays and maps Delta refuses NOT NULL (DELTA_NESTED_NOT_NULL_CONSTRAINT), so there all is nullable by type;
# that elements never are null, and which fields of a struct can be, stands in the comments.


def array(element: DataType) -> ArrayType:
    """An array; its elements are never null, though its type allows it."""
    return ArrayType(element, containsNull=True)


def map_of(value: DataType) -> MapType:
    """A map from text; its values are never null, though its type allows it."""
    return MapType(STRING, value, valueContainsNull=True)


def struct(*fields: StructField) -> StructType:
    """A struct inside an array, its fields nullable by type; comments say which of them are really ever null."""
    return StructType([nullable(field) for field in fields])


def column(name: str, data_type: DataType, comment: str) -> StructField:
    """A column that may be null; the comment says when."""
    return StructField(name, data_type, nullable=True, metadata={"comment": comment})


def required(name: str, data_type: DataType, comment: str) -> StructField:
    """A column that is never null."""
    return StructField(name, data_type, nullable=False, metadata={"comment": comment})


def nullable(field: StructField) -> StructField:
    """The same column, allowed to be null."""
    return StructField(field.name, field.dataType, nullable=True, metadata=dict(field.metadata))


AUDIT_ID = required("audit_id", BIGINT, "The audit that wrote the row (table audits)")
OFFSETS_PARTITION = required("offsets_partition", INT, "Partition of __consumer_offsets")
LOG_OFFSET = required("log_offset", BIGINT, "Place of the record in that partition's log")
LOG_TIMESTAMP = column("log_timestamp", TIMESTAMP, "Time in the record; null: the record has none")

# What every table in which one row is one place in the log begins with.
PLACE_IN_LOG = [AUDIT_ID, OFFSETS_PARTITION, LOG_OFFSET, LOG_TIMESTAMP]
