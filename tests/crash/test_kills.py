"""Real SIGKILLs: to `kgroups audit` as a process between two of its commits, and to the workers while tasks run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading

import pytest

from kgroups_spark.cli import main as cli
from kgroups_spark.lake.lake import Lake
from tests.crash.commit_points import assert_lake_is_sound, audit, current_tables
from tests.crash.processes import in_session, kill_below, until, until_python_runs, without_progress
from tests.nights.lakes import contents, rows


def statuses(lake):
    return sorted((row["audit_id"], row["status"]) for row in rows(lake, "audits"))


def last_line(said):
    """The command's last line, below those of Spark and its JVM."""
    return said.rstrip().rpartition("\n")[2]


@pytest.mark.in_turn("a killed audit")
def test_driver_and_jvm_killed_in_the_first_audit(kgroups, local, nights, tmp_path):
    lake = tmp_path / "lake"
    Lake.create(local, str(lake))
    process = kgroups("audit", "--lake", str(lake), "--segments", str(nights.first))
    log = lake / "offset_commits" / "_delta_log"
    until(lambda: len(list(log.glob("*.json"))) > 1, process)
    os.killpg(process.pid, signal.SIGKILL)
    # It reports what it does, and the processes that it starts write nothing.
    out, err = process.communicate()
    assert err.startswith("starting Spark ...\n")
    assert (out, without_progress(err)) == ("", [])
    assert statuses(lake) == [(1, "running")]
    assert not any(current_tables(local, lake).values())
    audit(local, lake, nights.first)
    assert_lake_is_sound(lake, contents(nights.lake))


@pytest.mark.in_turn("a killed JVM")
def test_the_jvm_killed_while_its_tasks_run(kgroups, local, nights, tmp_path):
    lake = tmp_path / "lake"
    shutil.copytree(nights.lake, lake)
    before = current_tables(local, lake)
    process = kgroups("audit", "--lake", str(lake), "--segments", str(nights.second))
    until(lambda: "pyspark.worker" in "".join(in_session(process.pid)), process)
    assert kill_below(process.pid, "pyspark-shell")
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1, said
    assert "nothing that it wrote counts: Spark's JVM has ended" in last_line(said), said
    assert "Traceback" not in said
    assert current_tables(local, lake) == before
    audit(local, lake, nights.second)
    assert_lake_is_sound(lake, nights.expected)


def test_python_workers_killed_while_they_read(local, spark, nights, tmp_path, capfd):
    """Those of this process's session, which starts others for the next task."""
    lake, has_ended, killed = tmp_path / "lake", threading.Event(), []
    shutil.copytree(nights.lake, lake)
    before = current_tables(local, lake)

    def kill():
        while not has_ended.wait(0.001):
            if (lake / "_work").exists():
                killed.append(kill_below(os.getpid(), "pyspark.worker"))

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        code = cli.main(["audit", "--lake", str(lake), "--segments", str(nights.second)])
    finally:
        has_ended.set()
        killer.join()
    said = capfd.readouterr().err
    assert code == 1 and any(killed), said
    # Spark's message depends on which of them was hit.
    assert re.search("worker|pyspark.daemon", last_line(said)), said
    assert "Traceback" not in said
    assert current_tables(local, lake) == before
    until_python_runs(spark)
    audit(spark, lake, nights.second)
    assert_lake_is_sound(lake, nights.expected)
