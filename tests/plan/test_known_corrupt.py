"""Which rows of quarantine an audit reads to recognise damage."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kgroups_spark.audit.plan import known_corrupt
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow, PartitionProgress
from kgroups_spark.lake.writer import LakeWriter
from tests.lake.table_rows import rows_of


@pytest.fixture
def lake(session, tmp_path):
    """Partition 0 had damage in audits 1 and 3, partition 1 in audit 2; a record of partition 1 was undecodable."""
    lake = Lake.create(session, str(tmp_path / "lake"))
    for audit_id, offsets_partition, position, reason in (
        (1, 0, 10, "corrupt_batch"),
        (2, 1, 20, "corrupt_batch"),
        (2, 1, 30, "truncated"),
        (3, 0, 40, "corrupt_batch"),
    ):
        writer = LakeWriter(lake, audit_id, lambda: None)
        row = {
            "audit_id": audit_id,
            "offsets_partition": offsets_partition,
            "reason": reason,
            "file": f"/log/__consumer_offsets-{offsets_partition}/0.log",
            "file_position": position,
        }
        part = writer.lake.write("quarantine", [rows_of("quarantine", row)], writer.audit_id)
        lake.table("quarantine").commit([part], by="test", transaction=None)
    return lake


def audit(*partitions):
    return AuditRow(3, "finished", "owner", datetime.now(UTC), partitions=partitions)


def partition(number, start, end, last_batch):
    return PartitionProgress(number, start, end, last_batch_offset=last_batch)


def test_if_the_last_audit_read_batches_only_its_own_damage_can_recur(lake, monkeypatch):
    opened = []
    rows = Lake.rows
    monkeypatch.setattr(
        Lake, "rows", lambda self, *a, files, **k: opened.extend(files) or rows(self, *a, files=files, **k)
    )
    before = audit(partition(0, 100, 200, 190), partition(1, 50, 60, 55))
    assert known_corrupt(lake, before) == {0: {("0.log", 40)}}
    assert len(opened) == 1


def test_a_partition_without_new_batches_still_ends_in_old_damage(lake):
    before = audit(partition(0, 100, 200, 190), partition(1, 60, 60, 55))
    assert known_corrupt(lake, before) == {0: {("0.log", 40)}, 1: {("0.log", 20)}}
    nothing_read = audit(partition(0, 0, 0, None), partition(1, 60, 60, 55))
    assert known_corrupt(lake, nothing_read)[0] == {("0.log", 10), ("0.log", 40)}


def test_before_the_first_audit_nothing_is_known(lake):
    assert known_corrupt(lake, None) == {}
