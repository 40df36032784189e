"""Rows of the current tables as dicts (times in epoch milliseconds, a missing column is null) to DataFrames and
back."""

import json

import pyarrow as pa
from pyspark.sql.types import StructType, TimestampType

from kgroups_spark.expiry import group_expiry, offset_expiry
from kgroups_spark.tables.schemas import TABLES

AUDIT_ID = 7
READ = {  # the columns that expiry looks at, and no other
    "groups": (
        "offsets_partition group_id group_type state protocol_type protocol generation current_state_timestamp "
        "resolved_regex_topics topology"
    ),
    "group_members": "offsets_partition group_id subscribed_topics",
    "committed_offsets": (
        "offsets_partition group_id topic partition committed_offset log_offset commit_timestamp expire_timestamp "
        "value_version"
    ),
    "pending_offsets": "offsets_partition group_id topic partition",
}
ARROW = {"integer": pa.int32(), "long": pa.int64(), "short": pa.int16(), "string": pa.string()}


def arrow_type(field):
    if field.name == "subscribed_topics":
        return pa.list_(pa.string())
    if field.name == "resolved_regex_topics":
        return pa.map_(pa.string(), pa.list_(pa.string()))
    if isinstance(field.dataType, TimestampType):
        return pa.timestamp("us", "UTC")
    return ARROW[field.dataType.typeName()]


def plain(value, field):
    if value is None:
        return None
    if isinstance(field.dataType, TimestampType):
        return value * 1000
    if field.name == "topology":
        return json.dumps(value)
    if field.name == "resolved_regex_topics":
        return list(value.items())
    return value


def frame(spark, table, rows):
    schema = StructType([TABLES[table].schema[name] for name in READ[table].split()])
    columns = [pa.array([plain(row.get(f.name), f) for row in rows], arrow_type(f)) for f in schema]
    return spark.createDataFrame(pa.Table.from_arrays(columns, names=schema.names), schema)


def held_frame(spark, held_groups):
    return spark.createDataFrame(sorted(held_groups), "offsets_partition int, group_id string")


def rows_of(table):
    """Rows of an Arrow table as dicts, times in epoch milliseconds."""
    columns = {}
    for field in table.schema:
        column = table[field.name]
        is_time = pa.types.is_timestamp(field.type)
        values = column.cast(pa.int64()).to_pylist() if is_time else column.to_pylist()
        columns[field.name] = [None if v is None else v // 1000 for v in values] if is_time else values
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def clean_up(spark, tables, *, as_of, retention_ms, release_version, held_groups=None):
    """Rows of both results of one clean-up over tables ({name: rows}), as dicts."""
    frames = {name: frame(spark, name, tables.get(name, [])) for name in READ}
    arguments = {"as_of": as_of, "retention_ms": retention_ms, "release_version": release_version, "audit_id": AUDIT_ID}
    offsets = offset_expiry(**frames, **arguments)
    assert offsets.schema == TABLES["offset_expiry"].schema
    stored = offsets.toArrow()  # as an audit does: the groups are judged by the written rows
    groups = group_expiry(
        spark.createDataFrame(stored, TABLES["offset_expiry"].schema),
        frames["groups"],
        frames["pending_offsets"],
        **arguments,
        held_groups=None if held_groups is None else held_frame(spark, held_groups),
    )
    assert groups.schema == TABLES["group_expiry"].schema
    return rows_of(stored), rows_of(groups.toArrow())
