"""Files of tables as others wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgroups_spark.offsets.ranges import Border, SlotRange, ranges_between
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


def test_commits_are_folded_by_ranges_of_groups(tmp_path: Path, monkeypatch) -> None:
    """Ten parts, each with a commit of 40 groups in row groups that end with the same four groups."""
    monkeypatch.setattr(history_parts, "COMMITS_AT_ONCE", 40)
    name, commits = "offset_commits", [{"offsets_partition": 3, "group_id": f"g{number:02}"} for number in range(40)]
    parts = [HistoryPart(name, str(tmp_path / f"{part}.parquet")) for part in range(10)]
    for part in parts:
        pq.write_table(rows_of(name, *commits), part.place, row_group_size=10)
    reader = PartReader()
    ranges = reader.ranges(parts, 3)
    assert [len(reader.rows(parts, name, 3, each)) for each in ranges] == [40] * 10
    assert [len(reader.rows(parts, name, number)) for number in (3, 4)] == [400, 0]
    assert reader.ranges(parts, 4) == [SlotRange()]


class Counted(history_parts.PartFile):
    """Notes which row groups are read."""

    read_so_far: ClassVar[list[tuple[str, int]]] = []

    def __init__(self, table: str, uri: str) -> None:
        super().__init__(table, uri)
        self.uri = uri

    def read(self, number: int) -> Iterator[pa.Table]:
        self.read_so_far.append((self.uri, number))
        return super().read(number)


@pytest.fixture
def commits(tmp_path: Path, monkeypatch) -> list[HistoryPart]:
    """Two parts of two sorted lots each, whose row groups end within groups and shards; each row is a lot of its
    own."""
    monkeypatch.setattr(history_parts, "PartFile", Counted)
    monkeypatch.setattr(history_parts, "ROWS_OF_LOT", 1)
    monkeypatch.setattr(Counted, "read_so_far", [])
    parts = [HistoryPart("offset_commits", str(tmp_path / f"{part}.parquet")) for part in range(2)]
    lot = [{"offsets_partition": shard, "group_id": f"g{number}"} for shard in (3, 4) for number in range(10)]
    for part in parts:
        pq.write_table(rows_of("offset_commits", *lot, *lot), part.place, row_group_size=8)
    return parts


def groups_read(reader: PartReader, parts: list[HistoryPart], shard: int) -> list[list[str]]:
    """The groups of a shard's rows, range by range."""
    ranges = ranges_between(map(Border, ["g2", "g5", "g8"]))
    return [reader.rows(parts, "offset_commits", shard, each).column("group_id").to_pylist() for each in ranges]


OF_RANGES = [
    sorted(4 * [f"g{number}" for number in numbers]) for numbers in (range(2), range(2, 5), range(5, 8), range(8, 10))
]


def test_a_row_group_is_read_once_for_all_ranges_and_shards(commits) -> None:
    reader = PartReader()
    for shard in (3, 4):
        assert [sorted(each) for each in groups_read(reader, commits, shard)] == OF_RANGES
    assert sorted(Counted.read_so_far) == sorted({*Counted.read_so_far})
    assert not any(kept.rows for kept in reader._kept.values())


@pytest.mark.parametrize("rows_kept", [0, 5, 20])
def test_row_groups_are_read_again_if_there_is_no_room_for_them(commits, monkeypatch, rows_kept: int) -> None:
    monkeypatch.setattr(history_parts, "ROWS_KEPT", rows_kept)
    reader = PartReader()
    for shard in (3, 4):
        assert [sorted(each) for each in groups_read(reader, commits, shard)] == OF_RANGES
        assert sum(kept.rows for kept in reader._kept.values()) <= rows_kept
    assert len(Counted.read_so_far) > len({*Counted.read_so_far})


def test_the_ranges_of_a_shard_may_be_read_twice(commits) -> None:
    """As for groups that had no members for some time (climbs)."""
    reader = PartReader()
    once, again = (groups_read(reader, commits, 3) for _ in range(2))
    assert once == again
