"""People type commands, often wrong ones: one message on stderr, the exit code, nothing on stdout, nothing written."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

import pytest

from kgroups_spark import __version__
from kgroups_spark.audit.options import AuditOptions, MaintainOptions, silent
from kgroups_spark.audit.run import RebuildOptions
from kgroups_spark.cli.completion import SHELLS
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.cli.form import HelpFormatter, options_of
from kgroups_spark.cli.main import NAMES, command_line, main, parse
from kgroups_spark.errors import KgroupsError
from tests.chosen import one_of
from tests.cli.golden import screen, screens

# Those that name places of this machine, or are no text.
BAD_USAGE = [
    ("sql SELECT\udcff", r"kgroups: QUERY: 'SELECT\udcff' is not UTF-8 text"),
    ("history --topic \udcff", r"kgroups: --topic: '\udcff' is not UTF-8 text"),
    (f"audit --lake ./new --segments {SEGMENTS} --partition 3,8", "kgroups: no folder __consumer_offsets-8 in "),
    (f"audit --lake {__file__} --segments .", f"kgroups: --lake {__file__} is a file; name a folder"),
    (
        f"audit --engine local --lake s3://b/lake --segments {SEGMENTS}",
        "kgroups: --engine local writes to a folder of ",
    ),
    (f"groups --lake {__file__}", f"kgroups: --lake {__file__} is a file; name a folder"),
    *(
        (f"{words} --lake {SEGMENTS}", f"kgroups: {SEGMENTS} is neither a lake nor empty: it holds ")
        for words in ("audit --segments .", "demo")
    ),
]

ROOT = Path(__file__).parent.parent.parent
SEGMENT = SEGMENTS / "__consumer_offsets-0" / f"{0:020}.log"


def run_python(*arguments, **environment):
    """Runs Python in a process of its own, which finds the package here, installed or not."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    environment.pop("JAVA_HOME", None)
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture(autouse=True)
def spark_is_not_set_up(monkeypatch):
    """No session and no catalog, even if an earlier test has started Spark."""
    monkeypatch.setattr("kgroups_spark.cli.open_lake.may_have_catalog", lambda: False)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    """Where the commands run; still empty afterwards."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("KGROUPS_LAKE", raising=False)
    yield folder
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("line", "message"), BAD_USAGE, ids=[line for line, _ in BAD_USAGE])
def test_bad_usage_gives_one_message_and_exit_code_2(line, message, capsys):
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(message)
    assert err.count("\n") == 1


@pytest.mark.parametrize("usage", screens("usage"), ids=lambda usage: usage.command)
def test_a_mistake_prints_its_screen(usage, capsys, pytestconfig):
    code = main(usage.command.split())
    usage.check(screen(code, *capsys.readouterr()), pytestconfig)


@pytest.mark.parametrize(
    ("command", "kind", "others"),
    [("audit", AuditOptions, {"client": None}), ("rebuild", RebuildOptions, {}), ("maintain", MaintainOptions, {})],
)
def test_a_command_has_the_defaults_of_its_function(command, kind, others):
    others |= {"lake": "./lake", "progress": silent}
    assert options_of(kind, parse([command]), **others) == kind("./lake")


def test_no_command_shows_the_help_on_stderr(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "examples:" in err
    assert err.endswith("kgroups: no command given; try kgroups demo\n")


@pytest.mark.parametrize("command", NAMES)
def test_help_teaches_by_examples_that_are_valid_commands(command, capsys):
    assert main([command, "--help"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    examples = [line for line in out.split("examples:")[1].splitlines() if line.startswith("  kgroups")]
    assert examples
    assert all(line.split()[1] == command for line in examples)


def test_a_command_loads_no_others(capsys, monkeypatch):
    asked = []
    monkeypatch.setattr("kgroups_spark.cli.main.import_module", lambda name: asked.append(name) or import_module(name))
    for line in ("groups --help", "help groups"):
        assert main(line.split()) == 0
    assert asked == ["kgroups_spark.cli.groups"] * 2
    capsys.readouterr()


def test_help_lists_exactly_the_commands(capsys):
    assert main(["--help"]) == 0
    listed = re.findall(r"^    ([\w-]+)(?: |$)", capsys.readouterr().out, flags=re.MULTILINE)
    assert listed == list(NAMES)
    assert {"describe", "history", "export-offsets"} < set(listed)


@pytest.mark.parametrize(("line", "same"), [("help", "--help"), ("help audit", "audit --help")])
def test_the_command_help_equals_the_option_help(line, same, capsys):
    assert main(line.split()) == 0
    shown = capsys.readouterr()
    assert main(same.split()) == 0
    assert capsys.readouterr() == shown
    assert shown.err == ""


@pytest.mark.parametrize("typed", ["--version", "-V", "version"])
def test_the_version_is_printed(typed, capsys):
    assert main([typed]) == 0
    assert capsys.readouterr() == (f"kgroups {__version__}\n", "")


def test_help_names_the_default_lake(capsys):
    assert main(["demo", "--help"]) == 0
    assert "(default: $KGROUPS_LAKE, else ./lake)" in " ".join(capsys.readouterr().out.split())
    assert main(["groups", "--help"]) == 0
    assert "(default: $KGROUPS_LAKE)" in " ".join(capsys.readouterr().out.split())


def test_the_lake_may_be_named_by_the_environment(capsys, monkeypatch):
    monkeypatch.setenv("KGROUPS_LAKE", "here/c")
    assert main(["groups"]) == 2
    assert capsys.readouterr().err.startswith("kgroups: no lake at here/c")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "kgroups: interrupted\n"),
        (PermissionError(13, "Permission denied", "/x/1.log"), 1, "kgroups: /x/1.log: Permission denied\n"),
        (KgroupsError("a\x1bc\nkgroups: fine", "b\x9b"), 1, "kgroups: a\\x1bc\\nkgroups: fine\nb\\x9b\n"),
        (OSError("\x1b[2J"), 1, "kgroups: \\x1b[2J\n"),
    ],
    ids=["interrupted", "unreadable", "hostile names", "hostile system"],
)
def test_errors_and_interruptions_print_a_message_and_no_stack(error, code, message, capsys, monkeypatch):
    def fail(path, topic):
        raise error

    monkeypatch.setattr("kgroups_spark.cli.dump.segments_at", fail)
    assert main(["dump", "x"]) == code
    assert capsys.readouterr() == ("", message)


def test_a_bug_in_kgroups_prints_a_stack_without_control_characters(capsys, monkeypatch):
    def fail(path, topic):
        raise ZeroDivisionError("orders\x1bc\u202e")

    monkeypatch.setattr("kgroups_spark.cli.dump.segments_at", fail)
    assert main(["dump", "x"]) == 1
    err = capsys.readouterr().err
    assert "in fail" in err and "ZeroDivisionError: orders\\x1bc\\u202e" in err
    assert err.endswith("the lines above show where it happened\n")
    assert err.replace("\n", "").isprintable()


def test_library_log_messages_are_escaped_and_py4j_stacks_are_not_shown(capsys, monkeypatch):
    def log(path, topic):
        logging.getLogger("a.library").warning("orders\x1bc")
        logging.getLogger("a.library").info("more than a person wants")
        logging.getLogger().handle(logging.LogRecord("root", 40, "/x/py4j/java_gateway.py", 1, "a stack", (), None))
        return []

    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr("kgroups_spark.cli.dump.segments_at", log)
    assert main(["dump", "x"]) == 1
    assert capsys.readouterr().err == "orders\\x1bc\nkgroups: x: no segment file (*.log)\n"
    assert logging.getLogger().handlers == []


def in_bash(words):
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{sys.executable} -m kgroups_spark {words}"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_pipe_into_head_exits_0():
    done = in_bash(f"dump {SEGMENTS / '__consumer_offsets-0'} | head -1")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)


def test_a_process_has_the_same_exit_code_and_streams():
    done = run_python("-m", "kgroups_spark", "dump")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kgroups: the following arguments are required: FILE|DIR")


@pytest.mark.parametrize("closed", one_of(">&-", "2>&-", "<&-", "<&- >&- 2>&-"))
def test_closed_streams_are_no_error(closed):
    """Python has no stream for them, and the next file that is opened would get their number."""
    done = in_bash(f"dump {SEGMENT} {closed}")
    assert (done.returncode, done.stderr, done.stdout == "") == (0, "", ">&-" in closed.split(" "))


@pytest.mark.parametrize("has_reader", [False, True])
def test_a_stderr_that_takes_nothing_changes_no_exit_code(has_reader, monkeypatch):
    """Its reader has ended, as in `kgroups audit ... 2>&1 | head -1`, or the disk with the log file is full."""
    if has_reader:
        number = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, number = os.pipe()
        os.close(reader)
    with open(number, "w", buffering=1) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        assert main(["groups", "--lake", "./nothing"]) == 2


def test_reading_segments_loads_neither_spark_nor_pandas():
    done = run_python("-X", "importtime", "-m", "kgroups_spark", "dump", str(SEGMENT))
    lines = done.stderr.splitlines()
    assert (done.returncode, [line for line in lines if not line.startswith("import time:")]) == (0, [])
    # Python also lists pandas itself, which it was asked for and did not find.
    loaded = {line.rpartition("|")[2].strip() for line in lines}
    assert loaded & {"pyarrow", "pyspark", "py4j", "pandas.core"} == {"pyarrow"}
    assert len(done.stdout.splitlines()) == 803


def test_what_asks_for_pandas_still_has_it():
    code = (
        "import pyarrow as pa; from kgroups_spark.cli.entry import leave_pandas_out; leave_pandas_out();"
        "frame = pa.table({'a': [1, 2]}).to_pandas();"
        "print(frame['a'].sum(), pa.array(frame['a']).type, pa.Table.from_pandas(frame).num_rows)"
    )
    done = run_python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 int64 2\n", "")


def test_garbage_is_looked_for_but_not_among_the_modules():
    code = (
        "import gc; from kgroups_spark.cli import entry, main;"
        "main.entry_point = lambda: print(gc.isenabled(), gc.get_freeze_count() > 0); entry.entry_point()"
    )
    done = run_python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True\n", "")


# Help fits the width of the screen: no line of prose is wider, and no word is lost.
TEXT = """\
Prose that is written in lines as wide as the editor, and is filled where the screen
is narrower than that.

