"""Rows of the current tables as dicts (times in epoch milliseconds, a missing column is null) to Arrow tables and
back."""

import json

import pyarrow as pa

from kgroups_spark.expiry import group_expiry, offset_expiry
from kgroups_spark.tables.schemas import arrow_schema

AUDIT_ID = 7
READ = {  # the columns that expiry looks at, and no other
    "groups": (
        "offsets_partition group_id group_type state protocol_type protocol generation current_state_timestamp "
        "resolved_regex_topics topology stored_description_epoch"
    ),
    "group_members": "offsets_partition group_id subscribed_topics",
    "committed_offsets": (
        "offsets_partition group_id topic partition committed_offset log_offset commit_timestamp expire_timestamp "
        "value_version"
    ),
    "pending_offsets": "offsets_partition group_id topic partition",
}
HELD = pa.schema([arrow_schema("groups").field(name) for name in ("offsets_partition", "group_id")])


def plain(value, field):
    if value is None:
        return None
    if pa.types.is_timestamp(field.type):
        return value * 1000
    if field.name == "topology":
        return json.dumps(value)
    if field.name == "resolved_regex_topics":
        return list(value.items())
    return value


def arrow_table(table, rows):
    schema = pa.schema([arrow_schema(table).field(name) for name in READ[table].split()])
    columns = [pa.array([plain(row.get(field.name), field) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def held_table(held_groups):
    return pa.Table.from_pylist([dict(zip(HELD.names, group, strict=True)) for group in sorted(held_groups)], HELD)


def rows_of(table):
    """Rows of an Arrow table as dicts, times in epoch milliseconds."""
    columns = {}
    for field in table.schema:
        column = table[field.name]
        is_time = pa.types.is_timestamp(field.type)
        values = column.cast(pa.int64()).to_pylist() if is_time else column.to_pylist()
        columns[field.name] = [None if v is None else v // 1000 for v in values] if is_time else values
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def clean_up(tables, *, as_of, retention_ms, release_version, held_groups=None):
    """Rows of both results of one clean-up over tables ({name: rows}), as dicts."""
    given = {name: arrow_table(name, tables.get(name, [])) for name in READ}
    arguments = {"as_of": as_of, "retention_ms": retention_ms, "release_version": release_version, "audit_id": AUDIT_ID}
    offsets = offset_expiry(**given, **arguments)
    groups = group_expiry(
        offsets,
        given["groups"],
        given["pending_offsets"],
        **arguments,
        held_groups=None if held_groups is None else held_table(held_groups),
    )
    for name, result, of in (
        ("offset_expiry", offsets, given["committed_offsets"]),
        ("group_expiry", groups, given["groups"]),
    ):
        assert result.schema == arrow_schema(name)
        result.validate(full=True)
        assert result["group_id"] == of["group_id"], "in the order in which they came"
    return rows_of(offsets), rows_of(groups)
