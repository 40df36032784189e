"""Ctrl-C and SIGTERM to the process group of a command that uses Spark: one line, the exit code, no JVM left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from kgroups_spark.commands.demo import SEGMENTS

ROOT = Path(__file__).parent.parent.parent
STARTING = "starting Spark ..."


@pytest.fixture
def kgroups(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are ended in any case."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def start(processes: list[subprocess.Popen[str]], *words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "kgroups_spark", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    processes.append(process)
    return process


def lines_until(stream: IO[str] | None, begins: str) -> list[str]:
    """What was said, up to the line that begins so."""
    assert stream is not None
    said = []
    for line in stream:
        said.append(line)
        if line.startswith(begins):
            return said
    raise AssertionError(f"it ended before it said {begins!r}: {''.join(said)}")


def in_session(number: int) -> list[str]:
    """Command lines of the processes that the process of this number has started, and of their children."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(stat[3]) == number and stat[0] not in "ZX":
                found.append((folder / "cmdline").read_text().replace("\0", " ")[-4000:])
        except OSError:
            continue
    return found


def assert_nothing_is_left(process: subprocess.Popen[str]) -> None:
    """Spark's Python workers see a moment later that their JVM has gone."""
    for _ in range(600):
        left = in_session(process.pid)
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(left)


def wait_for(process: subprocess.Popen[str], program: str) -> None:
    """Until the process has started one with that word in its command line."""
    while not [line for line in in_session(process.pid) if program in line]:
        assert process.poll() is None
        time.sleep(0.05)


def assert_ended(process: subprocess.Popen[str], code: int, last: str) -> None:
    out, err = process.communicate(timeout=120)
    told = [
        line for line in err.splitlines(keepends=True) if not line.startswith("replaying")
    ]  # while it was asked for
    assert (process.returncode, out, told) == (code, "", [last])
    assert_nothing_is_left(process)


def test_an_audit_ends_with_one_line_whenever_the_signal_comes(
    kgroups: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    audit = ("audit", "--lake", str(tmp_path / "lake"), "--segments", str(SEGMENTS))

    starting = start(kgroups, *audit)
    lines_until(starting.stderr, STARTING)
    wait_for(starting, "java")
    os.killpg(starting.pid, signal.SIGTERM)
    assert_ended(starting, 143, "kgroups: terminated\n")

    reading = start(kgroups, *audit)
    said = lines_until(reading.stderr, "reading")
    wait_for(reading, "pyspark.daemon")
    os.killpg(reading.pid, signal.SIGINT)
    assert_ended(reading, 130, "kgroups: interrupted\n")
    assert [line.split()[0] for line in said] == ["starting", "reading"], said