examples:
  kgroups groups --lake ./lake
  kgroups audit --lake ./lake            a comment, which makes this line a long one
  kgroups groups --lake ./lake --as-of '2026-11-14 03:00' --format json"""


def test_on_a_narrow_screen_prose_is_filled_and_examples_can_be_copied():
    assert HelpFormatter("kgroups")._fill_text(TEXT, 56, "").splitlines() == [
        "Prose that is written in lines as wide as the editor,",
        "and is filled where the screen is narrower than that.",
        *TEXT.splitlines()[2:5],
        "  kgroups audit --lake ./lake",
        "      a comment, which makes this line a long one",
        "  kgroups groups --lake ./lake --as-of \\",
        "      '2026-11-14 03:00' --format json",
    ]


def helps():
    """The help of every command in the width of the screen."""
    parser = command_line()
    (commands,) = (action for action in parser._actions if action.dest == "command")
    return {"": parser.format_help()} | {name: each.format_help() for name, each in commands.choices.items()}


def test_no_line_of_the_help_is_wider_than_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line for text in helps().values() for line in text.splitlines()]
    assert [line for line in lines if len(line) > 80] == []


def test_no_word_of_the_help_is_lost(monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    before = {name: text.split() for name, text in helps().items()}
    monkeypatch.setenv("COLUMNS", "80")
    assert {name: text.replace(" \\\n", " ").split() for name, text in helps().items()} == before


# `kgroups completion`: the words that a real bash offers.
# Acts as bash does at a TAB: puts words and line into variables, then calls the function that `complete` names.
PRESS_TAB = """
eval "$(cat completion.bash)"
function=$(complete -p kgroups | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_LINE="$*"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
$function kgroups "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script():
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(["completion", "bash"]) == 0
    return out.getvalue()


@pytest.fixture
def folder(tmp_path, script):
    """The folder in which bash runs, with a kgroups on its PATH, the script, and files."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kgroups").write_text(f'#!/bin/sh\nexec {sys.executable} -m kgroups_spark "$@"\n')
    (tmp_path / "bin" / "kgroups").chmod(0o755)
    (tmp_path / "completion.bash").write_text(script)
    (tmp_path / "queries.sql").touch()
    return tmp_path


def offered(folder, *words):
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path}
    done = subprocess.run(
        ["bash", "-c", PRESS_TAB, "bash", "kgroups", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return sorted(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gro"], ["groups"]),
        (["expiring", "--ret"], ["--retention"]),
        (["groups", "--format", ""], ["csv", "json", "table"]),
        (["groups", "--engine", "d"], ["duckdb"]),
        (["groups", "--lake", "b"], ["bin"]),
        (["sql", "--file", "q"], ["queries.sql"]),
        (["completion", "b"], ["bash"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_bash_completes(folder, words, expected):
    assert offered(folder, *words) == expected


def test_bash_completes_every_command(folder):
    """The script is the one that `kgroups` prints as a process, too."""
    with (folder / "completion.bash").open("w") as script:
        subprocess.run([folder / "bin" / "kgroups", "completion", "bash"], stdout=script, check=True)
    found = offered(folder, "")
    assert set(NAMES) <= set(found)


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_each_shell(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("expiring", "export-offsets", "duckdb"))
