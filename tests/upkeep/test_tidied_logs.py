"""Every hundredth audit deletes old versions from the tables' logs, when it has finished (here every third)."""

from __future__ import annotations

import os
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.audit import run
from kgroups_spark.lake.lake import Lake
from kgroups_spark.sql.by_duckdb import duckdb_views
from tests.crash.commit_points import audit
from tests.nights.lakes import contents, copy_until
from tests.recorded_logs import CORPORA

pytestmark = pytest.mark.spark

SIXTY_DAYS_S = 60 * 86_400


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpora")
    with zipfile.ZipFile(CORPORA) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if "/transactions-4.3/" in name])
    return folder / "logs" / "transactions-4.3"


def first_version(lake: Path, name: str) -> int:
    return min(int(path.stem) for path in (lake / name / "_delta_log").glob("*.json"))


def age(lake: Path) -> None:
    """All that is in the tables' logs by now was written sixty days ago."""
    long_ago = time.time() - SIXTY_DAYS_S
    for path in lake.glob("*/_delta_log/*"):
        os.utime(path, (long_ago, long_ago))


def test_some_audits_delete_old_versions_and_readers_see_the_same(
    spark: Any, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgroups_spark.lake.lake.CHECKPOINT_INTERVAL", 2)
    monkeypatch.setattr(run, "TIDIES_EVERY", 3)
    lake, tidied, tidy = tmp_path / "lake", list[tuple[int, int]](), run.tidy_logs

    def watched(each: Lake, audit_id: int) -> int:
        before = contents(lake)
        tidied.append((audit_id, tidy(each, audit_id)))
        assert contents(lake) == before
        return tidied[-1][1]

    monkeypatch.setattr(run, "tidy_logs", watched)
    for share in (0.4, 0.7, 1.0):
        copy_until(log, tmp_path / "segments", share)
        assert audit(spark, lake, tmp_path / "segments").failures == ()
        age(lake)
    # The third audit deleted the commits of the two before it, which were more than thirty days old.
    assert tidied == [(3, tidied[0][1])] and tidied[0][1] > 0
    for name in ("offset_commits", "committed_offsets", "audits"):
        assert first_version(lake, name) > 0, name
    with duckdb_views(str(lake)) as connection:
        assert connection.sql("SELECT audit_id FROM last_audit").fetchall() == [(3,)]
    assert audit(spark, lake, tmp_path / "segments").audit.audit_id == 4
    assert len(tidied) == 1
