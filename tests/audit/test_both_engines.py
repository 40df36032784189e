"""The same tables by Spark and without it, whichever engine wrote the night before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import AuditOptions, MaintainOptions
from kgroups_spark.audit.run import RebuildOptions, run_audit, run_rebuild
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.lake.hadoop import CarryingRunner
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.local import Local
from kgroups_spark.replay import ranges, shard_states
from kgroups_spark.spark.tasks import Processes
from kgroups_spark.tables.schemas import TABLES
from tests.crash.commit_points import assert_lake_is_sound, audit
from tests.nights.lakes import contents, copy_until, in_segments, rows
from tests.recorded_logs import unpacked

# Facts of a run, not of the log.
OF_A_RUN = {"started_at", "finished_at", "owner"}
DAY_MS = 86_400_000


def ledger(lake):
    found = sorted(rows(lake, "audits"), key=lambda row: (row["audit_id"], row["status"]))
    return [{name: value for name, value in row.items() if name not in OF_A_RUN} for row in found]


def definitions(lake):
    """The first version of each table's log: schema, properties, protocol."""
    found = {}
    for name in TABLES:
        lines = (lake / name / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
        actions = {kind: about for line in lines for kind, about in json.loads(line).items()}
        about = {key: value for key, value in actions["metaData"].items() if key not in ("id", "createdTime")}
        found[name] = about, actions["protocol"]
    return found


def findings(lake):
    return sorted(repr(sorted(row.items(), key=lambda pair: pair[0])) for row in rows(lake, "findings"))


def assert_same(one, other):
    assert contents(one) == contents(other)
    assert contents(one, ["checkpoints"]) == contents(other, ["checkpoints"])
    assert findings(one) == findings(other)
    assert ledger(one) == ledger(other)
    assert definitions(one) == definitions(other)


@pytest.mark.spark
@pytest.mark.in_turn("a lake of two engines")
def test_a_lake_may_change_its_engine_every_night(spark, local, chosen, tmp_path):
    """With a rebuild and upkeep after the nights. In a soak every recorded log, in more nights."""
    logs = [Path(str(SEGMENTS)), *(sorted(unpacked(tmp_path / "logs").iterdir()) if chosen.every else ())]
    shares = (0.3, 0.5, 0.7, 1.0) if chosen.every else (0.5, 1.0)
    for number, log in enumerate(logs):
        one_after_the_other(spark, local, log, shares, tmp_path / str(number))


def one_after_the_other(spark, local, log, shares, folder):
    lake, undisturbed, engines = folder / "lake", folder / "undisturbed", (Local(runner=Processes(slots=2)), spark)
    for number, share in enumerate(shares):
        copy_until(log, folder / "log", share)
        audit(local, undisturbed, folder / "log")
        audit(engines[number % 2], lake, folder / "log")
        assert_same(lake, undisturbed)
    expected = contents(undisturbed)
    run_rebuild(local, RebuildOptions(lake=str(lake)))
    assert_lake_is_sound(lake, expected)
    run_maintain(local, MaintainOptions(lake=str(lake), keep_ms=5 * DAY_MS))
    run_rebuild(spark, RebuildOptions(lake=str(lake)))
    now = [name for name, table in TABLES.items() if table.kind == "current"]
    assert contents(lake, now) == contents(undisturbed, now)


# Lakes in a store that only Hadoop and Spark reach: their files are carried, and all tables are the same.
@pytest.mark.spark
@pytest.mark.in_turn("carried files")
def test_carried_files_give_the_same_tables(local, spark, chosen, tmp_path, monkeypatch):
    """In a soak with a rebuild."""
    monkeypatch.setattr(ranges, "SMALLEST_CUT_BYTES", 1)
    monkeypatch.setattr(shard_states, "RECORDS_OF_A_TASK", 100)
    in_segments(unpacked(tmp_path / "corpora", "transactions-4.3"), tmp_path / "rolled", batches=6)
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
    for session, lake in lakes if chosen.every else ():
        run_rebuild(session, RebuildOptions(lake=lake, release_version="3.9"))
    some = {name: TABLES[name] for name in ("offset_commits", "group_versions", "checkpoints")}
    monkeypatch.setattr("kgroups_spark.audit.maintain.TABLES", some)
    for session, lake in lakes:
        run_maintain(session, MaintainOptions(lake=lake, keep_ms=1))
    assert contents(near) == contents(far)
    opened = Lake.open(spark, "viewfs://kg/lakes/far")
    assert opened.stand_in is not None
    opened.carry()
    assert isinstance(opened.runner, CarryingRunner)
