"""Files of tables as others wrote them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgroups_spark.offsets.state import GroupRange, group_ranges
from kgroups_spark.replay import history_parts
from kgroups_spark.replay.history_parts import HistoryPart, PartReader, part_schema
from tests.lake.table_rows import rows_of

NAME = "committed_offsets"
THEN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("by_spark", [False, True])
def test_columns_are_those_of_the_table(tmp_path: Path, by_spark: bool) -> None:
    """A file of an older layout lacks some columns, and Spark may write times in 96 bits."""
    rows = rows_of(NAME, {"offsets_partition": 3, "group_id": "g", "commit_timestamp": THEN, "value_version": 4})
    for name, left_out in (("old", ["value_version"]), ("new", [])):
        file = tmp_path / f"{name}.parquet"
        pq.write_table(rows.drop_columns(left_out), file, use_deprecated_int96_timestamps=by_spark)
    parts = [HistoryPart(NAME, str(tmp_path / f"{name}.parquet")) for name in ("old", "new")]
    read = PartReader().rows(parts, NAME, 3)
    assert read.schema == part_schema(NAME)
    assert [(row["commit_timestamp"], row["value_version"]) for row in read.to_pylist()] == [(THEN, None), (THEN, 4)]


def test_commits_are_folded_by_ranges_of_groups_of_about_as_many_rows(tmp_path: Path, monkeypatch) -> None:
    """Three parts, each sorted by group, with four row groups of 10 commits of ten groups."""
    monkeypatch.setattr(history_parts, "COMMITS_AT_ONCE", 40)
    name, groups = "offset_commits", [f"g{number}" for number in range(10)]
    parts = [HistoryPart(name, str(tmp_path / f"{part}.parquet")) for part in range(3)]
    for part, (_, place, _) in enumerate(parts):
        rows = [{"offsets_partition": 3, "group_id": each, "log_offset": 4 * part} for each in groups for _ in range(4)]
        pq.write_table(rows_of(name, *rows), place, row_group_size=10)
    reader = PartReader()
    ranges = reader.ranges(parts, 3)
    sizes = [len(reader.rows(parts, name, 3, each)) for each in ranges]
    assert sizes == [24, 24, 36, 24, 12]
    assert [len(reader.rows(parts, name, number)) for number in (3, 4)] == [120, 0]
    assert reader.ranges(parts, 4) == [GroupRange()]


def test_a_row_group_is_read_once_for_all_ranges_and_shards(tmp_path: Path, monkeypatch) -> None:
    """Two parts of two sorted lots each, whose row groups end within groups and shards."""
    read: list[tuple[str, int]] = []

    class Counted(history_parts.PartFile):
        def __init__(self, table: str, uri: str) -> None:
            super().__init__(table, uri)
            self.uri = uri

        def read(self, number: int) -> pa.Table:
            read.append((self.uri, number))
            return super().read(number)

    monkeypatch.setattr(history_parts, "PartFile", Counted)
    name, shards, ranges = "offset_commits", (3, 4), group_ranges(["g2", "g5", "g8"])
    parts = [HistoryPart(name, str(tmp_path / f"{part}.parquet")) for part in range(2)]
    lot = [{"offsets_partition": shard, "group_id": f"g{number}"} for shard in shards for number in range(10)]
    for _, place, _ in parts:
        pq.write_table(rows_of(name, *lot, *lot), place, row_group_size=8)
    reader = PartReader()
    found = [len(reader.rows(parts, name, shard, groups)) for shard in shards for groups in ranges]
    assert found == [8, 12, 12, 8] * 2
    assert sorted(read) == sorted({*read})
