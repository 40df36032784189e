"""`kgroups sql`: statements from the command line, a file, stdin and a terminal; no Spark."""

from __future__ import annotations

import csv
import os
import pty
import re
import select
import subprocess
import sys

import pytest

from kgroups_spark.cli.main import main
from kgroups_spark.cli.sql import statements
from tests.chosen import one_of
from tests.cli.written_lake import ledger, write_lake
from tests.views.recorded import tables_of


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return write_lake(tmp_path_factory.mktemp("lakes") / "lake", tables_of("kip848-4.3") | {"audits": ledger({})})


def kgroups_sql(*arguments, python=("-m", "kgroups_spark"), **options):
    return subprocess.run([sys.executable, *python, "sql", *arguments], stderr=subprocess.PIPE, check=False, **options)


def test_a_full_disk_at_stdout_is_reported(lake, chosen):
    for query in chosen.some(("SELECT 1", "SELECT * FROM range(20000)"), 1):
        with open("/dev/full", "w") as full:
            done = kgroups_sql("--lake", lake, query, stdout=full)
        assert (done.returncode, done.stderr) == (1, b"kgroups: stdout: No space left on device\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_disk_that_takes_only_the_first_bytes_is_reported(lake, tmp_path, unbuffered):
    """Without a buffer, Python itself drops the other bytes."""
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9)); "
        "from kgroups_spark.cli.entry import entry_point; entry_point()"
    )
    more = {"python": ("-c", limited), "env": {**os.environ, "PYTHONUNBUFFERED": unbuffered}}
    with (tmp_path / "rows.csv").open("w") as rows:
        done = kgroups_sql("--lake", lake, "--format", "json", "SELECT 'more' AS text", stdout=rows, **more)
    assert (done.returncode, done.stderr) == (1, b"kgroups: stdout: File too large\n")


def test_rows_and_queries_are_utf_8_in_every_locale(lake):
    text = "SELECT chr(769) || '\u540d' AS name, length('\u540d') AS characters".encode()
    more = {"stdout": subprocess.PIPE, "env": {**os.environ, "PYTHONIOENCODING": "latin1"}}
    done = kgroups_sql("--lake", lake, "--format", "csv", input=text, **more)
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
def test_statements_end_at_a_semicolon_outside_strings(text, complete, rest):
    assert statements(text) == (complete, rest)


def test_statements_follow_the_quotes_of_sparks_sql():
    text = """SELECT 'it\\'s;', "a;b", `c;d` ; SELECT 2"""
    assert statements(text, "spark") == (["""SELECT 'it\\'s;', "a;b", `c;d`"""], "SELECT 2")


@pytest.fixture
def read(lake, tmp_path, capsys, monkeypatch):
    """Reads a text as a file and as stdin; returns exit codes, what both printed to stdout, both stderrs."""

    def run(text):
        file = tmp_path / "queries.sql"
        file.write_bytes(text)
        codes = [main(["sql", "--lake", lake, "--file", str(file), "--format", "csv"])]
        printed = [capsys.readouterr()]
        with open(file, encoding="utf-8") as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            codes.append(main(["sql", "--lake", lake, "--format", "csv"]))
        printed.append(capsys.readouterr())
        assert printed[0].out == printed[1].out
        return codes, printed[0].out, [each.err.replace(str(file), "FILE") for each in printed]

    return run


def test_several_statements_from_a_file_and_from_stdin(read, lake, tmp_path, capsys):
    codes, out, _ = read(b"SELECT 1 AS one; -- first\nSELECT 2 AS two")
    assert (codes, out) == ([0, 0], "one\n1\ntwo\n2\n")
    assert main(["sql", "--lake", lake, "--file", str(tmp_path / "nowhere.sql")]) == 2
    assert capsys.readouterr().err == f"kgroups: {tmp_path}/nowhere.sql: No such file or directory\n"
    assert main(["sql", "--lake", lake, "SELECT 1", "--file", str(tmp_path / "queries.sql")]) == 2


@pytest.mark.parametrize("text", ["", " ;; -- nothing\n", "/* open"])
def test_a_text_without_a_statement_is_refused(read, lake, capsys, text):
    codes, _, errors = read(text.encode())
    assert codes == [2, 2]
    assert [error.partition(" has no statement")[0] for error in errors] == ["kgroups: FILE", "kgroups: stdin"]
    assert main(["sql", "--lake", lake, text]) == 2
    assert capsys.readouterr().err.startswith("kgroups: QUERY has no statement")
    assert main(["sql", "--lake", lake, ".quit"]) == 0


def test_a_byte_order_mark_and_ends_of_lines_of_windows_are_no_sql(read):
    codes, out, _ = read(b"\xef\xbb\xbf.describe coverage\r\nSELECT 1 AS one;\r\n")
    assert codes == [0, 0]
    assert out.startswith("column,type,what\noffsets_partition,") and out.endswith("\none\n1\n")


def test_input_that_is_not_utf_8_is_one_message(read):
    errors = [f"kgroups: {name} is not UTF-8 text: byte 8 is 0xff\n" for name in ("FILE", "stdin")]
    assert read(b"SELECT 1\xff;") == ([2, 2], "", errors)


def test_dot_commands_work_as_at_the_prompt(read, lake, capsys):
    codes, out, [said, _] = read(
        b"SELECT 1 AS one;\n.describe last_audit\n-- more\n.help\nSELECT 2 AS two;\n.exit\nSELECT 3 AS three;\n"
    )
    assert codes == [0, 0]
    assert out.startswith("one\n1\ncolumn,type,what\naudit_id,bigint,") and out.endswith("\ntwo\n2\n")
    assert "last_audit: The last finished audit" in said and ".describe NAME" in said
    assert main(["sql", "--lake", lake, ".help\n.describe nosuch\n.exit\n"]) == 2
    said = capsys.readouterr().err
    assert ".describe NAME" in said and "no table, view or function nosuch" in said


def test_tables_and_describe_list_tables_views_functions_and_columns(lake, capsys):
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


@pytest.mark.parametrize("leave", one_of(b"\x04", b"exit\n", b"QUIT;\n", b".q\n"))
def test_the_prompt_on_a_terminal(leave, lake):
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


def until(terminal, text):
    """Waits for a text; returns everything that the terminal has shown up to it."""
    shown = ""
    while text not in shown:
        assert select.select([terminal], [], [], 60)[0], f"no {text!r} in {shown!r}"
        shown += os.read(terminal, 4096).decode()
    return shown
