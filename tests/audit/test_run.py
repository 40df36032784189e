"""Whole audits: again, in full, of some partitions."""

from __future__ import annotations

import shutil
from collections import Counter

import pyarrow.parquet as pq
import pytest

from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import Ledger
from kgroups_spark.offsets.expiry import DECIDED_BY, HELD_GROUPS, CleanUp
from kgroups_spark.replay.stages import CURRENT
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import to_epoch_ms
from tests.crash.commit_points import audit
from tests.nights.lakes import contents, rows, versions
from tests.recorded_logs import unpacked


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return unpacked(tmp_path_factory.mktemp("corpora"), "transactions-4.3")


@pytest.fixture(scope="module")
def whole(local, log, tmp_path_factory):
    """One audit of the whole log by parts."""
    lake = tmp_path_factory.mktemp("whole") / "lake"
    audit(local, lake, log)
    return lake


def test_shards_decide_on_their_tables_by_the_moment_and_rules_in_the_ledger(local, whole):
    lake = Lake.open(local, str(whole))
    ledger = Ledger(lake).last_finished()
    clean_up = CleanUp(to_epoch_ms(ledger.as_of), ledger.retention_ms, ledger.release_version, 1)
    tables = {name: lake.rows(name) for name in DECIDED_BY if name != HELD_GROUPS}
    for name, decided in clean_up.decided(
        {**tables, HELD_GROUPS: tables["groups"].select(DECIDED_BY[HELD_GROUPS]).slice(0, 0)}
    ):
        order = [(column, "ascending") for column in TABLES[name].key]
        assert lake.rows(name).sort_by(order).to_pylist() == decided.sort_by(order).to_pylist() != []


def test_a_second_audit_of_the_same_log_adds_nothing_and_changes_nothing(session, log, whole):
    before = versions(whole)
    summary = audit(session, whole, log)
    assert next(iter(summary.lines())).endswith("no new records")
    after = versions(whole)
    assert after.pop("audits") == before.pop("audits") + 2
    assert after.pop("findings") == before.pop("findings") + 1  # each audit looks for findings again
    assert after == before


def test_findings_of_large_tables_are_those_of_small_ones(local, tmp_path, monkeypatch):
    """DuckDB reads the files of large ones itself, wherever they are, and those that Spark wrote."""
    small, large = tmp_path / "small", tmp_path / "it's [1] *" / "topic=x"

    def found(lake):
        audit(local, lake, SEGMENTS)
        return sorted((row["finding"], row["detail"], row["since"]) for row in rows(lake, "findings"))

    first, second = found(small), found(small)
    assert len(first) == 8 != len(second)
    monkeypatch.setattr("kgroups_spark.findings.finders.AT_ONCE", 1)
    monkeypatch.setattr("kgroups_spark.audit.result.KEPT_ROWS", 0)
    assert found(large) == first
    for file in (file for name in CURRENT for file in (large / name).glob("*.parquet")):
        pq.write_table(pq.read_table(file), file, use_deprecated_int96_timestamps=True)
    assert found(large) == second


def test_findings_read_small_tables_once(local, tmp_path, monkeypatch):
    asked, ask = Counter(), Lake.rows

    def rows_asked(lake, name, *arguments, **named):
        asked[name] += "columns" not in named
        return ask(lake, name, *arguments, **named)

    monkeypatch.setattr(Lake, "rows", rows_asked)
    audit(local, tmp_path / "lake", SEGMENTS)
    assert asked["groups"] == asked["committed_offsets"] == 1


def test_a_full_audit_reads_everything_again_and_adds_nothing(session, log, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "lake")
    before = contents(tmp_path / "lake")
    summary = audit(session, tmp_path / "lake", log, full=True)
    read = sum(p.records for p in summary.audit.partitions)
    assert read == sum(p.records_reread for p in summary.audit.partitions) > 0
    said = list(summary.lines())
    assert said[0].endswith("no new records")
    assert "  since audit 2: the same groups, in the same states" in said
    assert f"  {read:,} records were read again, and not added again" in said
    assert contents(tmp_path / "lake") == before


def test_partitions_that_are_not_given_keep_their_state(session, log, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "lake")
    (tmp_path / "log").mkdir()
    shutil.copytree(log / "__consumer_offsets-1", tmp_path / "log" / "__consumer_offsets-1")
    before = contents(tmp_path / "lake")
    summary = audit(session, tmp_path / "lake", tmp_path / "log", full=True)
    assert "3 of 4 offsets partitions were not given: 0, 2-3; rows stay as they were last read" in summary.audit.notes
    assert {p.offsets_partition for p in summary.audit.partitions} == {0, 1, 2, 3}
    assert contents(tmp_path / "lake") == before
