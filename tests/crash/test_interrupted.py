"""Ctrl-C and SIGTERM to the process group of a command: one line, the exit code, no process left behind.

A process with Spark takes ten seconds: `make test` has one that is interrupted while Spark starts, and one at a moment
of an audit that the seed chooses or at the prompt; the soak has all MOMENTS.
"""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import socket
import time
from pathlib import Path

import pytest

from kgroups_spark.cli.demo import SEGMENTS
from tests.cli.written_lake import ledger, write_lake
from tests.crash.processes import in_session, without_progress
from tests.views.recorded import tables_of

STARTING = "starting Spark ..."


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A lake of one audit, made without Spark."""
    tables = tables_of("transactions-4.3")
    (row,) = tables["audits"].to_pylist(maps_as_pydicts="strict")
    audits = ledger({name: value for name, value in row.items() if value is not None} | {"audit_id": 1})
    return Path(write_lake(tmp_path_factory.mktemp("recorded") / "lake", {**tables, "audits": audits}))


def lines_until(stream, begins):
    """The lines of the stream up to the first one that begins so."""
    assert stream is not None
    said = []
    for line in stream:
        said.append(line)
        if line.startswith(begins):
            return said
    raise AssertionError(f"it ended before it said {begins!r}: {''.join(said)}")


def assert_nothing_is_left(process):
    """Spark's Python workers see a moment later that their JVM has gone."""
    for _ in range(600):
        left = in_session(process.pid)
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(left)


def wait_for(process, program):
    """Until the process has started one with that word in its command line."""
    while not [line for line in in_session(process.pid) if program in line]:
        assert process.poll() is None
        time.sleep(0.05)


def assert_ended(process, code, last):
    out, err = process.communicate(timeout=300)
    # Ended by a signal, it may have said half of its progress.
    assert (process.returncode, out, without_progress(err)) == (code, "", [last])
    assert_nothing_is_left(process)


def test_an_audit_ends_while_spark_starts(kgroups, tmp_path):
    starting = kgroups("audit", "--lake", str(tmp_path / "lake"), "--segments", str(SEGMENTS))
    lines_until(starting.stderr, STARTING)
    wait_for(starting, "java")
    os.killpg(starting.pid, signal.SIGTERM)
    assert_ended(starting, 143, "kgroups: terminated\n")


AUDIT = ("audit", "--lake", "{new}", "--segments", str(SEGMENTS))
KEEP = ("maintain", "--lake", "{lake}", "--keep", "1d")
COMPARE = ("compare", "--lake", "{lake}", "--release-version", "4.3", "--release-version", "3.9")
LONG_QUERY = "SELECT count(*) FROM range(1000000000000) a, range(100000) b"
# A command, a function that it calls, and how many seconds after that call the signal comes.
MOMENTS: dict[str, tuple[tuple[str, ...], str, float]] = {
    "tables are made": (AUDIT, "kgroups_spark.lake.lake:Lake.create_table", 0.05),
    "segments are planned": (AUDIT, "kgroups_spark.audit.run:plan_audit", 0),
    "stage 1": (AUDIT, "kgroups_spark.audit.run:_read", 1),
    "stage 2": (AUDIT, "kgroups_spark.audit.run:replay_step", 0.3),
    "history is committed": (AUDIT, "kgroups_spark.lake.writer:LakeWriter.append_parts", 0.05),
    "tables are replaced": (AUDIT, "kgroups_spark.lake.writer:LakeWriter.replace_parts", 0.02),
    "findings are looked for": (AUDIT, "kgroups_spark.audit.run:find", 0.1),
    "rebuild": (("rebuild", "--lake", "{lake}"), "kgroups_spark.audit.run:rebuild", 0.2),
    "what is old is looked for": (KEEP, "kgroups_spark.audit.maintain:known_times", 0.2),
    "files are brought together": (KEEP, "kgroups_spark.audit.maintain:optimize", 0.2),
    "files are deleted": (KEEP, "kgroups_spark.audit.maintain:vacuum", 0.2),
    "releases are compared": (COMPARE, "kgroups_spark.cli.compare:_compare", 6),
    "report by Spark": (
        ("report", "--lake", "{lake}", "--output", "{new}.html", "--engine", "spark"),
        "kgroups_spark.sql.by_spark:SparkReader.arrow",
        1,
    ),
    "query by Spark": (
        ("sql", "--engine", "spark", "--lake", "{lake}", LONG_QUERY),
        "kgroups_spark.sql.by_spark:SparkReader.arrow",
        4,
    ),
}


