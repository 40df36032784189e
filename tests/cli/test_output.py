"""Output: rows in three forms, the cells of a table, progress on a terminal, files that commands write."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroups_spark.cli.form import screen
from kgroups_spark.cli.output import (
    Column,
    Progress,
    csv_rows,
    display_width,
    json_line,
    require_place,
    say,
    show,
    table_cell,
    table_lines,
    terminal_width,
    wide_tables,
    write_file,
    write_rows,
)
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.words import cell_text
from tests.chosen import examples

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


def test_csv_has_a_heading_and_quotes_where_needed():
    assert written([ROW, NULLS], "csv").splitlines() == [
        "group_id,expires_at,is_simple,partitions,user_data",
        '"orders, eu",2026-11-16T06:30:15.650Z,false,'
        '"[{""partition"": 3, ""read_at"": ""2026-11-16T00:00:00.000Z""}]",AP8=',
        ",,,,",
    ]


def test_a_list_in_a_table_is_its_values_and_an_object_is_json():
    assert table_cell(["a", True, None]) == "a,yes,-"
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


def table(columns, *rows, width=None):
    return table_lines(screen(columns), rows, width)[0]


@pytest.mark.parametrize(
    ("columns", "rows", "width", "lines"),
    [
        # Empty texts may be names.
        ("GROUP TOPIC", [["", "a" * 20]], 20, ["GROUP  ''", "TOPIC  " + "a" * 20]),
        ("GROUP N", [["-", None]], 5, ["GROUP", "-"]),
        ("GROUP CURRENT-OFFSET HOST", [], 12, ["GROUP", "CURRENT-OFFSET", "HOST"]),
        ("GROUP", [["a" * 300]], None, ["GROUP", "a" * 300]),
        ("GROUP", [["evil\x1b[2J\nname"]], None, ["GROUP", "evil\\x1b[2J\\nname"]),
        ("GROUP", [["naïve ☕"]], None, ["GROUP", "naïve ☕"]),
    ],
)
def test_a_table_has_these_lines(columns, rows, width, lines):
    assert table(columns, *rows, width=width) == lines


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("", 0)])
def test_width_is_what_a_terminal_shows(text, width):
    assert display_width(text) == width


def test_wide_and_combining_characters_keep_the_alignment():
    lines = table("GROUP N", ["日本日本日本", 1], ["e\u0301\u20dd\u1112\u1161", 2], ["x", 3])
    assert [display_width(line) for line in lines] == [15, 15, 15, 15]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("a b", "a b"),
        ("CORP\\user", "CORP\\user"),
        ("a\x1bc\x9b\x7f\u202e", "a\\x1bc\\x9b\\x7f\\u202e"),
        ("a\\x1bc", "a\\\\x1bc"),
        ("a ", "a\\x20"),
        (" a  b", "\\x20a \\x20b"),
        ("\U000e0041", "\\U000e0041"),
        ("", "''"),
        ("''", r"\x27\x27"),
        (r"\x27\x27", r"\\x27\\x27"),
        ("a\\b ", r"a\\b\x20"),
        ("\t\n\r", r"\t\n\r"),
    ],
)
def test_a_cell_escapes_invisible_characters(text, shown):
    assert cell_text(text) == shown


# For `st.text()` hypothesis first reads all of Unicode: 2 s in a fresh clone.
CHARACTERS = st.one_of(st.integers(0, 0x2FF), st.integers(0x300, 0xD7FF), st.integers(0xE000, 0x10FFFF)).map(chr)
TEXTS = st.lists(CHARACTERS, max_size=30).map("".join)


@examples(30)
@given(TEXTS, TEXTS)
def test_two_names_never_look_alike(one, other):
    assert (cell_text(one) == cell_text(other)) == (one == other)
    assert cell_text(one).isprintable()


NAMES = st.one_of(TEXTS, st.sampled_from(["日本" * 9, "\x1b[31mred", "a\nb", "a  b", " ", "-"]))
CELLS = {"N": st.integers(-(2**63), 2**63), "NAME": NAMES, "MINOR*": st.just("2026-11-16 06:41:36")}
CELLS["WHY~"] = st.lists(st.sampled_from(["a", "list,of", "twelve.words"]), max_size=25).map(" ".join)


@st.composite
def tables(draw):
    columns = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=9))
    rows = draw(st.integers(1, 4))
    return columns, [[draw(st.one_of(CELLS[name], st.none())) for name in columns] for _ in range(rows)]


@examples(20)
@given(tables(), st.integers(20, 250))
def test_every_cell_is_complete_at_any_width(made, width):
    columns, rows = made
    lines, left_out = table_lines(screen(" ".join(columns)), rows, width)
    printed = " ".join(" ".join(lines).split())
    for row in rows:
        for name, cell in zip(columns, row, strict=True):
            if cell is not None and name.rstrip("*") not in left_out:
                words = cell.split() if name == "WHY~" else [" ".join(cell_text(str(cell)).split())]
                assert all(word in printed for word in words)
    assert all(line.isprintable() for line in lines)
    assert left_out in ([], ["MINOR"] * len(left_out))
    heads = [name.rstrip("*~") for name in columns if name.rstrip("*") not in left_out]
    is_in_blocks = lines[0].split() != heads and "" in lines
    assert is_in_blocks or len(rows) == 1 or max(map(display_width, lines)) <= width or len(columns) == 1


# The line on stderr that says what a command is doing.
def on_screen(written):
    """The lines of a terminal after this text: a slow twin of the three sequences that we write."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[\d*[AJ]|\r|\n|[^\x1b\r\n]+", written):
        if part == "\n":
            row += 1
            lines[row:] = [""]
        elif part == "\r":
            pass
        elif part.endswith("A"):
            row -= int(part[2:-1])
        elif part.endswith("J"):
            lines[row:] = [""]
        else:
            lines[row] += part
    return lines


