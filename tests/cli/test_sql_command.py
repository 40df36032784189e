"""`kgroups sql`: statements from the command line, a file, stdin and a terminal; no Spark."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from kgroups_spark.cli.main import main
from kgroups_spark.cli.sql import statements
from tests.chosen import Chosen
from tests.cli.written_lake import ledger, write_lake
from tests.lake.table_rows import rows_of
from tests.views.recorded import tables_of

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_lake(tmp_path_factory.mktemp("lakes") / "lake", tables_of("kip848-4.3") | {"audits": ledger({})})


def test_a_column_of_another_table_is_named(lake: str, capsys: Captured) -> None:
    assert main(["sql", "--lake", lake, "SELECT topic FROM topics WHERE is_gone"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "is_gone is a column of topic_ids"
    assert main(["sql", "--lake", lake, "SELECT nothing_like_it FROM topics"]) == 1
    assert "is a column of" not in capsys.readouterr().err


def test_messages_of_duckdb_have_blanks_for_tabs(lake: str, capsys: Captured) -> None:
    assert main(["sql", "--lake", lake, "SELECT * FROM groups_as_of()"]) == 1
    assert capsys.readouterr().err.splitlines()[1:] == ["Candidate macros:", "    groups_as_of(ts)"]


def test_a_full_disk_at_stdout_is_reported(lake: str, chosen: Chosen) -> None:
    for query in chosen.some(("SELECT 1", "SELECT * FROM range(20000)"), 1):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "kgroups_spark", "sql", "--lake", lake, query],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert (done.returncode, done.stderr) == (1, "kgroups: stdout: No space left on device\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_disk_that_takes_only_the_first_bytes_is_reported(lake: str, tmp_path: Path, unbuffered: str) -> None:
    """Without a buffer, Python itself drops the other bytes."""
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9)); "
        "from kgroups_spark.cli.entry import entry_point; entry_point()"
    )
    with (tmp_path / "rows.csv").open("w") as rows:
        done = subprocess.run(
            [sys.executable, "-c", limited, "sql", "--lake", lake, "--format", "json", "SELECT 'more' AS text"],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=rows,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "kgroups: stdout: File too large\n")


def test_rows_and_queries_are_utf_8_in_every_locale(lake: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kgroups_spark", "sql", "--lake", lake, "--format", "csv"],
        input="SELECT chr(769) || '\u540d' AS name, length('\u540d') AS characters".encode(),
        env={**os.environ, "PYTHONIOENCODING": "latin1"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout.decode()) == (0, "name,characters\n\u0301\u540d,1\n")


@pytest.mark.parametrize(
    ("text", "complete", "rest"),
    [
        ("SELECT 1; SELECT ';' ;", ["SELECT 1", "SELECT ';'"], ""),
        ("SELECT ';", [], "SELECT ';"),
        ('SELECT "a;b" -- e;f\n', [], 'SELECT "a;b" -- e;f'),
        ("SELECT $$a;b$$; SELECT 'c;", ["SELECT $$a;b$$"], "SELECT 'c;"),
        ("EXPLAIN SELECT ';'; SHOW TABLES", ["EXPLAIN SELECT ';'"], "SHOW TABLES"),
        ("SELECT 'it''s;' /* ; */ ; SELECT 2", ["SELECT 'it''s;' /* ; */"], "SELECT 2"),
        (" ;; -- nothing\n", [], ""),
        ("/* open ; ", [], ""),
        (".tables", [".tables"], ""),
        (" .describe a; b \n\\d c\n", [".describe a; b", "\\d c"], ""),
        ("SELECT 1;\n.tables\nSELECT\n.5;.help", ["SELECT 1", ".tables", "SELECT\n.5", ".help"], ""),
        ("SELECT 1; SELEC 2; SELECT 3", ["SELECT 1", "SELEC 2"], "SELECT 3"),
        ("-- what is there\n/* ; */ .tables\nSELECT '\n.help\n'", [".tables"], "SELECT '\n.help\n'"),
    ],
)
def test_statements_end_at_a_semicolon_outside_strings(text: str, complete: list[str], rest: str) -> None:
    assert statements(text) == (complete, rest)


def test_statements_follow_the_quotes_of_sparks_sql() -> None:
    text = """SELECT 'it\\'s;', "a;b", `c;d` ; SELECT 2"""
    assert statements(text, "spark") == (["""SELECT 'it\\'s;', "a;b", `c;d`"""], "SELECT 2")


