import csv
import io
import json
import sys
from datetime import UTC, datetime

import pytest

from kgroups_spark.cli.output import (
    Column,
    csv_rows,
    json_line,
    say,
    show,
    table_cell,
    terminal_width,
    wide_tables,
    write_rows,
)

COLUMNS = (
    Column("group_id", "GROUP"),
    Column("expires_at", "EXPIRES-AT (UTC)"),
    Column("is_simple"),
    Column("partitions", "PARTITIONS"),
    Column("user_data"),
)
SHOWN = [column for column in COLUMNS if column.heading]
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
    columns = COLUMNS if form != "table" else SHOWN
    assert write_rows(rows, columns, form, out) == len(rows)
    return out.getvalue()


def test_json_has_one_object_per_line_with_the_column_names():
    first, second = map(json.loads, written([ROW, NULLS], "json").splitlines())
    assert first == {
        "group_id": "orders, eu",
        "expires_at": "2026-11-16T06:30:15.650Z",
        "is_simple": False,
        "partitions": [{"partition": 3, "read_at": "2026-11-16T00:00:00.000Z"}],
        "user_data": "AP8=",
    }
    assert second == NULLS


def test_json_escapes_line_ends_in_names():
    assert len(written([NULLS | {"group_id": "a\nb\u2028c"}], "json").split("\n")) == 2


def test_csv_has_a_heading_and_quotes_where_needed():
    assert written([ROW, NULLS], "csv").splitlines() == [
        "group_id,expires_at,is_simple,partitions,user_data",
        '"orders, eu",2026-11-16T06:30:15.650Z,false,'
        '"[{""partition"": 3, ""read_at"": ""2026-11-16T00:00:00.000Z""}]",AP8=',
        ",,,,",
    ]


def test_a_table_has_a_heading_for_each_column():
    row = ROW | {"partitions": ["a", "b"]}
    assert written([row, NULLS], "table").splitlines() == [
        "GROUP       EXPIRES-AT (UTC)     PARTITIONS",
        "orders, eu  2026-11-16 06:30:15  a,b",
        "''          -                    -",
    ]


def test_an_object_in_a_table_is_json():
    assert table_cell({"at": ROW["expires_at"], "n": [1]}) == '{"at": "2026-11-16T06:30:15.650Z", "n": [1]}'


@pytest.mark.parametrize(("form", "lines"), [("json", 0), ("csv", 1), ("table", 1)])
def test_without_rows_there_is_only_the_heading(form, lines):
    assert len(written([], form).splitlines()) == lines


class Terminal(io.StringIO):
    def isatty(self):
        return True


HOSTILE = [
    "x\rorders-etl",
    "a\nb",
    "a\r\nb",
    '"',
    "a,b",
    "=1+1",
    "+1",
    "-1",
    "@a",
    "\x1bc\x9b",
    "\u202eabc",
    "日本",
    " a ",
]


def test_csv_survives_readers_that_end_lines_at_a_carriage_return():
    rows = [NULLS | {"group_id": name} for name in HOSTILE]
    read = list(csv.DictReader(io.StringIO(written(rows, "csv"), newline="")))
    assert [row["group_id"] for row in read] == HOSTILE


def test_csv_has_the_same_bytes_in_every_python():
    """Python 3.13 writes these bytes by itself; 3.11 and 3.12 would leave a lone carriage return unquoted."""
    out = io.StringIO()
    csv_rows(out)(["a\rb", "c\nd", "e f", 'g"h', "", None, True, [1, "\r"], -5, 1.5])
    assert out.getvalue() == '"a\rb","c\nd",e f,"g""h",,,true,"[1, ""\\r""]",-5,1.5\n'


def test_on_a_terminal_csv_has_no_control_characters():
    out = Terminal()
    write_rows([NULLS | {"group_id": "x\x1bc\x9b"}], COLUMNS, "csv", out)
    assert out.getvalue().splitlines()[1] == "x\\x1bc\\x9b,,,,"


@pytest.mark.parametrize("name", [*HOSTILE, "\x00", "\x7f", "\u2028", "\U000e0041", "\u00ad", "\ufeff", "😀"])
def test_json_keeps_names_and_has_no_control_characters(name):
    line = json_line({"group_id": name})
    assert json.loads(line) == {"group_id": name}
    assert line.removesuffix("\n").isprintable()


def test_messages_stay_on_one_line_whatever_a_name_contains(capsys):
    say("did you mean a\x1bc\nkgroups: all is well\x9b\u202e?")
    show("a\x1b]0;title\x07 \x1b[31m\x1b[2J")
    out, err = capsys.readouterr()
    assert err == "did you mean a\\x1bc\\nkgroups: all is well\\x9b\\u202e?\n"
    assert out == "a\\x1b]0;title\\x07 \\x1b[31m\\x1b[2J\n"


def test_a_table_fits_the_terminal_unless_a_wide_one_is_asked_for(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    for is_wide, lines in ((False, 3), (True, 2)):
        out = Terminal()
        with wide_tables(is_wide):
            write_rows([ROW], SHOWN, "table", out)
        assert len(out.getvalue().splitlines()) == lines
    assert len(written([ROW], "table").splitlines()) == 2


@pytest.mark.parametrize(("columns", "width"), [("", 80), ("0", 80), ("x", 80), ("132", 132)])
def test_the_width_is_that_of_the_variable_columns_or_of_the_terminal(columns, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_width(Terminal()) == width


def test_a_sentence_on_a_terminal_breaks_between_words(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stderr", Terminal())
    say("18 offsets of 6 groups will expire by 2026-11-16 06:41:21 UTC, retention 7d")
    say("  ledger: audit 1 finished 2026-11-26 18:39:06 UTC after 20.8 s")
    say("  a-command --with many --options that --somebody may --copy")
    assert sys.stderr.getvalue().splitlines() == [
        "18 offsets of 6 groups will expire by",
        "  2026-11-16 06:41:21 UTC, retention 7d",
        "  ledger: audit 1 finished",
        "    2026-11-26 18:39:06 UTC after 20.8 s",
        "  a-command --with many --options that --somebody may --copy",
    ]


def test_a_sentence_in_a_file_is_one_line(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    say("18 offsets of 6 groups will expire by 2026-11-16 06:41:21 UTC, retention 7d")
    assert capsys.readouterr().err.count("\n") == 1
