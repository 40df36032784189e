"""Records stamped in the future, in the middle of a log: history treats them as records without a time."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import duckdb
import pytest

from kgroups_spark.lake.ledger import FINISHED, AuditRow
from kgroups_spark.replay.ranges import believed_until
from kgroups_spark.words import to_epoch_ms
from tests.chosen import Chosen, one_of
from tests.lake.table_rows import rows_of as table_rows
from tests.nights.nights_here import Audited, How, audit
from tests.views.arrow_tables import in_duckdb, rows_of, with_known_history
from tests.views.history_logs import AHEAD, READS_ALL, ahead_log
from tests.views.replayed_logs import STATES

STARTED = datetime(2026, 11, 20, tzinfo=UTC)
NONE = -1
# Columns that say what the record says, whatever its time is worth.
AS_WRITTEN = ("log_timestamp", "state_since", "open_since")


@cache
def audited_log(seed: int, time: int) -> Audited:
    return audit(ahead_log(seed, time), How(READS_ALL, clock_ms=to_epoch_ms(STARTED)))


def views(seed: int, time: int, started_at: datetime = STARTED) -> duckdb.DuckDBPyConnection:
    """The views of a log in which some batches have this time."""
    audited = audited_log(seed, time)
    finished = {"audit_id": 1, "status": "finished", "started_at": started_at}
    finished["newest_log_timestamp"] = audited.nights[-1].audit.newest_log_timestamp
    tables = {**audited.tables(), "audits": table_rows("audits", finished)}
    return with_known_history(tables)


def said(lake: duckdb.DuckDBPyConnection, source: str) -> list[dict[str, Any]]:
    return rows_of(lake, f"SELECT COLUMNS(lambda name: name NOT IN {AS_WRITTEN}) FROM {source}")


@pytest.mark.parametrize("time", one_of(*AHEAD))
def test_records_ahead_of_time_count_as_records_without_a_time(time: int, chosen: Chosen) -> None:
    differed = 0
    for seed in chosen.some(range(20), 1):
        ahead, without = views(seed, time), views(seed, NONE)
        moments = [row["at"] for row in rows_of(ahead, "SELECT DISTINCT log_timestamp AS at FROM offset_commits")]
        moments = [at for at in moments if at is not None and at < STARTED]
        for at in random.Random(seed).sample(moments, 1):
            for state in STATES:
                call = f"{state}_as_of(TIMESTAMPTZ '{at:%Y-%m-%d %H:%M:%S.%f}Z')"
                assert said(ahead, call) == said(without, call), (seed, call)
        for view in ("offset_history", "group_history", "group_member_history", "partition_owners"):
            assert said(ahead, view) == said(without, view), (seed, view)
        differed += rows_of(ahead, "FROM group_versions") != rows_of(without, "FROM group_versions")
    # In some logs snapshots have the times.
    assert differed or not chosen.every


def test_times_are_believed_up_to_a_day_after_the_audit_began_or_up_to_the_newest_time() -> None:
    day = timedelta(days=1)
    for newest, until in ((None, STARTED + day), (STARTED, STARTED + day), (STARTED + 9 * day, STARTED + 9 * day)):
        finished = {"audit_id": 1, "status": "finished", "started_at": STARTED, "newest_log_timestamp": newest}
        [row] = rows_of(in_duckdb({"audits": table_rows("audits", finished)}), "SELECT believed_until FROM last_audit")
        assert row["believed_until"] == until
        audit = AuditRow(1, FINISHED, "host", STARTED, newest_log_timestamp=newest)
        assert believed_until(audit) == to_epoch_ms(until)
