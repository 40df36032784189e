"""Records stamped in the far future: a lake that an earlier version judged by them recovers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import MaintainOptions
from kgroups_spark.audit.run import AuditOptions, AuditSummary, run_audit
from tests.findings.logs import HOUR, Log
from tests.nights.cleaned_nights import write_folder
from tests.nights.lakes import rows

OLD = 1_700_000_000_000
YEAR_2040 = 2_208_988_800_000
CENTURY_MS = 100 * 365 * 86_400_000


def utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def test_a_lake_that_was_judged_as_of_2040_recovers(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def audit(log: Log) -> AuditSummary:
        write_folder(tmp_path / "log", log.files)
        return run_audit(session, AuditOptions(str(tmp_path / "lake"), [str(tmp_path / "log")]))

    log = Log(now=OLD).commit("g").later(YEAR_2040 - OLD).commit("h")
    with monkeypatch.context() as patch:
        for module in ("audit.work", "replay.ranges"):
            patch.setattr(f"kgroups_spark.{module}.CLOCKS_DIFFER_MS", CENTURY_MS)
        assert audit(log).audit.as_of == utc(YEAR_2040)
    # History is older than three years before 2040, but that time does not count.
    spared = MaintainOptions(str(tmp_path / "lake"), keep_ms=3 * 365 * 86_400_000, optimize=False, dry_run=True)
    assert not any(run_maintain(session, spared).rows_removed.values())
    second = audit(log.later(OLD + HOUR - YEAR_2040).commit("i").later(2**61).commit("j"))
    assert second.audit.as_of == utc(OLD + HOUR)
    assert [note for note in second.audit.notes or () if "offset 3 of partition 0" in note]
    assert len(rows(tmp_path / "lake", "offset_commits")) == 4
