"""What the decisions are made from."""

from __future__ import annotations

import pytest

from kgroups_spark.audit import decide as module
from kgroups_spark.audit.decide import decide
from kgroups_spark.tables.lake import Lake
from kgroups_spark.tables.writer import LakeWriter
from tests.tables.table_rows import rows_of

pytestmark = pytest.mark.spark

WEEK_MS = 604_800_000


def test_groups_held_by_open_transactions_are_those_of_the_newest_state(spark, tmp_path, monkeypatch):
    """The state of the audit before lies beside it, in case that this one is killed."""
    lake = Lake.create(spark, str(tmp_path / "lake"))
    for audit_id, group_id in ((1, "once"), (2, "now")):
        row = {"audit_id": audit_id, "entry_type": "noted", "group_id": group_id}
        part = LakeWriter(lake, audit_id, "parts", lambda: None).part_writer("coordinator_state")
        lake.table("coordinator_state").commit(
            [part.write(rows_of("coordinator_state", row))], by="t", transaction=None
        )
    held = []
    group_expiry = module.group_expiry

    def watched(*tables, held_groups, **options):
        held.extend(row.group_id for row in held_groups.collect())
        return group_expiry(*tables, held_groups=held_groups, **options)

    monkeypatch.setattr(module, "group_expiry", watched)
    writer = LakeWriter(lake, 2, "parts", lambda: None)
    decide(lake, writer, as_of_ms=WEEK_MS, retention_ms=WEEK_MS, release_version="4.0.0")
    assert held == ["now"]
