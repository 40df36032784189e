"""`maintain --keep` reduces the ledger and findings, by both writers, and commands say so."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import MaintainOptions
from kgroups_spark.cli.main import main
from kgroups_spark.sql.by_duckdb import DuckDbLake
from tests.cli.written_lake import AS_OF, ledger, write_lake
from tests.lake.table_rows import rows_of
from tests.report.made_lakes import partition_read

NIGHTS = 12
KEPT_NIGHTS = 4
ASKED = (
    "SELECT * FROM log_totals ORDER BY offsets_partition",
    "SELECT * FROM topic_health ORDER BY offsets_partition",
    "SELECT * FROM coverage ORDER BY offsets_partition",
)


def night(number: int) -> dict[str, object]:
    at = AS_OF - timedelta(days=NIGHTS - number)
    span = {"start_offset": 10 * number, "end_offset": 10 * number + 10, "records": 9, "bytes": 900}
    read = [partition_read(p, **span, newest_log_timestamp=at) for p in range(3)]
    row: dict[str, object] = {"audit_id": number, "started_at": at, "as_of": at, "newest_log_timestamp": at}
    return row | {"partitions": read, "rows_added": {"findings": 1}, "quarantined": {}, "notes": [], "source": "kafka"}


def answers(lake: str) -> list[object]:
    opened = DuckDbLake(lake)
    return [opened.query(query).to_pylist() for query in ASKED]


def numbers(lake: str, query: str) -> list[int]:
    return [row["audit_id"] for row in DuckDbLake(lake).query(query).to_pylist()]


def test_old_audits_and_their_findings_go(session: Any, tmp_path: Path, capsys) -> None:
    found = [{"audit_id": n, "finding": "mixed_commits", "severity": "notice"} for n in range(1, NIGHTS + 1)]
    nights = ledger(*(night(number) for number in range(1, NIGHTS + 1)))
    lake = write_lake(tmp_path / "lake", {"audits": nights, "findings": rows_of("findings", *found)})
    before = answers(lake)
    options = MaintainOptions(lake, keep_ms=KEPT_NIGHTS * 86_400_000, optimize=False)
    foreseen = run_maintain(session, MaintainOptions(**{**vars(options), "dry_run": True}))
    summary = run_maintain(session, options)
    newest_old = NIGHTS - KEPT_NIGHTS - 1
    assert summary.rows_removed["findings"] == newest_old
    # The last but one of the old audits has the sums of the others; the audit that kept the state is one more.
    assert summary.rows_removed["audits"] == newest_old - 2
    assert foreseen.rows_removed == summary.rows_removed
    kept = [newest_old - 1, *range(newest_old, NIGHTS + 3)]
    assert numbers(lake, "SELECT audit_id FROM audits WHERE status = 'finished' ORDER BY audit_id") == kept
    assert numbers(lake, "SELECT audit_id FROM findings ORDER BY audit_id") == [*range(newest_old + 1, NIGHTS + 1)]
    assert answers(lake) == before
    _ask_commands(lake, newest_old, capsys)
    again = run_maintain(session, options)
    assert again.rows_removed == {}


def _ask_commands(lake: str, newest_old: int, capsys) -> None:
    capsys.readouterr()
    assert main(["findings", "--lake", lake, "--audit", "3"]) == 1
    assert (
        f"the findings of audit 3 are gone: kgroups maintain --keep (audit {NIGHTS + 2}) removed those of "
        f"audits up to {newest_old}" in capsys.readouterr().err
    )
    assert main(["findings", "--lake", lake, "--format", "json"]) == 0
    assert [json.loads(line)["audit_id"] for line in capsys.readouterr().out.splitlines()] == [NIGHTS]
    gone = f"removed old audits up to {newest_old} and their findings"
    for words in (["audits"], ["findings", "--all-audits"]):
        assert main([words[0], "--lake", lake, *words[1:]]) == 0
        assert gone in capsys.readouterr().err
    assert main(["findings", "--lake", lake, "--audit", str(NIGHTS + 1)]) != 0
    assert "did not look for findings" in capsys.readouterr().err
