"""Rows of the current tables as dicts (times in epoch milliseconds, a missing column is null) to Arrow tables and
back."""

import json

import pyarrow as pa

from kgroups_spark.offsets.expiry import DECIDED_BY, DECISIONS, HELD_GROUPS, CleanUp, columns_needed
from kgroups_spark.tables.schemas import arrow_schema

AUDIT_ID = 7


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
    schema = columns_needed(table)
    columns = [pa.array([plain(row.get(field.name), field) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def rows_of(table):
    """Rows of an Arrow table as dicts, times in epoch milliseconds."""
    columns = {}
    for field in table.schema:
        column = table[field.name]
        is_time = pa.types.is_timestamp(field.type)
        values = column.cast(pa.int64()).to_pylist() if is_time else column.to_pylist()
        columns[field.name] = [None if v is None else v // 1000 for v in values] if is_time else values
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def clean_up(tables, *, as_of, retention_ms, release_version, held_groups=()):
    """Rows of both results of one clean-up over tables ({name: rows}), as dicts."""
    held = [dict(zip(DECIDED_BY[HELD_GROUPS], group, strict=True)) for group in sorted(held_groups)]
    given = {name: arrow_table(name, {**tables, HELD_GROUPS: held}.get(name, [])) for name in DECIDED_BY}
    decided = dict(CleanUp(as_of, retention_ms, release_version, AUDIT_ID).decided(given))
    offsets, groups = (decided[name] for name in DECISIONS)
    for name, result, of in (
        ("offset_expiry", offsets, given["committed_offsets"]),
        ("group_expiry", groups, given["groups"]),
    ):
        assert result.schema == arrow_schema(name)
        result.validate(full=True)
        assert result["group_id"] == of["group_id"], "in the order in which they came"
    return rows_of(offsets), rows_of(groups)
