"""When the history of a lake begins, by the times in its log. written_screens.txt has --as-of before, inside and after
it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.written_lake import ledger
from tests.lake.table_rows import rows_of as table_rows
from tests.views.arrow_tables import in_duckdb, rows_of

TIMES = [datetime(2025, 11, 15, 9, minute, tzinfo=UTC) for minute in range(3)]
OLD = datetime(1970, 1, 1, tzinfo=UTC)


def commits_at(*times):
    return table_rows("offset_commits", *({"log_offset": at, "log_timestamp": each} for at, each in enumerate(times)))


OLD_TIMES = [
    ([OLD, *TIMES], TIMES[0]),
    ([*TIMES, OLD, None], TIMES[0]),
    ([OLD, OLD + timedelta(days=40), *TIMES], TIMES[0]),
    ([OLD, TIMES[0]], OLD),
    ([OLD], OLD),
    ([OLD, OLD, *TIMES], TIMES[0]),
    ([OLD, OLD + timedelta(milliseconds=1), *TIMES], OLD),
    ([OLD, OLD + timedelta(days=30), *TIMES], OLD),
    ([OLD, OLD + timedelta(days=30, milliseconds=1), *TIMES], TIMES[0]),
    ([None], None),
    ([], None),
]


@pytest.mark.parametrize(("times", "begins"), OLD_TIMES)
def test_one_broken_old_time_does_not_begin_the_history(times, begins):
    history = in_duckdb({"offset_commits": commits_at(*times), "audits": ledger({})})
    assert rows_of(history, "SELECT begins FROM known_history") == [{"begins": begins}]
