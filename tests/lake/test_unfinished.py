from __future__ import annotations

import pytest

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.claim import Claim, clear_up, remove_unfinished
from kgroups_spark.lake.lake import Fence
from kgroups_spark.lake.last_finished import REBUILD_APP_ID
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.tables.schemas import WORK_FOLDER
from tests.lake.table_rows import rows_of


def append(lake, audit_id, table, **values):
    writer = LakeWriter(lake, audit_id, lambda: None)
    part = writer.lake.write(table, [rows_of(table, {"audit_id": audit_id, **values})], writer.audit_id)
    assert part is not None
    writer.append_parts(table, [part])


def fence(lake, audit_id, check_claim=lambda: None):
    return Fence(lake, audit_id, check_claim)


def audits_in(lake, table):
    return sorted(lake.rows(table)["audit_id"].to_pylist())


def test_rows_after_the_last_finished_audit_are_removed_and_others_stay(lake):
    for audit_id in (1, 2, 3, 4):
        append(lake, audit_id, "offset_commits", log_offset=audit_id)
    append(lake, 2, "group_records")
    append(lake, 3, "checkpoints")
    append(lake, 3, "groups")
    checks = []
    assert remove_unfinished(fence(lake, 5, lambda: checks.append(1)), 2) == ["offset_commits", "checkpoints"]
    assert audits_in(lake, "offset_commits") == [1, 2]
    assert audits_in(lake, "group_records") == [2]
    assert audits_in(lake, "checkpoints") == []
    assert audits_in(lake, "groups") == [3]  # rewritten by the next audit anyway
    assert len(checks) == 2
    assert lake.table("group_records").version() == 1


def test_rows_that_another_program_put_in_one_file_are_kept_apart(lake):
    for audit_id in (1, 2, 3):
        append(lake, audit_id, "offset_commits", log_offset=audit_id)
    log = lake.table("offset_commits")
    merged = lake.write("offset_commits", [lake.rows("offset_commits")], 3)
    log.commit([merged], by="OPTIMIZE", transaction=None, remove=lambda file: True, changes_rows=False)
    assert len(log.files()) == 1
    assert remove_unfinished(fence(lake, 4), 2) == ["offset_commits"]
    assert audits_in(lake, "offset_commits") == [1, 2]


def failed_audit(lake):
    """The writer of an audit whose claim was given up without its knowledge."""
    with Claim.take(lake) as claim:
        return LakeWriter(lake, claim.audit_id, lambda: None)


def test_an_audit_that_was_given_up_can_no_longer_write_a_table(lake):
    given_up = failed_audit(lake)
    append(lake, 1, "group_records")
    with Claim.take(lake) as claim:
        assert clear_up(claim) == ["group_records"]
        with pytest.raises(KgroupsError, match="written by audit 1 or a later one before"):
            given_up.append_table("offset_commits", rows_of("offset_commits", {"audit_id": 1}))
        with pytest.raises(KgroupsError, match="written by audit 1 or a later one before"):
            given_up.replace_table("groups", rows_of("groups", {"audit_id": 1}))
        append(lake, claim.audit_id, "offset_commits")
    assert audits_in(lake, "offset_commits") == [2]
    assert audits_in(lake, "groups") == []


def test_work_files_of_killed_audits_are_removed(lake, tmp_path):
    failed_audit(lake)
    (tmp_path / "our läke" / WORK_FOLDER / "audit-1-x").mkdir(parents=True)
    (tmp_path / "our läke" / WORK_FOLDER / "audit-1-x" / "range.arrow").touch()
    with Claim.take(lake) as claim:
        clear_up(claim)
    assert list((tmp_path / "our läke" / WORK_FOLDER).iterdir()) == []


def test_records_that_an_unfinished_audit_resolved_are_unresolved_again(lake):
    append(lake, 1, "quarantine", log_offset=1)
    for audit_id, resolved_by in ((2, 2), (4, None)):
        rebuild = LakeWriter(lake, audit_id, lambda: None, REBUILD_APP_ID)
        rows = [{"audit_id": 1, "log_offset": 1, "resolved_by": resolved_by or audit_id}]
        rows += [{"audit_id": 1, "log_offset": 2, "resolved_by": 2}]
        rebuild.replace_parts(
            "quarantine", [rebuild.lake.write("quarantine", [rows_of("quarantine", *rows)], rebuild.audit_id)]
        )
    assert remove_unfinished(fence(lake, 5), 2) == []
    assert sorted((r["log_offset"], r["resolved_by"]) for r in lake.rows("quarantine").to_pylist()) == [
        (1, None),
        (2, 2),
    ]