def test_tables_json_and_csv(lake: str, capsys: Captured) -> None:
    query = "SELECT group_id, state_since, resolved_regex_topics FROM groups ORDER BY group_id LIMIT 2"
    out = {}
    for form in ("table", "json", "csv"):
        assert main(["sql", "--lake", lake, query, "--format", form]) == 0
        out[form], said = capsys.readouterr()
        assert said == "2 rows (audit 1, as of 2026-11-16 06:30:00 UTC)\n"
    groups = sorted(row["group_id"] for row in tables_of("kip848-4.3")["groups"].to_pylist())[:2]
    assert [line.split()[0] for line in out["table"].splitlines()] == ["group_id", *groups]
    assert [json.loads(line)["group_id"] for line in out["json"].splitlines()] == groups
    rows = list(csv.DictReader(out["csv"].splitlines()))
    assert [row["group_id"] for row in rows] == groups
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["state_since"]) for row in rows)


def test_values_of_every_kind(lake: str, capsys: Captured) -> None:
    query = """
      SELECT DATE '2026-01-02' AS d, 1.50::DECIMAL(5, 2) AS x, 'nan'::DOUBLE AS f, 'a'::BLOB AS b, [1, NULL] AS l,
        {'k': TIMESTAMP '2026-01-02 03:04:05'} AS s, 1 AS a, 2 AS a, sum(1) AS n, NULL AS nothing
    """
    assert main(["sql", "--lake", lake, query, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "d": "2026-01-02", "x": "1.50", "f": "nan", "b": "YQ==", "l": [1, None], "s": {"k": "2026-01-02T03:04:05.000Z"},
        "a": 1, "a_1": 2, "n": 1, "nothing": None,
    }  # fmt: skip


def test_a_difference_of_times_is_a_duration(lake: str, capsys: Captured) -> None:
    query = "SELECT as_of - TIMESTAMPTZ '2026-11-15 05:29:59.5Z' AS age, NULL::INTERVAL AS n FROM last_audit"
    assert main(["sql", "--lake", lake, query, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"age": "1d 1h 500ms", "n": None}


def test_bytes_are_base64_in_a_table_too(lake: str, capsys: Captured) -> None:
    assert main(["sql", "--lake", lake, "SELECT '\\x00\\xFF'::BLOB AS b, ['a'::BLOB] AS list"]) == 0
    assert capsys.readouterr().out.split() == ["b", "list", "AP8=", "YQ=="]


def test_columns_of_one_name_get_names_that_no_other_column_has(lake: str, capsys: Captured) -> None:
    assert main(["sql", "--lake", lake, "SELECT 1 AS a_2, 2 AS a, 3 AS a, 4 AS a_1", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"a_2": 1, "a": 2, "a_1": 3, "a_1_1": 4}


def test_several_statements_from_a_file_and_from_stdin(
    lake: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "queries.sql"
    file.write_text("SELECT 1 AS one; -- first\nSELECT 2 AS two")
    assert main(["sql", "--lake", lake, "--file", str(file), "--format", "csv"]) == 0
    from_file = capsys.readouterr().out
    assert from_file == "one\n1\ntwo\n2\n"
    with open(file) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(["sql", "--lake", lake, "--format", "csv"]) == 0
    assert capsys.readouterr().out == from_file
    assert main(["sql", "--lake", lake, "--file", str(tmp_path / "nowhere.sql")]) == 2
    assert capsys.readouterr().err == f"kgroups: {tmp_path}/nowhere.sql: No such file or directory\n"
    assert main(["sql", "--lake", lake, "SELECT 1", "--file", str(file)]) == 2


@pytest.mark.parametrize("text", ["", " ;; -- nothing\n", "/* open"])
def test_a_text_without_a_statement_is_refused(
    lake: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    file = tmp_path / "queries.sql"
    file.write_text(text)
    with open(file) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        for source, options in (("QUERY", [text]), (str(file), ["--file", str(file)]), ("stdin", [])):
            assert main(["sql", "--lake", lake, *options]) == 2
            assert capsys.readouterr().err.startswith(f"kgroups: {source} has no statement")
    assert main(["sql", "--lake", lake, ".quit"]) == 0


def test_a_byte_order_mark_and_ends_of_lines_of_windows_are_no_sql(
    lake: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "queries.sql"
    file.write_bytes(b"\xef\xbb\xbf.describe coverage\r\nSELECT 1 AS one;\r\n")
    assert main(["sql", "--lake", lake, "--file", str(file), "--format", "csv"]) == 0
    from_file = capsys.readouterr().out
    assert from_file.startswith("column,type,what\noffsets_partition,") and from_file.endswith("\none\n1\n")
    with open(file, encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(["sql", "--lake", lake, "--format", "csv"]) == 0
    assert capsys.readouterr().out == from_file


@pytest.mark.parametrize(
    "value",
    [
        "'infinity'::TIMESTAMP",
        "DATE '290000-01-01'",
        "TIMESTAMPTZ '12000-01-01 00:00:00Z'",
        "MAP {[1]: 2}",
        "{'in': [TIMESTAMP '290000-01-01']}",
    ],
)
def test_a_value_that_python_cannot_represent_is_one_message(lake: str, capsys: Captured, value: str) -> None:
    assert main(["sql", "--lake", lake, f"SELECT 1 AS one, {value} AS odd"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("kgroups: the answer has a value that cannot be shown")
    assert main(["sql", "--lake", lake, f"SELECT ({value})::VARCHAR AS odd"]) == 0


def test_input_that_is_not_utf_8_is_one_message(
    lake: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "queries.sql"
    file.write_bytes(b"SELECT 1\xff;")
    assert main(["sql", "--lake", lake, "--file", str(file)]) == 2
    assert capsys.readouterr().err == f"kgroups: {file} is not UTF-8 text: byte 8 is 0xff\n"
    with open(file, encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(["sql", "--lake", lake]) == 2
    assert capsys.readouterr().err == "kgroups: stdin is not UTF-8 text: byte 8 is 0xff\n"


def test_dot_commands_work_as_at_the_prompt(
    lake: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "queries.sql"
    file.write_text(
        "SELECT 1 AS one;\n.describe last_audit\n-- more\n.help\nSELECT 2 AS two;\n.exit\nSELECT 3 AS three;\n"
    )
    assert main(["sql", "--lake", lake, "--file", str(file), "--format", "csv"]) == 0
    from_file, said = capsys.readouterr()
    assert from_file.startswith("one\n1\ncolumn,type,what\naudit_id,bigint,") and from_file.endswith("\ntwo\n2\n")
    assert "last_audit: The last finished audit" in said and ".describe NAME" in said
    with open(file) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert main(["sql", "--lake", lake, "--format", "csv"]) == 0
    assert capsys.readouterr().out == from_file
    assert main(["sql", "--lake", lake, ".help\n.describe nosuch\n.exit\n"]) == 2
    said = capsys.readouterr().err
    assert ".describe NAME" in said and "no table, view or function nosuch" in said


def test_a_failed_statement_is_reported_and_later_ones_are_not_run(lake: str, capsys: Captured) -> None:
    assert main(["sql", "--lake", lake, "SELECT 1 AS one; SELECT * FROM offset_histori; SELECT 3 AS three"]) == 1
    out, said = capsys.readouterr()
    assert "one" in out and "three" not in out
    assert (
        'kgroups: Catalog Error: Table with name offset_histori does not exist!\nDid you mean "offset_history"?' in said
    )
    assert said.endswith(
        "in kgroups sql, .tables lists tables, views and functions, .describe NAME the columns of one\n"
    )


def test_tables_and_describe_list_tables_views_functions_and_columns(lake: str, capsys: Captured) -> None:
    assert main(["sql", "--lake", lake, ".tables", "--format", "csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    kinds = {row["name"].partition("(")[0]: row["kind"] for row in rows}
    assert (kinds["groups"], kinds["offset_history"], kinds["groups_as_of"]) == ("table", "view", "function")
    assert all(len(row["what"]) > 5 for row in rows)
    for name in ("groups", "offset_history", "consumer_group_metadata_records"):
        assert main(["sql", "--lake", lake, f".describe {name}", "--format", "csv"]) == 0
        columns = list(csv.DictReader(capsys.readouterr().out.splitlines()))
        assert main(["sql", "--lake", lake, f"DESCRIBE {name}", "--format", "csv"]) == 0
        described = list(csv.DictReader(capsys.readouterr().out.splitlines()))
        assert [row["column"] for row in columns] == [row["column_name"] for row in described] != []
        assert all(row["type"] and row["what"] for row in columns)
    assert main(["sql", "--lake", lake, ".describe expiring"]) == 0
    assert capsys.readouterr().err.startswith(
        "expiring(until := NULL, retention := NULL, if_empty := NULL): Committed offsets"
    )
    assert main(["sql", "--lake", lake, r"\d offset_histri"]) == 2
    assert "no table, view or function offset_histri; did you mean offset_history" in capsys.readouterr().err
    for command in (".describe", "\\d ;"):
        assert main(["sql", "--lake", lake, command]) == 2
        assert capsys.readouterr().err == f"kgroups: {command.split(' ')[0]} needs a name (.tables has all)\n"
    assert main(["sql", "--lake", lake, ".quit now"]) == 2
    assert capsys.readouterr().err == "kgroups: .quit takes no argument\n"
    assert main(["sql", "--lake", lake, ".tabels"]) == 2
    assert "kgroups: .tabels is unknown; did you mean .tables?" in capsys.readouterr().err


def test_without_a_finished_audit_there_are_no_rows(tmp_path: Path, capsys: Captured) -> None:
    empty: dict[str, pa.Table] = {"audits": ledger({"status": "running"})}
    assert main(["sql", "--lake", write_lake(tmp_path / "lake", empty), "SELECT * FROM groups"]) == 0
    assert capsys.readouterr().err == "0 rows (no audit has finished)\n"


@pytest.mark.parametrize("leave", [b"\x04", b"exit\n", b"QUIT;\n", b".q\n"])
def test_the_prompt_on_a_terminal(leave: bytes, lake: str) -> None:
    """TAB completes a view's name, a statement goes on in the next line, a mistake does not end it; exit does."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "kgroups_spark.cli.main", "sql", "--lake", lake]
    env = os.environ | {
        "TERM": "dumb",
        "INPUTRC": os.devnull,
        "COLUMNS": "200",
        "LINES": "50",
        "PAGER": "sed s/^/paged:/",
    }
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, close_fds=True) as running:
        os.close(theirs)
        try:
            until(ours, "kgroups> ")
            os.write(ours, b"SELECT count(*) AS n_of FROM last_aud\t\n")
            assert "last_audit" in until(ours, "     ... ")
            os.write(ours, b"WHERE audit_id = 99;\n")
            assert re.search(r"\nn_of\s+0\s+1 row \(audit 1", until(ours, "kgroups> "))
            os.write(ours, b"SELECT nothing_like_it FROM last_audit;\n")
            assert '"nothing_like_it" not found' in until(ours, "kgroups> ")
            os.write(ours, b".help\n")
            assert ".describe NAME" in until(ours, "kgroups> ")
            os.write(ours, b".desc last_audit\n")
            assert "last_audit: The last finished audit" in until(ours, "kgroups> ")
            os.write(ours, b"SELECT * FROM range(1000);\n")
            shown = until(ours, "kgroups> ")  # longer than the terminal
            assert "paged:  499" in shown
            assert "1,000 rows, the first 500 shown: kgroups sql QUERY prints all (audit 1" in shown
            os.write(ours, b"SELECT 1 AS\nexit;\n")  # a name within a statement
            assert re.search(r"exit\s+1\s+1 row \(audit", until(ours, "kgroups> "))
            os.write(ours, leave)
            until(ours, "\n")
            assert running.wait(60) == 0
        finally:
            running.kill()
            os.close(ours)


def until(terminal: int, text: str) -> str:
    """Waits for a text; returns everything that the terminal has shown up to it."""
    shown = ""
    while text not in shown:
        assert select.select([terminal], [], [], 60)[0], f"no {text!r} in {shown!r}"
        shown += os.read(terminal, 4096).decode()
    return shown


def test_a_lag_that_no_audit_could_know_is_explained(lake: str, tmp_path: Path, capsys: Captured) -> None:
    notice = "lag is null: no audit of a live cluster has asked"
    window = "SELECT lag(group_id) OVER (ORDER BY group_id) AS lag FROM groups"
    for query, is_told in (
        ("SELECT lag FROM lag", True),
        ("SELECT 1 FROM groups JOIN share_lag ON true", True),
        (window, False),
    ):
        assert main(["sql", "--lake", lake, query]) == 0
        assert (notice in capsys.readouterr().err) is is_told
    ends = rows_of("topic_offsets", {"topic": "t", "log_end_offset": 9, "status": "ok"})
    live = write_lake(tmp_path / "live", tables_of("kip848-4.3") | {"audits": ledger({}), "topic_offsets": ends})
    assert main(["sql", "--lake", live, "SELECT lag FROM lag"]) == 0
    assert notice not in capsys.readouterr().err
