"""Rows of any table, made from a few values: other columns are null or have a value that fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from kgroups_spark.lake.parts import Part, PartWriter
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.spark.tasks import line_batch
from kgroups_spark.tables.schemas import arrow_schema

MOMENT = datetime(2026, 11, 16, 6, 30, 15, 123_000, tzinfo=UTC)


def rows_of(table: str, *given: dict[str, Any]) -> pa.Table:
    """A row for each dict; required columns left out get 0, a text of their name, or MOMENT."""
    schema = arrow_schema(table)
    return pa.Table.from_pylist([{**_something(schema), **row} for row in given], schema=schema)


def parts_of(runner: Any, rows: DataFrame, writer: PartWriter) -> list[Part]:
    """The rows of a frame as parts: each task writes one, batch by batch, and none if it has no rows."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = writer.write(batches)
        yield line_batch([] if part is None else [("rows", asdict(part))])

    return [
        Part(**reported) for _, reported in runner.collected(rows.mapInArrow(runner.function(task), runner.reports))
    ]


def append_frame(writer: LakeWriter, name: str, rows: DataFrame) -> None:
    """Adds the rows of a frame to a table."""
    writer.append_parts(name, parts_of(writer.lake.runner, rows, PartWriter(name, writer.lake.uri, writer.audit_id)))


def _something(schema: pa.Schema) -> dict[str, Any]:
    return {field.name: _value(field) for field in schema if not field.nullable}


def _value(field: pa.Field) -> Any:
    if pa.types.is_integer(field.type):
        return 0
    if pa.types.is_boolean(field.type):
        return False
    if pa.types.is_timestamp(field.type):
        return MOMENT
    if pa.types.is_list(field.type):
        return []
    return field.name
