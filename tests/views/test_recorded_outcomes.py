"""Real brokers did what was decided: after each of their clean-ups the view reports exactly those as `removed`.

The corpus is that of 4.3.1 (tests/logs/recorded_expiry.py): an audit before each clean-up, and one after it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.chosen import one_of
from tests.expiry.twin import expires, judge_offset
from tests.lake.table_rows import rows_of as table_rows
from tests.logs.corpora import ANSWERS
from tests.logs.log_files import Border, borders, files_of_nights, segments_of
from tests.logs.recorded_expiry import FILES as FILES_BY_RELEASE
from tests.logs.recorded_expiry import in_ms, tombstone_batches
from tests.nights.nights_here import Audited, How, new_lake
from tests.views.arrow_tables import in_duckdb, rows_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SLOT = ("group_id", "topic", "partition")
FILES, RELEASE = FILES_BY_RELEASE["4.3"], (4, 3)
RETENTION_MS = ANSWERS["expiry-4.3-after"]["retention_ms"]


@pytest.mark.parametrize("partition", one_of(*segments_of(FILES)))
def test_offsets_removed_by_each_clean_up_of_a_broker_are_reported(partition: int) -> None:
    restarted_at = ANSWERS["expiry-4.3-before"]["ends"][str(partition)]
    checks = [(begin, behind, removed) for begin, _, behind, removed in tombstone_batches(FILES, partition)]
    checks = [check for check in checks if check[0].next_offset >= restarted_at]
    assert checks
    places = {border.next_offset: border for border in borders(FILES, partition)}
    audited, removed_by_all = new_lake(), 0
    ends = [end for begin, behind, _ in checks for end in (begin, places[behind])]
    given = files_of_nights(FILES, {partition: [[end] for end in ends]})
    for begin, behind, removed in checks:
        audited.night(next(given), How("4.3"))
        before, decisions = audited.audits, decided(audited)
        audited.night(next(given), How("4.3"))
        offsets_removed = {name for name in removed if len(name) == 3}
        assert reported_as_removed(before, decisions, audited, partition, begin, places[behind]) == offsets_removed
        removed_by_all += len(offsets_removed)
    assert removed_by_all


def reported_as_removed(
    before: int, decisions: list[dict[str, Any]], after: Audited, partition: int, then: Border, now: Border
) -> set[tuple[Any, ...]]:
    """The slots that the view reports as removed, of those decided at the newest log time of `then`. The rest is still
    there."""
    last = max(decisions, default=None, key=lambda row: row["as_of"])
    tables = {name: after.table(name) for name in ("offset_commits", "transaction_markers")}
    tables["committed_offsets"] = table_rows("committed_offsets", *after.rows("committed_offsets"))
    tables["previous_offset_expiry"] = table_rows("previous_offset_expiry", *decisions)
    tables["audits"] = table_rows(
        "audits",
        ledger_row(before, partition, then.next_offset, last["as_of"] if last else EPOCH),
        ledger_row(after.audits, partition, now.next_offset, newest_log_timestamp(after)),
    )
    seen = rows_of(in_duckdb(tables), "SELECT * FROM expiry_outcomes")
    assert {row["outcome"] for row in seen} <= {"removed", "still_there"}
    assert all(row["removed_after_ms"] >= 0 for row in seen if row["outcome"] == "removed")
    return {tuple(row[name] for name in SLOT) for row in seen if row["outcome"] == "removed"}


def newest_log_timestamp(audited: Audited) -> datetime:
    newest = audited.nights[-1].audit.newest_log_timestamp
    assert newest is not None
    return newest


def decided(audited: Audited) -> list[dict[str, Any]]:
    """Rows of previous_offset_expiry by the slow twin of the expiry rules."""
    as_of = newest_log_timestamp(audited)
    as_of_ms = round(as_of.timestamp() * 1000)
    groups, members, offsets, pending = (
        [in_ms(row) for row in audited.rows(name)]
        for name in ("groups", "group_members", "committed_offsets", "pending_offsets")
    )
    rows = []
    for row in offsets:
        reason, _, _, expires_at, _ = judge_offset(row, groups, members, pending, as_of_ms, RETENTION_MS, RELEASE, True)
        names = (*SLOT, "offsets_partition", "committed_offset", "log_offset")
        rows.append(
            {name: row[name] for name in names}
            | {"as_of": as_of, "decided_by": audited.audits, "reason": reason}
            | {"decision": "expire" if expires(reason) else "keep"}
            | {"expires_at": None if expires_at is None else EPOCH + timedelta(milliseconds=expires_at)}
        )
    return rows


def ledger_row(audit_id: int, partition: int, end_offset: int, as_of: datetime) -> dict[str, Any]:
    read = {"offsets_partition": partition, "start_offset": 0, "end_offset": end_offset}
    return {"audit_id": audit_id, "status": "finished", "as_of": as_of, "partitions": [read]}
