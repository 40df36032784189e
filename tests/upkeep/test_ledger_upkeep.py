"""`maintain --keep` removes findings of old audits, and commands say so. The ledger stays."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.audit.keep import audits_without_findings
from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import MaintainOptions
from kgroups_spark.cli.main import main
from kgroups_spark.lake.last_finished import Removal, removals
from kgroups_spark.sql.by_duckdb import DuckDbLake
from kgroups_spark.tables.columns import expression_of
from kgroups_spark.words import to_epoch_ms
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


def test_findings_of_old_audits_go(session: Any, tmp_path: Path, capsys) -> None:
    found = [{"audit_id": n, "finding": "mixed_commits", "severity": "notice"} for n in range(1, NIGHTS + 1)]
    nights = ledger(*(night(number) for number in range(1, NIGHTS + 1)))
    lake = write_lake(tmp_path / "lake", {"audits": nights, "findings": rows_of("findings", *found)})
    before = answers(lake)
    options = MaintainOptions(lake, keep_ms=KEPT_NIGHTS * 86_400_000, optimize=False)
    foreseen = run_maintain(session, MaintainOptions(**{**vars(options), "dry_run": True}))
    summary = run_maintain(session, options)
    newest_old = NIGHTS - KEPT_NIGHTS - 1
    assert summary.rows_removed == foreseen.rows_removed == {"findings": newest_old}
    # The audit that kept the state and the one that reduced history are two more.
    asked = "SELECT audit_id FROM audits WHERE status = 'finished' ORDER BY audit_id"
    assert numbers(lake, asked) == [*range(1, NIGHTS + 3)]
    assert numbers(lake, "SELECT audit_id FROM findings ORDER BY audit_id") == [*range(newest_old + 1, NIGHTS + 1)]
    assert answers(lake) == before
    _ask_commands(lake, newest_old, capsys)
    again = run_maintain(session, options)
    assert again.rows_removed == {}


def _ask_commands(lake: str, newest_old: int, capsys) -> None:
    capsys.readouterr()
    assert main(["findings", "--lake", lake, "--format", "json"]) == 0
    assert [json.loads(line)["audit_id"] for line in capsys.readouterr().out.splitlines()] == [NIGHTS]
    assert main(["findings", "--lake", lake, "--all-audits"]) == 0
    assert f"removed the findings of audits up to {newest_old}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("day", "looked_to", "decided_by", "gone"),
    [(4, 9, None, [1, 2, 3]), (9, 3, None, [1, 2]), (9, 9, 3, [1, 2]), (9, 0, None, []), (1, 9, None, [])],
)
def test_findings_stay_that_are_young_the_last_or_still_judged(
    day: int, looked_to: int, decided_by: int | None, gone: list[int]
) -> None:
    rows = [
        {"audit_id": n, "as_of": AS_OF + timedelta(days=n), "rows_added": {"findings": 0} if n <= looked_to else {}}
        for n in range(1, 10)
    ]
    moment_ms = to_epoch_ms(AS_OF + timedelta(days=day))
    assert audits_without_findings(rows_of("audits", *rows), moment_ms, decided_by) == gone


def test_the_ledger_names_the_run_that_removed_findings() -> None:
    rows = [
        {"audit_id": number, "status": status, "removed_up_to": up_to}
        for number, status, up_to in ((9, "finished", 4), (12, "finished", None), (15, "finished", 11), (16, "x", 14))
    ]
    ledger = rows_of("audits", *rows)
    found = removals(lambda _, columns, conditions: ledger.filter(expression_of(conditions)).select(columns))
    assert found == [Removal(4, 9), Removal(11, 15)]
