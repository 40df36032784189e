from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgroups_spark.lake.parts import PartWriter, file_statistics
from kgroups_spark.tables.schemas import arrow_schema
from tests.lake.table_rows import MOMENT, rows_of


@pytest.fixture
def writer(tmp_path: Path) -> PartWriter:
    (tmp_path / "offset_commits").mkdir()
    return PartWriter("offset_commits", str(tmp_path), audit_id=7)


def written(writer: PartWriter, rows: pa.Table) -> tuple[pa.Table, dict]:
    part = writer.write(rows)
    assert part is not None
    path = Path(writer.lake_uri) / "offset_commits" / part.path
    assert (part.table, part.size, part.records) == ("offset_commits", path.stat().st_size, rows.num_rows)
    return pq.read_table(path), json.loads(part.stats_json)


def test_a_part_has_the_given_rows_and_reports_size_records_and_bounds(writer):
    rows = rows_of(
        "offset_commits",
        {"audit_id": 7, "offsets_partition": 3, "log_offset": 12, "group_id": "b", "log_timestamp": MOMENT},
        {"audit_id": 7, "offsets_partition": 3, "log_offset": 99, "group_id": "ä", "log_timestamp": None},
    )
    table, stats = written(writer, rows)
    assert table.equals(rows)
    (path,) = (Path(writer.lake_uri) / "offset_commits").iterdir()
    assert pq.read_metadata(path).row_group(0).column(0).compression == "ZSTD"
    assert stats == {
        "numRecords": 2,
        "minValues": {
            "audit_id": 7,
            "offsets_partition": 3,
            "log_offset": 12,
            "log_timestamp": "2026-11-16T06:30:15.123Z",
            "group_id": "b",
        },
        "maxValues": {
            "audit_id": 7,
            "offsets_partition": 3,
            "log_offset": 99,
            "log_timestamp": "2026-11-16T06:30:15.123Z",
            "group_id": "ä",
        },
        "nullCount": {"audit_id": 0, "offsets_partition": 0, "log_offset": 0, "log_timestamp": 1, "group_id": 0},
    }


def test_a_string_is_a_bound_in_full_or_not_at_all(writer):
    long_name = "g" * 5000
    _, stats = written(writer, rows_of("offset_commits", {"group_id": long_name}, {"group_id": "a"}))
    bounds = {stats["minValues"].get("group_id"), stats["maxValues"].get("group_id")}
    assert bounds <= {None, "a", long_name}


def test_dictionaries_are_written_as_texts(writer):
    rows = rows_of("offset_commits", {"group_id": "a"}, {"group_id": "b"}, {"group_id": "a"})
    column = rows.schema.get_field_index("group_id")
    encoded = rows.set_column(column, "group_id", rows["group_id"].dictionary_encode())
    table, stats = written(writer, encoded)
    assert table.schema.field("group_id").type == pa.string()
    assert table["group_id"].to_pylist() == ["a", "b", "a"]
    assert stats["maxValues"]["group_id"] == "b"


def test_batches_become_one_part_with_bounds_over_all_of_them(writer):
    batches = [
        rows_of("offset_commits", {"log_offset": offset, "log_timestamp": MOMENT + timedelta(seconds=offset)})
        for offset in (5, 900, 17)
    ]
    part = writer.write_batches([batches[0], batches[0].slice(0, 0), *batches[1:]])
    assert part is not None
    stats = json.loads(part.stats_json)
    assert (part.records, stats["minValues"]["log_offset"], stats["maxValues"]["log_offset"]) == (3, 5, 900)
    assert stats["maxValues"]["log_timestamp"] == "2026-11-16T06:45:15.123Z"


def test_no_rows_make_no_file(writer):
    assert writer.write(arrow_schema("offset_commits").empty_table()) is None
    assert list((Path(writer.lake_uri) / "offset_commits").iterdir()) == []


def test_rows_of_another_table_are_refused_with_every_difference(writer):
    rows = rows_of("offset_commits", {}).drop_columns(["topic"]).append_column("colour", pa.array(["red"]))
    with pytest.raises(ValueError, match="offset_commits: topic is missing, colour is not a column of it"):
        writer.write(rows)


def test_a_null_where_none_is_allowed_is_refused(writer):
    rows = rows_of("offset_commits", {})
    column = rows.schema.get_field_index("group_id")
    with pytest.raises(ValueError, match="group_id"):
        writer.write(rows.set_column(column, "group_id", pa.nulls(1, pa.string())))


def test_a_table_with_lists_and_maps_is_written_unchanged(tmp_path):
    (tmp_path / "groups").mkdir()
    rows = rows_of("groups", {"resolved_regex_topics": [("a.*", ["ab", "ac"])]}, {"resolved_regex_topics": None})
    part = PartWriter("groups", str(tmp_path), 1).write(rows)
    assert part is not None
    read = pq.read_table(tmp_path / "groups" / part.path)
    assert read["resolved_regex_topics"].to_pylist() == [[("a.*", ["ab", "ac"])], None]


def test_statistics_are_left_out_for_a_column_without_them(tmp_path):
    path = tmp_path / "no.parquet"
    pq.write_table(pa.table({"a": [1, 2]}), path, write_statistics=False)
    assert file_statistics(pq.read_metadata(path), ("a",)) == {
        "numRecords": 2,
        "minValues": {},
        "maxValues": {},
        "nullCount": {},
    }


def test_a_column_of_nulls_has_no_bounds(writer):
    _, stats = written(writer, rows_of("offset_commits", {"log_timestamp": None}))
    assert "log_timestamp" not in {**stats["minValues"], **stats["maxValues"]}
    assert stats["nullCount"]["log_timestamp"] == 1


def test_row_groups_of_the_ledger_have_few_rows(tmp_path):
    """A command reads one of them."""
    (tmp_path / "audits").mkdir()
    part = PartWriter("audits", str(tmp_path), 1).write(rows_of("audits", *({"audit_id": n} for n in range(150))))
    assert part is not None
    assert pq.read_metadata(tmp_path / "audits" / part.path).num_row_groups == 2
