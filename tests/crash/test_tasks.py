"""Attempts of tasks that failed, or ran twice, after they had written: no row is there twice, none is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.crash.commit_points import assert_lake_is_sound

# Tasks that fail after writing are part of `make test` on a cluster: platforms/test_standalone.py.
pytestmark = [pytest.mark.spark, pytest.mark.soak]

REPOSITORY = Path(__file__).parents[2]


def test_tasks_that_fail_once_after_writing_change_nothing(nights, tmp_path):
    lake, marks = tmp_path / "lake", tmp_path / "marks"
    marks.mkdir()
    shutil.copytree(nights.lake, lake)
    before = set((lake / "offset_commits").glob("*.parquet"))
    program = [sys.executable, "-m", "tests.crash.flaky_tasks", str(nights.second), str(marks), str(lake)]
    subprocess.run(program, check=True, cwd=REPOSITORY, capture_output=True, text=True)
    assert list(marks.iterdir())
    assert_lake_is_sound(lake, nights.expected)
    new = set((lake / "offset_commits").glob("*.parquet")) - before
    named = {Path(path).name for path in DeltaTable(f"{lake}/offset_commits").file_uris()}
    assert {path.name for path in new} & named
    # Each failed attempt has left its file.
    assert len({path.name for path in new} & named) < len(new)
