from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from chispa import assert_df_equality

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.writer import make_writable, probe
from kgroups_spark.tables.definitions import KEEP, NIGHT, REREAD
from tests.chosen import one_of
from tests.lake.table_rows import MOMENT, rows_of, writer

pytestmark = pytest.mark.spark


def replace_all(lake, audit_id, table, *rows, kept=None):
    writer(lake, audit_id).replace_parts(table, lake.write(table, [rows_of(table, *rows)], audit_id), kept)


def texts(lake, table, column):
    return sorted(lake.rows(table)[column].to_pylist())


def test_the_state_of_the_last_finished_audit_stays_beside_the_new_one(lake):
    for audit_id, kept in ((1, None), (2, 1), (3, 2)):
        row = {"audit_id": audit_id, "payload": f"state {audit_id}", "reason": NIGHT}
        replace_all(lake, audit_id, "checkpoints", row, kept=kept)
    assert texts(lake, "checkpoints", "payload") == ["state 2", "state 3"]


def test_a_nights_state_replaces_no_permanently_kept_state(lake):
    for reason in (KEEP, REREAD):
        kept = rows_of("checkpoints", {"audit_id": 1, "reason": reason, "payload": reason})
        writer(lake, 1, f"of {reason}").append_table("checkpoints", kept)
    for audit_id in (2, 3):
        rows = [{"audit_id": audit_id, "reason": reason, "payload": reason} for reason in (NIGHT, REREAD)]
        parts = [part for row in rows for part in lake.write("checkpoints", [rows_of("checkpoints", row)], audit_id)]
        writer(lake, audit_id).replace_parts("checkpoints", parts)
    assert texts(lake, "checkpoints", "payload") == [KEEP, NIGHT, *[REREAD] * 3]


@pytest.mark.parametrize("condition", ["log_offset >= 250", "audit_id > 2", "group_id = 'g3'"])
def test_files_outside_the_bounds_are_not_read(lake, condition):
    for number in (1, 2, 3):
        row = {"audit_id": number, "log_offset": 100 * number, "group_id": f"g{number}", "log_timestamp": MOMENT}
        writer(lake, number).append_table("offset_commits", rows_of("offset_commits", row))
    assert len(lake.read("offset_commits").inputFiles()) == 3
    assert len(lake.read("offset_commits").where(condition).inputFiles()) == 1


def test_a_missing_or_incomplete_part_stops_the_commit(lake):
    (part,) = lake.write("topics", [rows_of("topics", {"topic_id": "t"})], 1)
    with pytest.raises(KgroupsError, match=f"1 of 1 parts .*{part.size} bytes, not {part.size + 1}.*nothing of it"):
        writer(lake, 1).append_parts("topics", [replace(part, size=part.size + 1)])
    Path(lake.location, "topics", part.path).unlink()
    with pytest.raises(KgroupsError, match=r"1 of 1 parts that tasks wrote are not there.*there is no such file"):
        writer(lake, 1).append_parts("topics", [part])
    assert lake.table("topics").snapshot().version == 0


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
    replace_all(lake, 1, table, {"audit_id": 1})
    replace_all(lake, 2, table, {"audit_id": 2, "group_id": "a"}, {"audit_id": 2})
    assert_df_equality(lake.read_files(table), lake.read(table), ignore_row_order=True)
