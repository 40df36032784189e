"""Frames with rows of files."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType


def parquet_of(spark: SparkSession, schema: StructType, paths: Sequence[str]) -> DataFrame:
    """The rows of these files. Spark takes paths for globs by default, and a lake's folder may be named `{a}`."""
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("__globPaths__", False).parquet(*paths)


def never_null(field: StructField) -> Column:
    """The column as not nullable: Delta ensures that it has no null, but Spark's Parquet reader drops that fact."""
    if isinstance(field.dataType, StringType):
        zero = F.lit("")
    elif isinstance(field.dataType, ArrayType):
        zero = F.array()
    else:
        zero = F.lit(0)
    return F.coalesce(field.name, zero.cast(field.dataType)).alias(field.name, metadata=field.metadata)
