"""Views lag and share_lag: offsets beside the ends of their topics; lag.sql has the cases of lag."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.lake.claim import Claim, clear_up
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.local import Local
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.sql.by_duckdb import duckdb_reader
from kgroups_spark.tables.schemas import TABLES
from tests.lake.table_rows import MOMENT, rows_of
from tests.views.arrow_tables import in_duckdb
from tests.views.lag_cases import ENDS, GREATEST, SHARED, share_lag, tables


@pytest.mark.parametrize(("live", "ends"), [(True, ENDS), (False, {})], ids=["a live audit", "none"])
def test_every_share_partition_has_a_row_with_its_lag(live: bool, ends: dict[int, int | None]) -> None:
    found = in_duckdb(tables(live)).sql("SELECT group_id, lag, log_end_offset FROM share_lag").fetchall()
    expected = set()
    for number, (topic_id, partition, start, done) in enumerate(SHARED):
        end = ends.get(partition) if topic_id == "A" else None
        lag = share_lag(start, done, end)
        expected.add((f"s{number}", None if lag is not None and lag > GREATEST else lag, end))
    assert set(found) == expected
    assert len(found) == len(SHARED)


def an_audit(lake: Lake, *, finishes: bool, **given: list[dict[str, Any]]) -> None:
    """An audit that writes these tables, and finishes or is given up."""
    with Claim.take(lake, take_over=True) as claim:
        clear_up(claim)
        its = LakeWriter(lake, claim.audit_id, claim.check)
        for name, rows in given.items():
            numbered = rows_of(name, *({**row, "audit_id": claim.audit_id} for row in rows))
            (its.append_table if TABLES[name].kind == "history" else its.replace_table)(name, numbered)
        if finishes:
            claim.finish()


def test_topic_offsets_of_an_unfinished_audit_do_not_count(local: Local, tmp_path: Path) -> None:
    lake = Lake.create(local, str(tmp_path / "lake"))
    place = {"topic": "t", "partition": 0}
    offsets = [place | {"group_id": "g", "committed_offset": 40}]
    seen = place | {"log_start_offset": 0, "log_end_offset": 50, "status": "ok"}
    an_audit(lake, finishes=True, committed_offsets=offsets, topic_offsets=[seen])
    an_audit(lake, finishes=False, topic_offsets=[seen | {"log_end_offset": 90}])
    # An audit of segments comes after it and clears up: what it asked for is nowhere to be seen.
    for _ in range(2):
        found = duckdb_reader(lake.location, must=True)
        assert found is not None
        assert [tuple(row.values()) for row in found.sql("SELECT group_id, log_end_offset, lag, seen_at FROM lag")] == [
            ("g", 50, 10, MOMENT)
        ]
        an_audit(lake, finishes=True, committed_offsets=offsets)
