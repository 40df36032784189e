"""The tables' columns as Spark's types, and the SQL that defines our tables."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from kgroups_spark.tables.columns import delta_schema


def spark_schema(columns: pa.Schema) -> StructType:
    """The same names, order, nullability and comments."""
    return StructType.fromJson(delta_schema(columns))


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
