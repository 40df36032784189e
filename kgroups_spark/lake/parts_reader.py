"""A table's Parquet files read by pyarrow, by the driver or by tasks; whoever wrote them."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset

from kgroups_spark.lake.parts_writer import lake_file_system
from kgroups_spark.tables.schemas import arrow_schema


def dataset_of(name: str, table_uri: str, paths: Sequence[str]) -> pa.dataset.Dataset:
    """The rows of the files; `paths` as the table's log has them. A column that a file does not have is null in it."""
    schema = arrow_schema(name)
    if not paths:
        return pa.dataset.dataset(schema.empty_table())
    file_system, folder = lake_file_system(table_uri)
    spark_writes_int96 = pa.dataset.ParquetFileFormat(read_options={"coerce_int96_timestamp_unit": "us"})
    in_it = [f"{folder}/{unquote(path)}" for path in paths]
    return pa.dataset.dataset(in_it, schema=schema, filesystem=file_system, format=spark_writes_int96)
