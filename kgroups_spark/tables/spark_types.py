"""The tables' columns as Spark's types, and the SQL that defines our tables."""

from __future__ import annotations

from collections.abc import Mapping

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


# The SQL that defines our tables.


def table_definition(schema: StructType, comment: str, properties: Mapping[str, str]) -> str:
    """The definition after the table's name in CREATE TABLE."""
    columns = ", ".join(column_definition(field) for field in schema)
    reported = ", ".join(f"{text(key)} = {text(value)}" for key, value in properties.items())
    return f"({columns}) USING delta COMMENT {text(comment)} TBLPROPERTIES ({reported})"


def column_definition(field: StructField) -> str:
    """A column in CREATE TABLE or ADD COLUMNS."""
    required = "" if field.nullable else " NOT NULL"
    return f"{quoted(field.name)} {_sql_type(field.dataType)}{required}{_comment(field)}"


def _sql_type(data_type: DataType) -> str:
    if isinstance(data_type, ArrayType):
        return f"array<{_sql_type(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"map<{_sql_type(data_type.keyType)}, {_sql_type(data_type.valueType)}>"
    if isinstance(data_type, StructType):
        return f"struct<{', '.join(f'{quoted(f.name)}: {_sql_type(f.dataType)}{_comment(f)}' for f in data_type)}>"
    return data_type.simpleString()


def _comment(field: StructField) -> str:
    comment = field.metadata.get("comment")
    return "" if comment is None else f" COMMENT {text(comment)}"


def quoted(word: str) -> str:
    return f"`{word.replace('`', '``')}`"


def text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
