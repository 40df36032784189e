from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from chispa import assert_df_equality

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.parts import PartWriter
from kgroups_spark.lake.writer import LakeWriter, make_writable, probe
from kgroups_spark.tables.definitions import KEEP, NIGHT, REREAD
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import one_of
from tests.lake.table_rows import MOMENT, append_frame, parts_of, rows_of

pytestmark = pytest.mark.spark


def writer(lake, audit_id, check=lambda: None):
    return LakeWriter(lake, audit_id, check)


def frame(lake, table, *rows):
    return lake.spark.createDataFrame(rows_of(table, *rows), TABLES[table].schema).coalesce(1)


def commit(audit_id, log_offset, group_id="g"):
    return {"audit_id": audit_id, "log_offset": log_offset, "group_id": group_id, "log_timestamp": MOMENT}


def replace_all(by, table, rows, keep_audit=None):
    by.replace_parts(table, parts_of(by.lake.runner, rows, PartWriter(table, by.lake.uri, by.audit_id)), keep_audit)


def texts(lake, table, column):
    return sorted(lake.rows(table)[column].to_pylist())


def part_of(lake, audit_id, table, rows):
    part = writer(lake, audit_id).lake.write(table, [rows], writer(lake, audit_id).audit_id)
    assert part is not None
    return part


def test_the_state_of_the_last_finished_audit_stays_beside_the_new_one(lake):
    for audit_id, kept in ((1, None), (2, 1), (3, 2)):
        rows = frame(lake, "checkpoints", {"audit_id": audit_id, "payload": f"state {audit_id}", "reason": NIGHT})
        replace_all(writer(lake, audit_id), "checkpoints", rows, keep_audit=kept)
    assert texts(lake, "checkpoints", "payload") == ["state 2", "state 3"]


def test_a_nights_state_replaces_no_permanently_kept_state(lake):
    for reason in (KEEP, REREAD):
        kept = frame(lake, "checkpoints", {"audit_id": 1, "reason": reason, "payload": reason})
        append_frame(replace(writer(lake, 1), app_id=f"of {reason}"), "checkpoints", kept)
    for audit_id in (2, 3):
        rows = [{"audit_id": audit_id, "reason": reason, "payload": reason} for reason in (NIGHT, REREAD)]
        parts = [part_of(lake, audit_id, "checkpoints", rows_of("checkpoints", row)) for row in rows]
        writer(lake, audit_id).replace_parts("checkpoints", parts)
    assert texts(lake, "checkpoints", "payload") == [KEEP, NIGHT, *[REREAD] * 3]


@pytest.mark.parametrize("condition", ["log_offset >= 250", "audit_id > 2", "group_id = 'g3'"])
def test_files_outside_the_bounds_are_not_read(lake, condition):
    for audit_id in (1, 2, 3):
        rows = rows_of("offset_commits", commit(audit_id, audit_id * 100, f"g{audit_id}"))
        writer(lake, audit_id).append_parts("offset_commits", [part_of(lake, audit_id, "offset_commits", rows)])
    assert len(lake.read("offset_commits").inputFiles()) == 3
    assert len(lake.read("offset_commits").where(condition).inputFiles()) == 1


def test_a_missing_or_incomplete_part_stops_the_commit(lake):
    part = part_of(lake, 1, "topics", rows_of("topics", {"topic_id": "t"}))
    with pytest.raises(KgroupsError, match=f"1 of 1 parts .*{part.size} bytes, not {part.size + 1}.*nothing of it"):
        writer(lake, 1).append_parts("topics", [replace(part, size=part.size + 1)])
    Path(lake.location, "topics", part.path).unlink()
    with pytest.raises(KgroupsError, match=r"1 of 1 parts that tasks wrote are not there.*there is no such file"):
        writer(lake, 1).append_parts("topics", [part])
    assert lake.table("topics").version() == 0


def test_tasks_on_this_machine_reach_a_folder_and_a_probe_agrees(lake):
    assert make_writable(lake) is None
    assert probe(lake) is None
    assert list(Path(lake.location, "_work").iterdir()) == []


def test_a_probe_says_why_tasks_cannot_write(lake, monkeypatch):
    monkeypatch.setattr(lake, "uri", "file:/proc/no/lake")
    reason = probe(lake)
    assert reason is not None
    assert reason.startswith("a task cannot write to file:/proc/no/lake/_work with pyarrow (FileNotFoundError: ")
    assert "\n" not in reason


@pytest.mark.parametrize("table", one_of("open_transactions", "offset_expiry"))
def test_files_read_without_deltas_snapshot_equal_the_table_and_its_nullability(spark, lake, table, tmp_path):
    lake = Lake.open(spark, str(shutil.copytree(lake.location, tmp_path / "no glob {1,2}[3]")))
    assert_df_equality(lake.read_files(table), lake.read(table))
    replace_all(writer(lake, 1), table, frame(lake, table, {"audit_id": 1}))
    replace_all(writer(lake, 2), table, frame(lake, table, {"audit_id": 2, "group_id": "a"}, {"audit_id": 2}))
    assert_df_equality(lake.read_files(table), lake.read(table), ignore_row_order=True)
