"""Rows of any table, made from a few values: other columns are null or have a value that fits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import APP_ID
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.tables.schemas import arrow_schema

MOMENT = datetime(2026, 11, 16, 6, 30, 15, 123_000, tzinfo=UTC)


def rows_of(table: str, *given: dict[str, Any]) -> pa.Table:
    """A row for each dict; required columns left out get 0, a text of their name, or MOMENT."""
    schema = arrow_schema(table)
    return pa.Table.from_pylist([{**_something(schema), **row} for row in given], schema=schema)


def writer(lake: Lake, audit_id: int, app_id: str = APP_ID) -> LakeWriter:
    """Writes as an audit whose claim nobody takes."""
    return LakeWriter(lake, audit_id, lambda: None, app_id)


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
