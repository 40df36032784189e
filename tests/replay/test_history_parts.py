"""Files of tables as others wrote them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

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