@pytest.mark.parametrize("width", [12, 20, 200])
def test_a_narrow_terminal_shows_every_step_in_full(width, monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    progress = Progress()
    for step in ("asking for the ends of 12,345 topics", "drawing", "saving the state of 50 partitions"):
        progress(step)
        lines = on_screen(out.getvalue())
        assert " ".join(lines).split() == step.split()
        assert all(len(line) < width for line in lines)
    progress.done()
    assert on_screen(out.getvalue()) == [""]


def test_a_terminal_without_control_sequences_gets_lines(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("TERM", "dumb")
    progress = Progress()
    progress("drawing")
    progress.done()
    assert out.getvalue() == "drawing\n"


# Files that commands write: complete or not at all.
def test_a_failed_write_keeps_the_older_page_and_leaves_nothing_else(tmp_path, monkeypatch):
    output = tmp_path / "report.html"
    output.write_bytes(b"older")

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(KgroupsError, match=r"report\.html could not be written: No space left on device"):
        write_file(str(output), b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"report.html": b"older"}


def test_a_symlink_planted_at_the_temporary_name_is_not_followed(tmp_path, monkeypatch):
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"theirs")
    output = tmp_path / "report.html"
    for name in (f".report.html.{os.getpid()}", ".report.html.00"):
        (tmp_path / name).symlink_to(theirs)
    write_file(str(output), b"new")
    assert (output.read_bytes(), theirs.read_bytes()) == (b"new", b"theirs")
    monkeypatch.setattr("os.urandom", lambda _: b"\0")
    with pytest.raises(KgroupsError, match="File exists"):
        write_file(str(output), b"newer")
    assert (output.read_bytes(), theirs.read_bytes()) == (b"new", b"theirs")
    assert (tmp_path / ".report.html.00").is_symlink()


def test_the_umask_decides_who_may_read_a_page(tmp_path):
    before = os.umask(0o027)
    try:
        write_file(str(tmp_path / "report.html"), b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o640


def test_an_interruption_leaves_no_partial_file(tmp_path, monkeypatch):
    def interrupted(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_file(str(tmp_path / "report.html"), b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_uri_is_written_by_pyarrow(tmp_path):
    output = (tmp_path / "report.html").as_uri()
    require_place(output, "x")
    write_file(output, b"new")
    assert (tmp_path / "report.html").read_bytes() == b"new"
    with pytest.raises(KgroupsError, match="gopher://host/x could not be written: "):
        write_file("gopher://host/x", b"new")


@pytest.mark.parametrize("is_link", [False, True])
def test_a_pipe_is_written_and_stays_a_pipe(tmp_path, is_link):
    """As /dev/stdout and /dev/null, which root could replace by a file."""
    pipe = output = tmp_path / "pipe"
    os.mkfifo(pipe)
    if is_link:
        output = tmp_path / "link"
        output.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        require_place(str(output), "x")
        write_file(str(output), b"new")
        assert os.read(reader, 10) == b"new"
    finally:
        os.close(reader)
    assert (pipe.is_fifo(), output.is_symlink()) == (True, is_link)


@pytest.mark.parametrize("older", [b"older and longer", None])
def test_a_link_stays_and_its_target_is_written(tmp_path, older):
    """As a web server's folder has them."""
    target, link = tmp_path / "srv" / "page.html", tmp_path / "report.html"
    target.parent.mkdir()
    if older is not None:
        target.write_bytes(older)
    link.symlink_to(Path("srv") / "page.html")
    require_place(str(link), "x")
    write_file(str(link), b"new")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"new")
    assert [path.name for path in target.parent.iterdir()] == ["page.html"]
    link.unlink()
    link.symlink_to(tmp_path / "gone" / "page.html")
    with pytest.raises(UsageError, match=f"no folder {tmp_path}/gone; create it first"):
        require_place(str(link), "x")


def test_a_link_among_the_devices_stays_a_link(tmp_path, monkeypatch):
    """As /dev/stdout, where stdout is a file."""
    monkeypatch.setattr("kgroups_spark.cli.output._DEVICES", tmp_path / "dev")
    (tmp_path / "dev").mkdir()
    stdout, target = tmp_path / "dev" / "stdout", tmp_path / "page.html"
    target.write_bytes(b"older and longer")
    stdout.symlink_to(target)
    require_place(str(stdout), "x")
    write_file(str(stdout), b"new")
    assert (stdout.is_symlink(), target.read_bytes()) == (True, b"new")


def test_a_plain_file_among_the_devices_is_written_completely_or_not_at_all(tmp_path, monkeypatch):
    """As those in /dev/shm."""
    monkeypatch.setattr("kgroups_spark.cli.output._DEVICES", tmp_path)
    test_a_failed_write_keeps_the_older_page_and_leaves_nothing_else(tmp_path, monkeypatch)


def test_an_unusable_output_path_is_refused_before_any_work(tmp_path):
    with pytest.raises(UsageError, match=r"is a folder; name a file in it: .*/x\.csv"):
        require_place(str(tmp_path), "x.csv")
    with pytest.raises(UsageError, match=r"no folder .*; create it first"):
        require_place(str(tmp_path / "no" / "x.csv"), "x.csv")


def test_a_dash_is_stdout(tmp_path, monkeypatch, capfdbinary):
    monkeypatch.chdir(tmp_path)
    require_place("-", "x")
    write_file("-", b"new")
    assert (capfdbinary.readouterr().out, list(tmp_path.iterdir())) == (b"new", [])
