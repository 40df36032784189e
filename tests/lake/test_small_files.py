"""Compaction of small files: which ones, how, and not while another writer does the same."""

from __future__ import annotations

import random

import pyarrow.parquet as pq
import pytest

from kgroups_spark.audit.keep import LOT_BYTES, SMALL_BYTES, files_for, lots, optimize, rewrite
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.store import TableFile
from kgroups_spark.lake.writer import LakeWriter
from tests.lake.table_rows import rows_of

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
    writer = LakeWriter(lake, audit_id, lambda: None)
    part = writer.lake.write("offset_commits", [rows_of("offset_commits", *rows)], writer.audit_id)
    writer.append_parts("offset_commits", [part])


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
    assert lake.table("offset_commits").version() == 1


def _files(lake):
    return lake.table("offset_commits").files()
