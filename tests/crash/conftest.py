"""A small log of two nights, the tables of undisturbed audits of it, and processes of the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.commit_points import audit
from tests.nights.lakes import contents, copy_until
from tests.recorded_logs import unpacked
from tests.small_lakes import environment_of_small_lakes

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Nights:
    """The log as it was at the first and the second night, a lake that audited the first, and the tables after both.

    Four partitions with open transactions; one batch of the second night is damaged.
    """

    first: Path
    second: Path
    lake: Path
    expected: dict[str, list[str]]


@pytest.fixture(scope="module")
def nights(local, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nights")
    second = unpacked(folder, "transactions-4.3")
    copy_until(second, folder / "first", 0.5)
    segment = second / "__consumer_offsets-1" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    segment.write_bytes(data)
    audit(local, folder / "lake", folder / "first")
    audit(local, folder / "undisturbed", folder / "first")
    audit(local, folder / "undisturbed", second)
    return Nights(folder / "first", second, folder / "lake", contents(folder / "undisturbed"))


@pytest.fixture
def kgroups():
    """Starts the command, in a process group of its own, which is ended in any case."""
    with ExitStack() as started:

        def start(*words, module="kgroups_spark", stdin=subprocess.DEVNULL):
            process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                env={**os.environ, **environment_of_small_lakes(), "PYTHONPATH": str(ROOT)},
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            started.callback(end, process)
            return process

        yield start


def end(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
