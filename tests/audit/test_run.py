"""Whole audits: again, in full, of some partitions."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

import pytest

from kgroups_spark.audit.result import LakeTables
from kgroups_spark.findings.finding import Condition
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import Ledger
from kgroups_spark.offsets.expiry import DECIDED_BY, HELD_GROUPS, CleanUp, columns_needed
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.words import to_epoch_ms
from tests.crash.commit_points import audit
from tests.nights.lakes import (
    contents,
    versions,
)
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
    for name, decided in clean_up.decided({**tables, HELD_GROUPS: columns_needed(HELD_GROUPS).empty_table()}):
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


def test_findings_read_small_and_large_tables_alike(spark, whole, monkeypatch):
    year_2100 = datetime(2100, 1, 1, tzinfo=UTC)
    questions = [
        ("groups", ["offsets_partition", "group_id", "state_since", "resolved_regex_topics"], ()),
        ("group_members", ["group_id", "member_id", "assigned_partitions"], ()),
        ("committed_offsets", ["group_id", "log_offset"], (Condition("is_orphan", "==", False),)),
        ("offset_expiry", ["topic", "expires_at"], (Condition("expires_at", "<=", year_2100),)),
        ("group_records", ["log_offset"], (Condition("audit_id", "==", 1), Condition("record_type", "in", [2, 7]))),
        ("offset_commits", ["log_offset"], (Condition("audit_id", "==", 99),)),
    ]

    def answers():
        tables = LakeTables(Lake.open(spark, str(whole)))
        found = [tables.rows(name, columns, *conditions) for name, columns, conditions in questions]
        return [(rows.schema, sorted(map(repr, rows.to_pylist(maps_as_pydicts="strict")))) for rows in found]

    by_arrow = answers()
    assert [bool(rows) for _, rows in by_arrow] == [True] * 5 + [False]
    monkeypatch.setattr("kgroups_spark.audit.result.SMALL_TABLE_ROWS", 0)
    assert answers() == by_arrow


def test_a_full_audit_reads_everything_again_and_adds_nothing(session, log, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "lake")
    before = contents(tmp_path / "lake")
    summary = audit(session, tmp_path / "lake", log, full=True)
    read = sum(p.records for p in summary.audit.partitions)
    assert read == sum(p.records_reread for p in summary.audit.partitions) > 0
    said = list(summary.lines())
    assert said[0].endswith("no new records")
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
