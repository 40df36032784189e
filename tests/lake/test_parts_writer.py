from __future__ import annotations

import json
import random
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgroups_spark.audit.keep import LOT_BYTES, SMALL_BYTES, files_for, lots, optimize, rewrite
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.parts import PartWriter, file_statistics
from kgroups_spark.lake.store import TableFile
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.tables.schemas import arrow_schema
from tests.lake.table_rows import MOMENT, rows_of


@pytest.fixture
def writer(tmp_path: Path) -> PartWriter:
    (tmp_path / "offset_commits").mkdir()
    return PartWriter("offset_commits", str(tmp_path), audit_id=7)


def written(writer: PartWriter, rows: pa.Table) -> tuple[pa.Table, dict]:
    part = writer.write([rows])
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
    part = writer.write([batches[0], batches[0].slice(0, 0), *batches[1:]])
    assert part is not None
    stats = json.loads(part.stats_json)
    assert (part.records, stats["minValues"]["log_offset"], stats["maxValues"]["log_offset"]) == (3, 5, 900)
    assert stats["maxValues"]["log_timestamp"] == "2026-11-16T06:45:15.123Z"


def test_no_rows_make_no_file(writer):
    assert writer.write([arrow_schema("offset_commits").empty_table()]) is None
    assert list((Path(writer.lake_uri) / "offset_commits").iterdir()) == []


def test_rows_of_another_table_are_refused_with_every_difference(writer):
    rows = rows_of("offset_commits", {}).drop_columns(["topic"]).append_column("colour", pa.array(["red"]))
    with pytest.raises(ValueError, match="offset_commits: topic is missing, colour is not a column of it"):
        writer.write([rows])


def test_a_null_where_none_is_allowed_is_refused(writer):
    rows = rows_of("offset_commits", {})
    column = rows.schema.get_field_index("group_id")
    with pytest.raises(ValueError, match="group_id"):
        writer.write([rows.set_column(column, "group_id", pa.nulls(1, pa.string()))])


def test_a_table_with_lists_and_maps_is_written_unchanged(tmp_path):
    (tmp_path / "groups").mkdir()
    rows = rows_of("groups", {"resolved_regex_topics": [("a.*", ["ab", "ac"])]}, {"resolved_regex_topics": None})
    part = PartWriter("groups", str(tmp_path), 1).write([rows])
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
    part = PartWriter("audits", str(tmp_path), 1).write([rows_of("audits", *({"audit_id": n} for n in range(150)))])
    assert part is not None
    assert pq.read_metadata(tmp_path / "audits" / part.path).num_row_groups == 2


# Compaction of small files: which ones, how, and not while another writer does the same.
MB = 1 << 20


def file(audit_id: int, size: int) -> TableFile:
    return TableFile(f"part-{audit_id}", {"minValues": {"audit_id": audit_id}}, size)


def audits_of(found: list[list[TableFile]]) -> list[list[int]]:
    return [[each.bound("minValues", "audit_id") for each in lot] for lot in found]


def test_small_files_make_lots_oldest_audits_first_and_large_ones_stay():
    assert audits_of(lots([file(3, MB), file(1, MB), file(2, SMALL_BYTES)])) == [[1, 3]]


def test_a_lot_ends_where_it_is_large_enough():
    found = lots([file(night, 8 * MB) for night in range(100)])
    assert [len(lot) for lot in found] == [32, 32, 32, 4]
    assert all(sum(each.size for each in lot) <= LOT_BYTES for lot in found)


@pytest.mark.parametrize("seed", range(20))
def test_repeated_compaction_ends(seed):
    """Files come out between half and one and a half of their intended size: ranges of a sample are not exact."""
    rng = random.Random(seed)
    files = [file(night, rng.randint(1, 2 * SMALL_BYTES)) for night in range(rng.randint(1, 300))]
    for _ in range(20):
        found = lots(files)
        if not found:
            return
        gone = {id(each) for lot in found for each in lot}
        files = [each for each in files if id(each) not in gone]
        for lot in found:
            size = sum(each.size for each in lot)
            of = files_for(size)
            files += [file(min(audits_of([lot])[0]), int(size / of * rng.uniform(0.6, 1.4))) for _ in range(of)]
    raise AssertionError(f"{len(lots(files))} lots are left after 20 rounds")


def append(lake, audit_id, *rows):
    LakeWriter(lake, audit_id, lambda: None).append_table("offset_commits", rows_of("offset_commits", *rows))


def commit(audit_id, log_offset, group_id):
    return {"audit_id": audit_id, "log_offset": log_offset, "group_id": group_id}


def test_rows_come_out_sorted_by_group_and_log_offset(lake):
    append(lake, 1, commit(1, 1, "h"), commit(1, 2, "g"))
    append(lake, 2, commit(2, 3, "h"), commit(2, 4, "g"))
    done = optimize(LakeWriter(lake, 3, lambda: None), "offset_commits")
    assert (done.files_before, done.files_after) == (2, 1)
    [path] = [f"{lake.table('offset_commits').path.removeprefix('file:')}/{f.path}" for f in _files(lake)]
    rows = pq.read_table(path).select(["group_id", "log_offset", "audit_id"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("g", 2, 1), ("g", 4, 2), ("h", 1, 1), ("h", 3, 2)]


@pytest.mark.spark
def test_files_that_another_writer_compacts_meanwhile_are_left_alone(spark, lake):
    for audit_id in (1, 2):
        append(lake, audit_id, commit(audit_id, audit_id, "g"))
    optimize_by_delta = f"OPTIMIZE delta.`{lake.table('offset_commits').path}`"
    writer = LakeWriter(lake, 3, lambda: spark.sql(optimize_by_delta).collect())
    with pytest.raises(KgroupsError, match="another program rewrote its files at the same time"):
        optimize(writer, "offset_commits")
    assert sorted(lake.rows("offset_commits")["log_offset"].to_pylist()) == [1, 2]


def test_a_rewrite_that_would_lose_rows_changes_nothing(lake):
    append(lake, 1, commit(1, 1, "g"), commit(1, 2, "g"))
    with pytest.raises(KgroupsError, match="of 2 rows 1 would be missing; nothing was changed"):
        one, files = "SELECT * FROM stored_offset_commits WHERE log_offset = 1", {"offset_commits": _files(lake)}
        rewrite(LakeWriter(lake, 2, lambda: None), "offset_commits", one, files, 2)
    assert lake.table("offset_commits").snapshot().version == 1


def _files(lake):
    return lake.table("offset_commits").files()
