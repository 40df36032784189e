"""Real SIGKILLs: `kgroups audit` as a process, ended between two of its commits or while its tasks run."""

from __future__ import annotations

import re
import shutil
import time

from tests.audit.lakes import contents, rows
from tests.chosen import by_each_writer
from tests.crash.commit_points import assert_lake_is_sound, audit, tables_of_now
from tests.crash.processes import (
    PATIENCE_S,
    end_of,
    kill_all,
    kill_jvm,
    kill_workers,
    next_log_of,
    said_by,
    started_audit,
    until,
)


def statuses(lake):
    return sorted((row["audit_id"], row["status"]) for row in rows(lake, "audits"))


def last_line(lake):
    """What the command said last, without what Spark and its JVM print."""
    return said_by(lake).rstrip().rpartition("\n")[2]


def test_driver_and_jvm_killed_in_the_first_audit(local, nights, tmp_path):
    lake = tmp_path / "lake"
    with started_audit(lake, nights.first) as process:
        until(lake / "offset_commits" / "_delta_log" / f"{1:020d}.json", process)
        kill_all(process)
    assert statuses(lake) == [(1, "running")]
    assert not any(tables_of_now(local, lake).values())
    audit(local, lake, nights.first)
    assert_lake_is_sound(lake, contents(nights.lake))


@by_each_writer
def test_the_jvm_killed_while_tables_of_now_are_rewritten(local, nights, tmp_path, writer):
    lake = tmp_path / "lake"
    shutil.copytree(nights.lake, lake)
    before = tables_of_now(local, lake)
    with started_audit(lake, nights.second, "--writer", writer) as process:
        until(next_log_of(lake, "committed_offsets"), process)
        assert kill_jvm(process)
        assert end_of(process) == 1
    assert "does not count: Spark's JVM has ended" in last_line(lake), said_by(lake)
    assert "Traceback" not in said_by(lake)
    assert tables_of_now(local, lake) == before
    audit(local, lake, nights.second)
    assert_lake_is_sound(lake, nights.expected)


def test_python_workers_killed_while_they_read(local, nights, tmp_path):
    lake = tmp_path / "lake"
    shutil.copytree(nights.lake, lake)
    before = tables_of_now(local, lake)
    with started_audit(lake, nights.second) as process:
        until(lake / "_work", process)
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline:
            kill_workers(process)
            time.sleep(0.001)
        assert end_of(process) == 1
    # What Spark says depends on which of them was hit.
    assert re.search("worker|pyspark.daemon", last_line(lake)), said_by(lake)
    assert "Traceback" not in said_by(lake)
    assert tables_of_now(local, lake) == before
    audit(local, lake, nights.second)
    assert_lake_is_sound(lake, nights.expected)
