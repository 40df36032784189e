"""The tables' columns as Spark's types."""

from __future__ import annotations

import pyarrow as pa
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

from kgroups_spark.tables.columns import BIGINT, BINARY, BOOLEAN, INT, SMALLINT, STRING, TIMESTAMP, comment_of

ATOMS: dict[pa.DataType, DataType] = {
    BIGINT: LongType(),
    INT: IntegerType(),
    SMALLINT: ShortType(),
    STRING: StringType(),
    BOOLEAN: BooleanType(),
    BINARY: BinaryType(),
    TIMESTAMP: TimestampType(),
}


def spark_schema(columns: pa.Schema) -> StructType:
    """The same names, order, nullability and comments."""
    return StructType([_field(field) for field in columns])


def _field(field: pa.Field) -> StructField:
    return StructField(field.name, _type(field.type), field.nullable, {"comment": comment_of(field)})


def _type(data_type: pa.DataType) -> DataType:
    if pa.types.is_list(data_type):
        return ArrayType(_type(data_type.value_type), data_type.value_field.nullable)
    if pa.types.is_map(data_type):
        return MapType(_type(data_type.key_type), _type(data_type.item_type), data_type.item_field.nullable)
    if pa.types.is_struct(data_type):
        return StructType([_field(field) for field in data_type])
    return ATOMS[data_type]
