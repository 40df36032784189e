"""Attempts of tasks that failed, or ran twice, after they had written: no row is there twice, none is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.crash.commit_points import assert_lake_is_sound

pytestmark = pytest.mark.spark

REPOSITORY = Path(__file__).parents[2]


def test_tasks_that_fail_once_after_writing_change_nothing(nights, tmp_path):
    lakes, marks = {writer: tmp_path / writer for writer in ("parts", "spark")}, tmp_path / "marks"
    marks.mkdir()
    for lake in lakes.values():
        shutil.copytree(nights.lake, lake)
    before = set((lakes["parts"] / "offset_commits").glob("*.parquet"))
    program = [sys.executable, "-m", "tests.crash.flaky_tasks", str(nights.second), str(marks)]
    arguments = [f"{writer}={lake}" for writer, lake in lakes.items()]
    subprocess.run([*program, *arguments], check=True, cwd=REPOSITORY, capture_output=True, text=True)
    assert list(marks.iterdir())
    for lake in lakes.values():
        assert_lake_is_sound(lake, nights.expected)
    # Each failed attempt has left its file; Spark's own writer takes such files away.
    new = set((lakes["parts"] / "offset_commits").glob("*.parquet")) - before
    named = {Path(path).name for path in DeltaTable(f"{lakes['parts']}/offset_commits").file_uris()}
    assert 0 < len({path.name for path in new} & named) < len(new)
