"""Processes that tests start are found among what those start, and end with the block that started them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.processes import PATIENCE_S, kill_jvm, outermost, started_audit

# A process that forks a copy of itself, as a JVM does to start a program; `pyspark-shell` is in its command line.
JVM = "import os, time; os.fork(); print(flush=True); time.sleep(1000)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {JVM!r}, 'pyspark-shell'])"


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_copy_that_a_jvm_makes_of_itself_is_not_a_jvm_of_its_own():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.read(2) == b"\n\n"  # both run
            (jvm,) = outermost(process.pid, "pyspark-shell")
            assert kill_jvm(process)
            process.wait(PATIENCE_S)
            assert not is_there(jvm)
        finally:
            # The copy is an orphan now; the group is still there with it.
            os.killpg(process.pid, 9)


def test_nothing_is_left_of_an_audit_whose_test_failed(tmp_path):
    with pytest.raises(ZeroDivisionError), started_audit(tmp_path / "lake", tmp_path) as process:
        raise ZeroDivisionError
    assert process.returncode == -9
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_an_audit_that_has_ended_is_left_alone(tmp_path):
    with started_audit(tmp_path / "lake", tmp_path / "no-log", "--unknown-option") as process:
        assert process.wait(PATIENCE_S) == 2
    assert process.returncode == 2
