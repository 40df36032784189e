"""Lakes in a store that only Hadoop and Spark reach: their files are carried, and all tables are the same."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import MaintainOptions
from kgroups_spark.audit.run import AuditOptions, RebuildOptions, run_audit, run_rebuild
from kgroups_spark.lake.hadoop import CarryingRunner
from kgroups_spark.lake.lake import Lake
from kgroups_spark.replay import ranges, shard_states
from tests.nights.lakes import contents, copy_until, in_segments
from tests.recorded_logs import CORPORA

NAME = "transactions-4.3"


@pytest.mark.spark
@pytest.mark.in_turn("carried files")
def test_carried_files_give_the_same_tables(
    local: Any, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "SMALLEST_CUT_BYTES", 1)
    monkeypatch.setattr(shard_states, "RECORDS_OF_A_TASK", 100)
    with zipfile.ZipFile(CORPORA) as archive:
        archive.extractall(tmp_path / "corpora")
    in_segments(tmp_path / "corpora" / "logs" / NAME, tmp_path / "rolled", batches=6)
    spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.kg.link./lakes", f"file://{tmp_path}")
    lakes = ((local, str(tmp_path / "near")), (spark, "viewfs://kg/lakes/far"))
    near, far = tmp_path / "near", tmp_path / "far"
    for share in (0.5, 1.0):
        copy_until(tmp_path / "rolled", tmp_path / "log", share)
        for session, lake in lakes:
            summary = run_audit(session, AuditOptions(lake=lake, segments=[str(tmp_path / "log")]))
        assert "carry the lake's files" in "\n".join(summary.lines())
        assert contents(near) == contents(far)
    assert not list((far / "_work").iterdir())
    for session, lake in lakes:
        run_rebuild(session, RebuildOptions(lake=lake, release_version="3.9"))
    assert contents(near) == contents(far)
    for session, lake in lakes:
        run_maintain(session, MaintainOptions(lake=lake, keep_ms=1))
    assert contents(near) == contents(far)
    opened = Lake.open(spark, "viewfs://kg/lakes/far")
    assert opened.stand_in is not None
    opened.carry()
    assert isinstance(opened.runner, CarryingRunner)
