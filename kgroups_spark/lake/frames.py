"""Frames with the rows of a lake's tables, as the tables are defined now."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from kgroups_spark.tables.conditions import Condition
from kgroups_spark.tables.spark_types import struct_in_array


def rows_where(rows: DataFrame, conditions: Iterable[Condition]) -> DataFrame:
    """The rows of a frame that meet all conditions."""
    for each in conditions:
        rows = rows.where(each.of(F.col(each.column), F.lit))
    return rows


def parquet_of(spark: SparkSession, schema: StructType, paths: Iterable[str]) -> DataFrame:
    """The rows of these files. Spark takes paths for globs by default, and a lake's folder may be named `{a}`."""
    return spark.read.schema(schema).option("__globPaths__", False).parquet(*paths)


def with_all_columns(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows with the schema's columns, and the fields of its structs in arrays; null where an older layout has
    none."""
    missing = {field.name: F.lit(None).cast(field.dataType) for field in schema if field.name not in rows.columns}
    there = {field.name: struct_in_array(field.dataType) for field in rows.schema}
    wider = {
        field.name: _with_all_fields(field.name, there[field.name], struct)
        for field in schema
        if (struct := struct_in_array(field.dataType)) and there.get(field.name) not in (None, struct)
    }
    return rows.withColumns({**missing, **wider}).select(*schema.names)


def _with_all_fields(name: str, there: StructType | None, struct: StructType) -> Column:
    """An array of structs with its missing fields added as nulls."""
    names = there.names if there else ()

    def element(found: Column) -> Column:
        fields = ((found[f.name] if f.name in names else F.lit(None)).cast(f.dataType).alias(f.name) for f in struct)
        return F.struct(*fields)

    return F.transform(name, element).alias(name)


def never_null(field: StructField) -> Column:
    """The column as not nullable: Delta ensures that it has no null, but Spark's Parquet reader drops that fact."""
    if isinstance(field.dataType, StringType):
        zero = F.lit("")
    elif isinstance(field.dataType, ArrayType):
        zero = F.array()
    else:
        zero = F.lit(0)
    return F.coalesce(field.name, zero.cast(field.dataType)).alias(field.name, metadata=field.metadata)
