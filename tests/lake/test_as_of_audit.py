"""LakeAsOfAudit reads tables as a finished audit left them, whatever was committed since."""

from __future__ import annotations

import pytest

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import APP_ID, REBUILD_APP_ID
from kgroups_spark.lake.ledger import AuditRow, Ledger
from kgroups_spark.lake.writer import LakeWriter
from tests.lake.table_rows import MOMENT, rows_of

pytestmark = pytest.mark.spark


def replace(lake: Lake, audit_id: int, app_id: str = APP_ID) -> None:
    """Makes group `g<audit_id>` the only one."""
    writer = LakeWriter(lake, audit_id, lambda: None, app_id)
    row = {"audit_id": audit_id, "group_id": f"g{audit_id}"}
    writer.replace_parts("groups", [writer.lake.write("groups", [rows_of("groups", row)], writer.audit_id)])


def ledger_row(lake: Lake, audit_id: int, status: str, newest_audits: dict[str, int] | None = None) -> None:
    row = AuditRow(audit_id, status, "somebody", MOMENT, newest_audits=newest_audits)
    Ledger(lake).append(row)


@pytest.mark.parametrize("app_id", [APP_ID, REBUILD_APP_ID])
def test_rows_of_a_later_audit_or_rebuild_are_not_seen(lake: Lake, app_id: str) -> None:
    assert LakeAsOfAudit.last_finished(lake).audit_id == 0
    replace(lake, 1)
    ledger_row(lake, 1, "running")
    assert LakeAsOfAudit.last_finished(lake).rows("groups").num_rows == 0
    ledger_row(lake, 1, "finished")
    ledger_row(lake, 2, "running")
    replace(lake, 2, app_id)
    # A commit that removes a killed audit's rows, or compacts files, has no audit's number.
    lake.table("groups").commit([], by="test", transaction=None, remove=lambda file: True)
    tables = LakeAsOfAudit.last_finished(lake)
    assert tables.audit_id == 1
    assert tables.rows("groups")["group_id"].to_pylist() == ["g1"]
    frame = tables.read("groups")
    ledger_row(lake, 3, "finished")
    assert [row.group_id for row in frame.collect()] == ["g1"]
    assert [row.audit_id for row in tables.read("audits").collect() if row.status == "finished"] == [1]
    assert LakeAsOfAudit.last_finished(lake).rows("groups").num_rows == 0
    ledger_row(lake, 4, "finished", {"groups": 4})
    with pytest.raises(
        KgroupsError, match=r"has lost the newest version of table groups \(a file in groups/_delta_log"
    ):
        LakeAsOfAudit.last_finished(lake).rows("groups")
    replace(lake, 4)
    assert LakeAsOfAudit.last_finished(lake).rows("groups").num_rows == 1
