"""Rows of the current tables as dicts (times in epoch milliseconds, a missing column is null) to Arrow tables and
back."""

import gzip
import json
from functools import cache
from pathlib import Path

import pyarrow as pa

from kgroups_spark.offsets.expiry import DECIDED_BY, DECISIONS, HELD_GROUPS, CleanUp
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
    whole = arrow_schema("groups" if table == HELD_GROUPS else table)
    schema = pa.schema(map(whole.field, DECIDED_BY[table]))
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
        # Texts may be dictionaries.
        assert result.cast(arrow_schema(name)).schema == arrow_schema(name)
        result.validate(full=True)
        assert result["group_id"] == of["group_id"], "in the order in which they came"
    return rows_of(offsets), rows_of(groups)


DATA = Path(__file__).parents[1] / "data" / "expiry"
FILES = sorted(path.name for path in DATA.glob("*.jsonl.gz"))
TIMES = ("commit_timestamp", "expire_timestamp", "current_state_timestamp")
FURTHEST_MS = 9_223_372_036_854_775  # what a TIMESTAMP holds, on either side
COMMON_NOW = 1_700_000_000_000


@cache
def recorded(name):
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def expected(judged_pass):
    """(offsets, groups) that got a tombstone."""
    return {tuple(row) for row in judged_pass["offsets"]}, {tuple(row) for row in judged_pass["groups"]}


def moved(row, number, by_ms):
    """The row in an offsets partition of its own, its times moved: a pass at another instant is then one at
    COMMON_NOW."""
    times = {
        name: max(-FURTHEST_MS, min(FURTHEST_MS, row[name] + by_ms)) for name in TIMES if row.get(name) is not None
    }
    return {**row, **times, "offsets_partition": number}


def all_passes(name):
    """Every pass of a file in one set of tables, each in its own offsets partition, with what Kafka removed in all."""
    tables = {"groups": [], "group_members": [], "committed_offsets": [], "pending_offsets": []}
    offsets, groups = set(), set()
    passes = [(line, judged_pass) for line in recorded(name) for judged_pass in line["passes"]]
    for number, (line, judged_pass) in enumerate(passes):
        for table, rows in line["tables"].items():
            tables[table] += [moved(row, number, COMMON_NOW - judged_pass["now"]) for row in rows]
        removed_offsets, removed_groups = expected(judged_pass)
        offsets |= {(number, *row[1:]) for row in removed_offsets}
        groups |= {(number, *row[1:]) for row in removed_groups}
    (retention_ms,) = {judged_pass["retention_ms"] for _, judged_pass in passes}
    return tables, retention_ms, offsets, groups
