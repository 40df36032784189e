"""The log of a table through Kernel stays short: checkpoints, and versions that have expired."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kgroups_spark.tables.kernel import KernelTable
from kgroups_spark.tables.schemas import TABLES

pytestmark = pytest.mark.spark

INTERVAL = 3
SIXTY_DAYS_S = 60 * 86_400


@pytest.fixture
def table(lake):
    table = lake.kernel.table(f"{lake.uri}/of_few_versions")
    table.create(TABLES["groups"].schema.json(), "", {"delta.checkpointInterval": str(INTERVAL)})
    return table


def log_of(table):
    return Path(table.path.removeprefix("file:")) / "_delta_log"


def commit_until(table, version):
    while table.version() < version:
        table.commit([], by="test", transaction=("test", table.version() + 1))


def test_versions_older_than_deltas_retention_go_with_the_next_checkpoint(table):
    commit_until(table, 2 * INTERVAL - 1)
    long_ago = time.time() - SIXTY_DAYS_S
    for path in log_of(table).iterdir():
        os.utime(path, (long_ago, long_ago))
    commit_until(table, 2 * INTERVAL)
    kept = sorted(int(path.stem) for path in log_of(table).glob("*.json") if path.stem.isdigit())
    assert kept == list(range(INTERVAL, 2 * INTERVAL + 1))
    assert table.last_transaction("test") == 2 * INTERVAL


def test_the_checkpoint_of_an_audit_that_is_killed_leaves_the_version_that_readers_go_back_to(table):
    # Kernel deletes expired versions up to a checkpoint that has expired itself, not up to the one just written.
    commit_until(table, INTERVAL - 1)
    long_ago = time.time() - SIXTY_DAYS_S
    for path in log_of(table).iterdir():
        os.utime(path, (long_ago, long_ago))
    commit_until(table, INTERVAL)
    assert list(log_of(table).glob(f"{INTERVAL:020d}.checkpoint*.parquet"))
    assert table.version_as_of("test", INTERVAL - 1) == INTERVAL - 1


def test_a_commit_counts_without_the_checkpoint_that_should_follow(spark, table, monkeypatch):
    commit_until(table, INTERVAL - 1)

    def failing(self, version=None):
        return spark._jvm.java.lang.Integer.parseInt("no number: a Java exception")

    with monkeypatch.context() as storage:
        storage.setattr(KernelTable, "_snapshot", failing)
        table.commit([], by="test", transaction=("test", INTERVAL))
    assert not list(log_of(table).glob("*.checkpoint.parquet"))
    assert table.last_transaction("test") == INTERVAL
