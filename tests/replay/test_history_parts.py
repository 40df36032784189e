"""Files of tables as others wrote them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kgroups_spark.offsets.columns import SlotRange
from kgroups_spark.replay import stored_history
from kgroups_spark.replay.stored_history import PartReader, StoredFile, StoredTable, TaskShards, part_schema
from tests.lake.table_rows import rows_of

NAME = "committed_offsets"
THEN = datetime(2026, 1, 1, tzinfo=UTC)


def table(name: str, folder: Path, *files: str) -> StoredTable:
    found = tuple(StoredFile(f"{file}.parquet", None) for file in files)
    return StoredTable(name, name, str(folder), tuple(part_schema(name).names), found)


def reader(*shards: int) -> PartReader:
    (found,) = TaskShards((shards,), dict.fromkeys(shards, 400)).readers(shards)
    return found


@pytest.mark.parametrize("by_spark", [False, True])
def test_columns_are_those_of_the_table(tmp_path: Path, by_spark: bool) -> None:
    """Spark may write times in 96 bits."""
    rows = rows_of(NAME, {"offsets_partition": 3, "group_id": "g", "commit_timestamp": THEN, "value_version": 4})
    pq.write_table(rows, tmp_path / "part.parquet", use_deprecated_int96_timestamps=by_spark)
    read = reader(3).rows(table(NAME, tmp_path, "part"), 3)
    assert read.schema == part_schema(NAME)
    assert [(row["commit_timestamp"], row["value_version"]) for row in read.to_pylist()] == [(THEN, 4)]


def test_commits_are_folded_by_ranges_of_groups(tmp_path: Path, monkeypatch) -> None:
    """Ten parts, each with a commit of 40 groups in row groups that end with the same four groups."""
    monkeypatch.setattr(stored_history, "COMMITS_AT_ONCE", 40)
    name, commits = "offset_commits", [{"offsets_partition": 3, "group_id": f"g{number:02}"} for number in range(40)]
    for part in range(10):
        pq.write_table(rows_of(name, *commits), tmp_path / f"{part}.parquet", row_group_size=10)
    parts, reads = table(name, tmp_path, *map(str, range(10))), reader(3, 4)
    ranges = reads.ranges(parts, 3)
    assert [len(reads.rows(parts, 3, each)) for each in ranges] == [40] * 10
    assert [len(reads.rows(parts, number)) for number in (3, 4)] == [400, 0]
    assert reads.ranges(parts, 4) == [SlotRange()]


def test_a_large_shard_is_read_by_large_ranges_and_folded_by_small_ones(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(stored_history, "COMMITS_AT_ONCE", 3)
    name, rows = (
        "offset_commits",
        [{"group_id": group, "partition": at % 4} for at, group in enumerate("aabbbbcccdddddddd")],
    )
    pq.write_table(rows_of(name, *rows), tmp_path / "0.parquet")
    parts, reads = table(name, tmp_path, "0"), next(TaskShards(((0,),), {0: len(rows)}, at_once=8).readers((0,)))
    for _ in range(2):
        found = [reads.rows(parts, 0, each)["group_id"].to_pylist() for each in reads.ranges(parts, 0)]
        assert sorted(group for some in found for group in some) == sorted(row["group_id"] for row in rows)
        assert max(map(len, found)) <= 3
    assert len(reads._large) > 1
