"""Which rows of quarantine an audit reads to recognise damage."""

from __future__ import annotations

import pytest

from kgroups_spark.audit.plan import known_corrupt
from kgroups_spark.lake.lake import Lake
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


def test_damage_in_files_is_known_by_partition(lake):
    assert known_corrupt(lake) == {0: {("0.log", 10), ("0.log", 40)}, 1: {("0.log", 20)}}


def test_an_empty_lake_knows_no_damage(session, tmp_path):
    empty = Lake.create(session, str(tmp_path / "empty"))
    assert known_corrupt(empty) == known_corrupt(empty, "__share_group_state") == {}