def start_signalled(kgroups, words, call, after_s, number):
    """The command, which sends its process group the signal so long after it has called that."""
    when = json.dumps({"call": call, "after_s": after_s, "number": number})
    return kgroups(when, *words, module="tests.crash.signalled")


ENDS = {signal.SIGINT: (130, "kgroups: interrupted\n"), signal.SIGTERM: (143, "kgroups: terminated\n")}


@pytest.mark.in_turn("signals in an audit")
def test_a_command_ends_with_one_line_whenever_the_signal_comes(kgroups, tmp_path, recorded, chosen):
    cases = [name for name, (words, *_) in MOMENTS.items() if chosen.every or words == AUDIT]
    for number, name in enumerate(chosen.some(cases, 1)):
        words, call, after_s = MOMENTS[name]
        lake = tmp_path / f"lake-{number}"
        if "{lake}" in words:
            shutil.copytree(recorded, lake)
        places = {"lake": str(lake), "new": str(tmp_path / f"new-{number}")}
        words = tuple(word.format(**places) if word.startswith("{") else word for word in words)
        sent = chosen.one(ENDS)
        print(name, sent)  # noqa: T201  pytest shows it if the test fails
        assert_ended(start_signalled(kgroups, words, call, after_s, sent), *ENDS[sent])


@pytest.fixture
def silent_broker():
    """An address that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_commands_without_spark_end_with_one_line(kgroups, tmp_path, recorded, silent_broker, chosen):
    lake = str(recorded)
    page = ("report", "--lake", lake, "--output", str(tmp_path / "report.html"))
    arrow = "kgroups_spark.sql.by_duckdb:DuckDbReader.arrow"
    without = ("audit", "--engine", "local", "--segments", str(SEGMENTS), "--lake")
    moments: dict[str, tuple[tuple[str, ...], str, float]] = {
        "a broker that never answers": (
            ("audit", "--lake", str(tmp_path / "new"), "--bootstrap-server", silent_broker),
            "kgroups_spark.cluster.cluster:Cluster.__init__",
            1,
        ),
        "report asks": (page, "kgroups_spark.report.page:query", 0),
        "report is drawn": (page, "kgroups_spark.report.page:html", 0.05),
        "reading without Spark": ((*without, str(tmp_path / "a")), "kgroups_spark.audit.run:_read", 0.2),
        "replay without Spark": ((*without, str(tmp_path / "b")), "kgroups_spark.audit.run:replay_step", 0.2),
        "commits without Spark": ((*without, str(tmp_path / "c")), "kgroups_spark.lake.store:TableLog.commit", 0),
        "findings without Spark": ((*without, str(tmp_path / "d")), "kgroups_spark.audit.run:find", 0.1),
        "DuckDB is imported": (("sql", "--lake", lake, "FROM groups"), arrow, 0.02),
        "query by DuckDB": (("sql", "--lake", lake, "SELECT count(*) FROM range(1000000000000)"), arrow, 0.5),
    }
    for name in chosen.some(moments, 1):
        sent = chosen.one(ENDS)
        print(name, sent)  # noqa: T201
        assert_ended(start_signalled(kgroups, *moments[name], sent), *ENDS[sent])
    assert list(tmp_path.glob("*report*")) == []


@pytest.mark.in_turn("Ctrl-C at the prompt")
def test_at_the_prompt_ctrl_c_ends_a_query_by_spark_and_the_next_one_runs(kgroups, recorded):
    terminal, stdin = pty.openpty()
    process = kgroups("sql", "--engine", "spark", "--lake", str(recorded), stdin=stdin)
    os.close(stdin)
    said = lines_until(process.stderr, "audit 1, as of")
    os.write(terminal, f"{LONG_QUERY};\n".encode())
    wait_for(process, "java")
    time.sleep(5)  # until its job runs; before, it would be interrupted all the same
    os.killpg(process.pid, signal.SIGINT)
    said += lines_until(process.stderr, "kgroups> interrupted")
    os.write(terminal, b"SELECT 41 + 1 AS answer;\n.quit\n")
    out, err = process.communicate(timeout=300)
    os.close(terminal)
    assert (process.returncode, out.split()) == (0, ["answer", "42"])
    assert "Traceback" not in "".join([*said, err]) and "Exception" not in "".join([*said, err])
    assert_nothing_is_left(process)
