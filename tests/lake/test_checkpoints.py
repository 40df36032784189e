"""The log of a table stays short, and keeps the version that readers go back to: checkpoints, and old versions, which
are ours to delete (lake/as_of_audit.py)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.as_of_audit import (
    KEPT_MS,
    LakeAsOfAudit,
    files_before,
    old_versions,
)
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import APP_ID
from kgroups_spark.sql.by_duckdb import _go_back_to
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import one_of

INTERVAL = 3
SIXTY_DAYS_S = 60 * 86_400


def table_of(lake, properties):
    """A table beside the lake's, with a checkpoint every few versions."""
    table = lake.store.table(f"{lake.uri}/of_few_versions")
    table.create(TABLES["groups"].schema.json(), "", {"delta.checkpointInterval": str(INTERVAL), **properties})
    return table


@pytest.fixture
def table(lake):
    return table_of(lake, {})


def log_of(table):
    return Path(table.path.removeprefix("file:")) / "_delta_log"


def commit_until(table, version):
    while table.snapshot().version < version:
        table.commit([], by="test", transaction=(APP_ID, table.snapshot().version + 1))


CLEANED_BY_US = {"delta.enableExpiredLogCleanup": "false"}


def age(table):
    """Makes every file in the log sixty days old."""
    long_ago = time.time() - SIXTY_DAYS_S
    for path in log_of(table).iterdir():
        os.utime(path, (long_ago, long_ago))


def versions(table):
    return sorted(int(path.stem) for path in log_of(table).glob("*.json") if path.stem.isdigit())


def commit_by_spark(spark, table, number):
    rows = spark.createDataFrame([], TABLES["groups"].schema).write.format("delta").mode("append")
    rows.options(txnAppId=APP_ID, txnVersion=str(number)).save(table.path)


@pytest.mark.spark
@pytest.mark.parametrize("writer", one_of("we", "spark"))
def test_a_killed_audits_checkpoint_keeps_the_version_that_readers_go_back_to(spark, lake, writer):
    table = table_of(lake, CLEANED_BY_US)
    commit_until(table, 2 * INTERVAL - 1)
    age(table)
    if writer == "we":
        commit_until(table, 2 * INTERVAL)
    else:
        commit_by_spark(spark, table, 2 * INTERVAL)
    assert list(log_of(table).glob(f"{2 * INTERVAL:020d}.checkpoint*.parquet"))
    assert versions(table) == list(range(2 * INTERVAL + 1))
    assert table.version_as_of(APP_ID, 2 * INTERVAL - 1) == 2 * INTERVAL - 1


@pytest.mark.spark
def test_old_versions_are_removed_except_those_that_readers_go_back_to(lake):
    """Audit 7 was the last that finished, 8 to 11 were killed; checkpoints are at 3, 6 and 9."""
    table = lake.table("groups")
    lake.spark.sql(
        f"ALTER TABLE delta.`{lake.table('groups').path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '{INTERVAL}')"
    )
    commit_until(table, 11)  # version 1 set the property: audit n is version n
    left = table.files(7)
    assert old_versions(LakeAsOfAudit(lake, 7), "groups", remove=True) == 0
    age(table)
    assert old_versions(LakeAsOfAudit(lake, 7), "groups") == 6
    assert old_versions(LakeAsOfAudit(lake, 7), "groups", remove=True) == 6
    assert versions(table) == list(range(6, 12))
    reopened = Lake(lake.spark, lake.location).table("groups")
    assert (reopened.version_as_of(APP_ID, 7), reopened.files(7)) == (7, left)
    by_duckdb = DeltaTable(str(log_of(table).parent))
    _go_back_to(by_duckdb, 7)
    assert by_duckdb.version() == 7
    assert old_versions(LakeAsOfAudit(lake, 7), "groups") == 0
    # Audit 12 finishes: the next clean-up goes further.
    assert old_versions(LakeAsOfAudit(lake, 12), "groups", remove=True) == 3
    with pytest.raises(KgroupsError, match="the version of audit 7 is no longer"):
        reopened.version_as_of(APP_ID, 7)


OLD, YOUNG, NOW = 0.0, 2.0 * KEPT_MS, KEPT_MS + 1.0


def names(*kinds):
    return [f"{version:020d}.{kind}" for version, kind in kinds]


def log_with(checkpoints, versions=12):
    """A log whose commits are old."""
    return {f"{version:020d}.json": OLD for version in range(versions)} | checkpoints


def kept_from(files, wanted):
    gone = files_before(files, wanted, NOW)
    left = sorted(file for file in files if file not in gone)
    assert gone == sorted(files)[: len(gone)]
    return int(left[0][:20])


def test_a_log_is_kept_from_the_newest_old_checkpoint_up_to_the_wanted_version():
    files = log_with({f"{version:020d}.checkpoint.parquet": OLD for version in (3, 6, 9)})
    assert [kept_from(files, wanted) for wanted in (2, 3, 5, 6, 8, 9, 11)] == [0, 3, 3, 6, 6, 9, 9]
    files[f"{9:020d}.checkpoint.parquet"] = YOUNG
    assert kept_from(files, 11) == 6


def test_a_checkpoint_with_a_missing_part_does_not_count():
    parts = {f"{6:020d}.checkpoint.{part:010d}.{3:010d}.parquet": OLD for part in (1, 2, 3)}
    assert kept_from(log_with(parts), 11) == 6
    assert kept_from(log_with(dict(list(parts.items())[:2])), 11) == 0
    assert kept_from(log_with({f"{6:020d}.checkpoint.{'a' * 36}.parquet": OLD}), 11) == 0


def test_all_files_of_a_version_are_removed_with_it_and_nothing_else():
    of_old = names((0, "json"), (1, "crc"), (2, "checkpoint.parquet"), (3, "00000000000000000005.compacted.json"))
    stays = names((3, "00000000000000000006.compacted.json"), (6, "json"), (6, "checkpoint.parquet"), (7, "json"))
    others = ["_last_checkpoint", "_sidecars", f".{0:020d}.json.crc", "notes.txt"]
    found = files_before(dict.fromkeys([*others, *stays, *of_old], OLD), 7, NOW)
    assert sorted(found) == of_old


@pytest.mark.spark
def test_a_commit_counts_even_if_its_checkpoint_fails(spark, table, monkeypatch):
    commit_until(table, INTERVAL - 1)

    def failing(path, snapshot):
        return spark._jvm.java.lang.Integer.parseInt("no number: a Java exception")

    with monkeypatch.context() as storage:
        storage.setattr(table._store, "write_checkpoint", failing)
        table.commit([], by="test", transaction=(APP_ID, INTERVAL))
    assert not list(log_of(table).glob("*.checkpoint.parquet"))
    assert table.snapshot().last_transaction(APP_ID) == INTERVAL
