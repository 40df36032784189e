import io
import json
from datetime import UTC, datetime

import pytest

from kgroups_spark.commands.output import Column, write_rows

COLUMNS = (
    Column("group_id", "GROUP"),
    Column("expires_at", "EXPIRES-AT (UTC)"),
    Column("is_simple"),
    Column("partitions", "PARTITIONS"),
    Column("user_data"),
)
ROW = {
    "group_id": "orders, eu",
    "expires_at": datetime(2026, 11, 16, 6, 30, 15, 650_000, tzinfo=UTC),
    "is_simple": False,
    "partitions": [{"partition": 3, "read_at": datetime(2026, 11, 16, tzinfo=UTC)}],
    "user_data": b"\x00\xff",
    "not_asked_for": 1,
}
NULLS = {"group_id": "", "expires_at": None, "is_simple": None, "partitions": None, "user_data": None}


def written(rows, form):
    out = io.StringIO()
    assert write_rows(rows, COLUMNS, form, out) == len(rows)
    return out.getvalue()


def test_json_is_one_object_a_line_with_the_column_names():
    first, second = map(json.loads, written([ROW, NULLS], "json").splitlines())
    assert first == {
        "group_id": "orders, eu",
        "expires_at": "2026-11-16T06:30:15.650Z",
        "is_simple": False,
        "partitions": [{"partition": 3, "read_at": "2026-11-16T00:00:00.000Z"}],
        "user_data": "AP8=",
    }
    assert second == NULLS


def test_json_keeps_a_line_end_inside_a_name_inside_its_line():
    assert len(written([NULLS | {"group_id": "a\nb\u2028c"}], "json").split("\n")) == 2


def test_csv_has_a_heading_and_quotes_what_needs_it():
    assert written([ROW, NULLS], "csv").splitlines() == [
        "group_id,expires_at,is_simple,partitions,user_data",
        '"orders, eu",2026-11-16T06:30:15.650Z,false,'
        '"[{""partition"": 3, ""read_at"": ""2026-11-16T00:00:00.000Z""}]",AP8=',
        ",,,,",
    ]


def test_a_table_shows_the_columns_with_a_heading():
    row = ROW | {"partitions": ["a", "b"]}
    assert written([row, NULLS], "table").splitlines() == [
        "GROUP       EXPIRES-AT (UTC)     PARTITIONS",
        "orders, eu  2026-11-16 06:30:15  a,b",
        "            -                    -",
    ]


@pytest.mark.parametrize(("form", "lines"), [("json", 0), ("csv", 1), ("table", 1)])
def test_no_rows_are_no_lines_but_the_heading(form, lines):
    assert len(written([], form).splitlines()) == lines
