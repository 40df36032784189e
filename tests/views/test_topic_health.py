"""View topic_health over recorded logs; topic_health.sql has its cases."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.chosen import some_of
from tests.views.arrow_tables import in_duckdb
from tests.views.recorded import LOGS, audited_log, tables_of

COLUMNS = (
    *("offsets_partition", "log_start_offset", "end_offset", "span", "records", "bytes", "live_records"),
    *("garbage_records", "tombstones", "open_transactions", "oldest_open_transaction_offset", "oldest_open_since"),
    *("oldest_open_producer_id", "commits_per_hour"),
)


def health(tables: dict[str, pa.Table]) -> list[tuple[Any, ...]]:
    with in_duckdb(tables) as connection:
        found: list[tuple[Any, ...]] = connection.sql(
            f"SELECT {', '.join(COLUMNS)} FROM topic_health ORDER BY offsets_partition"
        ).fetchall()
    return found


@pytest.mark.parametrize("log", some_of(2, *LOGS))
def test_the_numbers_of_a_recorded_log_are_those_of_its_records(log: str) -> None:
    """Counted by hand: keys whose newest record is a value, tombstones, and the rest."""
    result = audited_log(log)
    read = result.nights[-1].audit.partitions or ()
    pending = {(row["offsets_partition"], row["log_offset"]) for row in result.rows("pending_offsets")}
    keys: dict[tuple[Any, ...], bool] = {}
    tombstones: dict[int, int] = {}
    for row in result.rows("group_records"):
        its = [row[name] for name in ("record_type", "group_id", "member_id", "regular_expression")]
        keys[(row["offsets_partition"], *its)] = row["value"] is not None
        tombstones[row["offsets_partition"]] = tombstones.get(row["offsets_partition"], 0) + (row["value"] is None)
    committed = [row["offsets_partition"] for row in result.rows("committed_offsets")]
    for row in result.rows("offset_commits"):
        gone = row["committed_offset"] is None
        tombstones[row["offsets_partition"]] = tombstones.get(row["offsets_partition"], 0) + gone
    reported = {row[0]: dict(zip(COLUMNS, row, strict=True)) for row in health(tables_of(log))}
    assert sorted(reported) == sorted({each.offsets_partition for each in read})
    for partition, row in reported.items():
        live = committed.count(partition) + sum(p == partition for p, _ in pending)
        live += sum(is_live for key, is_live in keys.items() if key[0] == partition)
        records = sum(each.records for each in read if each.offsets_partition == partition)
        assert (row["records"], row["live_records"]) == (records, live)
        assert row["garbage_records"] == records - live >= 0
        assert row["tombstones"] == tombstones.get(partition, 0) <= row["garbage_records"]
        opened = [r for r in result.rows("open_transactions") if r["offsets_partition"] == partition]
        first = min((r["transaction_start_offset"] for r in opened), default=None)
        assert (row["open_transactions"], row["oldest_open_transaction_offset"]) == (len(opened), first)
