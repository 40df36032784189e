"""`kgroups lag`: the newest lag of groups and partitions, and its trend over live audits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kgroups_spark.cli.lag import trend
from tests.cli.group_questions import reader_of, second
from tests.lake.table_rows import MOMENT, rows_of

DAY = timedelta(days=1)


def ends(audit_id: int, partition: int, start: int, end: int) -> dict[str, Any]:
    place = {"audit_id": audit_id, "topic": "t", "partition": partition, "status": "ok"}
    return place | {"log_start_offset": start, "log_end_offset": end, "seen_at": MOMENT + audit_id * DAY}


def commit(group_id: str, log_offset: int, partition: int, committed_offset: int | None) -> dict[str, Any]:
    slot = {"group_id": group_id, "topic": "t", "partition": partition, "offsets_partition": 0}
    return slot | {"log_offset": log_offset, "committed_offset": committed_offset, "log_timestamp": second(1)}


@pytest.fixture
def lagging() -> Any:
    """`slow` stays at 10 and 5 while its topic grows; `fast` keeps up; `gone` is removed before the last audit."""
    audits = [
        {"audit_id": number, "status": "finished", "partitions": [{"offsets_partition": 0, "end_offset": 10 * number}]}
        for number in (1, 2, 3)
    ]
    reader = reader_of(
        group_versions=[
            {"offsets_partition": 0, "group_id": name, "log_offset": 0} for name in ("slow", "fast", "gone")
        ],
        offset_commits=[
            commit("slow", 1, 0, 10),
            commit("slow", 2, 1, 5),
            commit("fast", 3, 0, 20),
            commit("gone", 4, 0, 20),
            commit("fast", 15, 0, 50),
            commit("fast", 25, 0, 80),
            commit("gone", 26, 0, None),
        ],
        topic_offsets=[
            *(ends(number, 0, at, end) for number, at, end in ((1, 0, 20), (2, 0, 50), (3, 12, 80))),
            *(ends(number, 1, 0, 5) for number in (1, 2, 3)),
        ],
    )
    reader._views.register("audits", rows_of("audits", *audits))
    return reader


def test_a_row_a_group_with_the_largest_lag_first(lagging: Any, rows: Any, kgroups: Any) -> None:
    found = [
        (row["group_id"], row["partition_count"], row["lag"], row["change"], row["records_lost"], row["trend"])
        for row in rows("lag", lagging)
    ]
    assert found == [("slow", 2, 70, 60, 2, "▂▅█"), ("fast", 1, 0, 0, 0, "▁▁▁")]
    _, out, err = kgroups("lag", lagging)
    assert out.splitlines()[0].split() == ["GROUP", "#PARTITIONS", "LAG", "CHANGE", "LOST", "BEHIND", "TREND"]
    assert "2 groups; the ends of topics are those of audit 3, 2026-11-19 06:30:15 UTC" in err


def test_a_row_a_partition_of_named_groups_from_a_time_on(lagging: Any, rows: Any) -> None:
    found = rows("lag --group slow --since 2026-11-18", lagging)
    assert [(row["partition"], row["lag"], row["change"], row["committed_offset"], row["trend"]) for row in found] == [
        (0, 70, 30, 10, "▅█"),
        (1, 0, 0, 5, "▁▁"),
    ]
    (one,) = rows("lag --group slow --topic t:0", lagging)
    assert (one["lag"], one["log_start_offset"], one["log_end_offset"], one["records_lost"]) == (70, 12, 80, 2)


def test_a_lake_without_a_live_audit_has_no_lag(kgroups: Any) -> None:
    code, out, err = kgroups("lag", reader_of())
    assert (code, out) == (1, "")
    assert "only an audit of a live cluster sees the ends of topics" in err


@pytest.mark.parametrize(
    ("lags", "expected"),
    [([], ""), ([0, 0], "▁▁"), ([-5, None, 7], "▁ █"), ([1, 1000, 500], "▂█▅"), ([None], " ")],
)
def test_a_trend_begins_at_zero(lags: list[int | None], expected: str) -> None:
    assert trend(lags) == expected
