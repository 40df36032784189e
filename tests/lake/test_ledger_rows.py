"""The newest rows of the ledger: an audit opens no older file of it, and no file twice."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import AuditRow, Ledger
from kgroups_spark.lake.local import Local


def row(audit_id: int, status: str) -> AuditRow:
    return AuditRow(audit_id, status, "x", datetime(2026, 11, 16, tzinfo=UTC))


def test_the_newest_rows_are_found_without_opening_older_files_or_one_twice(
    local: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session: Any = local
    ledger = Ledger(Lake.create(session, str(tmp_path / "lake")))
    for audit_id in (1, 2, 3):
        ledger.append(row(audit_id, "running"))
        ledger.append(row(audit_id, "finished"))
    opened: list[str] = []
    rows = Lake.rows

    def counting(self: Lake, name: str, version: int | None = None, *, files: Any, **choice: Any) -> Any:
        opened.extend(file.path for file in files)
        return rows(self, name, version, files=files, **choice)

    monkeypatch.setattr(Lake, "rows", counting)
    assert [each.audit_id for each in ledger.newest()] == [3, 3]
    assert len(set(opened)) == 2
    opened.clear()
    assert [each.audit_id for each in ledger.newest()] == [3, 3]
    assert opened == []
    ledger.append(row(4, "running"))
    assert [each.audit_id for each in ledger.newest()] == [3, 3, 4]
    assert len(set(opened)) == 1
