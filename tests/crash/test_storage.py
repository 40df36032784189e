"""A disk that is full, and a table whose log cannot be written: one line, exit 1, and nothing is lost."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess

import pytest

from kgroups_spark.cli import main as cli
from kgroups_spark.lake.lake import Lake
from tests.crash.commit_points import assert_lake_is_sound, audit, current_tables

pytestmark = pytest.mark.spark

DISK_MB = 8


class SmallDisk:
    """A folder on a disk of its own, which a file can fill but for so many bytes."""

    def __init__(self, folder):
        self.folder = folder

    def leave(self, free):
        filler = self.folder / "filler"
        filler.unlink(missing_ok=True)
        disk = os.statvfs(self.folder)
        with filler.open("wb") as file:
            file.write(bytes(max(0, disk.f_bavail * disk.f_frsize - free)))

    def make_room(self):
        (self.folder / "filler").unlink()


class PretendedDisk:
    """The same where no file system may be mounted: the one place where the lake is written says that it is full."""

    def __init__(self, folder, monkeypatch):
        self.folder, self._monkeypatch = folder, monkeypatch

    def leave(self, free):
        commit, page, left = Lake.commit, 4096, free

        def full(self, table, operation, write):
            nonlocal left
            left -= page

            def write_if_there_is_room():
                if left < 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return write()

            return commit(self, table, operation, write_if_there_is_room)

        self._monkeypatch.setattr(Lake, "commit", full)

    def make_room(self):
        self._monkeypatch.undo()


@pytest.fixture
def disk(tmp_path, monkeypatch):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        yield PretendedDisk(folder, monkeypatch)
        return
    yield SmallDisk(folder)
    subprocess.run(["umount", str(folder)], check=True)


def command(lake, log, *options):
    return cli.main(["audit", "--lake", str(lake), "--segments", str(log), *options])


# PySpark's daemon prints it when a task is cancelled while the process for it is being forked: its words, not ours.
DAEMON = re.compile(
    r"Traceback .*\n  File \".*pyspark/daemon\.py\".*\n(?: .*\n)*(?:BrokenPipe|ConnectionReset)Error: .*\n"
)


def only_line(text):
    """The command's last line. All lines before it are progress."""
    text = DAEMON.sub("", text)
    assert "Traceback" not in text and "Exception" not in text.rstrip().rpartition("\n")[0], text
    return text.rstrip().rpartition("\n")[2]


# From no room for the claim to room for all but the last tables.
ROOM_KB = (0, 40, 120, 200)


def test_a_full_disk_is_one_line_and_nothing_is_lost(spark, nights, disk, capfd, chosen):
    lake = disk.folder / "lake"
    shutil.copytree(nights.lake, lake)
    before = current_tables(spark, lake)
    for free_kb in chosen.some(ROOM_KB, 1):
        disk.leave(free_kb << 10)
        capfd.readouterr()
        assert command(lake, nights.second) == 1
        said = only_line(capfd.readouterr().err)
        assert said.startswith("kgroups: ") and "No space left on device" in said, said
        disk.make_room()
        assert current_tables(spark, lake) == before
    audit(spark, lake, nights.second)
    assert_lake_is_sound(lake, nights.expected)
