"""The same tables by Spark and without it, whichever engine wrote the night before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import AuditOptions, MaintainOptions
from kgroups_spark.audit.run import RebuildOptions, run_audit, run_rebuild
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.lake.local import Local
from kgroups_spark.spark.tasks import Processes
from kgroups_spark.tables.schemas import TABLES
from tests.crash.commit_points import assert_lake_is_sound
from tests.crash.soak import recorded_logs
from tests.nights.lakes import contents, copy_until, rows

# Facts of a run, not of the log.
OF_A_RUN = {"started_at", "finished_at", "owner"}
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def local() -> Local:
    """With two processes on any machine."""
    return Local(runner=Processes(slots=2))


def audit(engine: Any, lake: Path, log: Path) -> None:
    run_audit(engine, AuditOptions(lake=str(lake), segments=[str(log)]))


def ledger(lake: Path) -> list[dict[str, Any]]:
    found = sorted(rows(lake, "audits"), key=lambda row: (row["audit_id"], row["status"]))
    return [{name: value for name, value in row.items() if name not in OF_A_RUN} for row in found]


def definitions(lake: Path) -> dict[str, Any]:
    """The first version of each table's log: schema, properties, protocol."""
    found = {}
    for name in TABLES:
        lines = (lake / name / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
        actions = {kind: about for line in lines for kind, about in json.loads(line).items()}
        about = {key: value for key, value in actions["metaData"].items() if key not in ("id", "createdTime")}
        found[name] = about, actions["protocol"]
    return found


def findings(lake: Path) -> list[str]:
    return sorted(repr(sorted(row.items(), key=lambda pair: pair[0])) for row in rows(lake, "findings"))


def assert_same(one: Path, other: Path) -> None:
    assert contents(one) == contents(other)
    assert contents(one, ["checkpoints"]) == contents(other, ["checkpoints"])
    assert findings(one) == findings(other)
    assert ledger(one) == ledger(other)
    assert definitions(one) == definitions(other)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [Path(str(SEGMENTS)), *recorded_logs(tmp_path_factory.mktemp("logs"))]


def test_both_engines_write_the_same_rows_table_by_table(spark, local, logs, chosen, tmp_path):
    for number, log in enumerate(chosen.some(logs, 1, always=logs[:1])):
        by_spark, without = tmp_path / f"spark-{number}", tmp_path / f"local-{number}"
        audit(spark, by_spark, log)
        audit(local, without, log)
        assert_same(by_spark, without)


def test_a_lake_may_change_its_engine_every_night(spark, local, logs, tmp_path):
    """Upkeep and a rebuild among the nights."""
    log, lake, undisturbed = logs[0], tmp_path / "lake", tmp_path / "undisturbed"
    for number, share in enumerate((0.3, 0.5, 0.7, 1.0)):
        copy_until(log, tmp_path / "log", share)
        audit(local, undisturbed, tmp_path / "log")
        audit((local, spark)[number % 2], lake, tmp_path / "log")
        assert_same(lake, undisturbed)
    expected = contents(undisturbed)
    run_rebuild(local, RebuildOptions(lake=str(lake)))
    assert_lake_is_sound(lake, expected)
    run_maintain(spark, MaintainOptions(lake=str(lake)))
    run_maintain(local, MaintainOptions(lake=str(lake), keep_ms=5 * DAY_MS))
    run_rebuild(spark, RebuildOptions(lake=str(lake)))
    now = [name for name, table in TABLES.items() if table.kind == "current"]
    assert contents(lake, now) == contents(undisturbed, now)
    audit(local, lake, tmp_path / "log")
    assert contents(lake, now) == contents(undisturbed, now)
