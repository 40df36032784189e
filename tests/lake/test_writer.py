from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from chispa import assert_df_equality
from pyspark.errors import PythonException
from pyspark.sql import DataFrame

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.parts import Part, PartWriter
from kgroups_spark.lake.store import Snapshot, refusal
from kgroups_spark.lake.writer import LakeWriter, make_writable, probe
from kgroups_spark.tables.definitions import KEEP, NIGHT, REREAD
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from tests.chosen import one_of
from tests.lake.table_rows import MOMENT, append_frame, parts_of, rows_of

pytestmark = pytest.mark.spark


def writer(lake: Lake, audit_id: int, check=lambda: None) -> LakeWriter:
    return LakeWriter(lake, audit_id, check)


def frame(lake: Lake, table: str, *rows: dict):
    return lake.spark.createDataFrame(rows_of(table, *rows), TABLES[table].schema).coalesce(1)


def commit(audit_id: int, log_offset: int, group_id: str = "g") -> dict:
    return {"audit_id": audit_id, "log_offset": log_offset, "group_id": group_id, "log_timestamp": MOMENT}


def replace_all(by: LakeWriter, table: str, rows: DataFrame, keep_audit: int | None = None) -> None:
    by.replace_parts(table, parts_of(by.lake.runner, rows, PartWriter(table, by.lake.uri, by.audit_id)), keep_audit)


def read(lake: Lake, table: str, *order: str) -> list[dict]:
    """Rows as Spark reads them, in this order."""
    return lake.read(table).coalesce(1).sortWithinPartitions(*order).toArrow().to_pylist()


def texts(lake: Lake, table: str, column: str) -> list[str]:
    return sorted(lake.rows(table)[column].to_pylist())


def part_of(lake: Lake, audit_id: int, table: str, rows: pa.Table) -> Part:
    part = writer(lake, audit_id).lake.write(table, [rows], writer(lake, audit_id).audit_id)
    assert part is not None
    return part


def read_elsewhere(lake: Lake, table: str, *order: str) -> list[dict]:
    """The same by delta-rs, which shares no code with Spark."""
    rows = deltalake.DeltaTable(f"{lake.location}/{table}").to_pyarrow_table()
    return rows.cast(arrow_schema(table)).sort_by([(column, "ascending") for column in order]).to_pylist()


def test_spark_and_other_engines_read_the_appended_rows(lake):
    first, second = [commit(1, 10), commit(1, 11, "ä")], [commit(2, 12)]
    append_frame(writer(lake, 1), "offset_commits", frame(lake, "offset_commits", *first))
    append_frame(writer(lake, 2), "offset_commits", frame(lake, "offset_commits", *second))
    expected = rows_of("offset_commits", *first, *second).to_pylist()
    assert read(lake, "offset_commits", "log_offset") == expected
    assert read_elsewhere(lake, "offset_commits", "log_offset") == expected


def test_no_row_is_lost_after_an_empty_chunk(lake):
    rows = [rows_of("topics", *({"topic": topic} for topic in topics)) for topics in ("a", "", "bc")]
    writer(lake, 1).append_table("topics", pa.concat_tables(rows))
    writer(lake, 1).replace_table("groups", pa.concat_tables([rows_of("groups"), rows_of("groups", {})]))
    assert (texts(lake, "topics", "topic"), lake.rows("groups").num_rows) == (["a", "b", "c"], 1)


def test_a_replacement_leaves_only_its_rows_even_if_it_has_none(lake):
    nested = {"resolved_regex_topics": [("a.*", ["ab", "ac"])], "group_id": "new"}
    replace_all(writer(lake, 1), "groups", frame(lake, "groups", {"group_id": "old"}, {"group_id": "older"}))
    replace_all(writer(lake, 2), "groups", frame(lake, "groups", nested))
    assert read(lake, "groups", "group_id") == read_elsewhere(lake, "groups", "group_id")
    assert read(lake, "groups", "group_id") == rows_of("groups", nested).to_pylist()
    replace_all(writer(lake, 3), "groups", frame(lake, "groups", {}).limit(0))
    assert lake.rows("groups").num_rows == 0


def test_an_empty_table_replaced_by_nothing_gets_no_commit(lake):
    writer(lake, 1).replace_parts("groups", [])
    assert lake.table("groups").version() == 0


def test_the_state_of_the_last_finished_audit_stays_beside_the_new_one(lake):
    for audit_id, kept in ((1, None), (2, 1), (3, 2)):
        rows = frame(lake, "checkpoints", {"audit_id": audit_id, "payload": f"state {audit_id}", "reason": NIGHT})
        replace_all(writer(lake, audit_id), "checkpoints", rows, keep_audit=kept)
    assert texts(lake, "checkpoints", "payload") == ["state 2", "state 3"]


def test_a_nights_state_replaces_no_permanently_kept_state(lake):
    for reason in (KEEP, REREAD):
        kept = frame(lake, "checkpoints", {"audit_id": 1, "reason": reason, "payload": reason})
        append_frame(replace(writer(lake, 1), app_id=f"of {reason}"), "checkpoints", kept)
    for audit_id in (2, 3):
        rows = [{"audit_id": audit_id, "reason": reason, "payload": reason} for reason in (NIGHT, REREAD)]
        parts = [part_of(lake, audit_id, "checkpoints", rows_of("checkpoints", row)) for row in rows]
        writer(lake, audit_id).replace_parts("checkpoints", parts)
    assert texts(lake, "checkpoints", "payload") == [KEEP, NIGHT, *[REREAD] * 3]


@pytest.mark.parametrize("condition", ["log_offset >= 250", "audit_id > 2", "group_id = 'g3'"])
def test_files_outside_the_bounds_are_not_read(lake, condition):
    for audit_id in (1, 2, 3):
        rows = rows_of("offset_commits", commit(audit_id, audit_id * 100, f"g{audit_id}"))
        writer(lake, audit_id).append_parts("offset_commits", [part_of(lake, audit_id, "offset_commits", rows)])
    assert len(lake.read("offset_commits").inputFiles()) == 3
    assert len(lake.read("offset_commits").where(condition).inputFiles()) == 1


def test_an_audit_writes_a_table_once(lake):
    rows = frame(lake, "topics", {"topic_id": "t"})
    append_frame(writer(lake, 5), "topics", rows)
    with pytest.raises(KgroupsError, match="table topics was written by audit 5 or a later one before"):
        append_frame(writer(lake, 5), "topics", rows)
    assert texts(lake, "topics", "topic_id") == ["t"]


def test_a_null_where_none_is_allowed_is_refused(lake):
    rows = frame(lake, "topics", {"topic_id": "t"}).selectExpr("audit_id", "topic_id", "source", "seen_log_timestamp")
    with pytest.raises(PythonException, match="field 'topic' with null values to non-nullable"):
        append_frame(writer(lake, 1), "topics", rows.selectExpr("*", "cast(null as string) as topic"))
    assert lake.table("topics").files() == []


def test_a_missing_or_incomplete_part_stops_the_commit(lake):
    part = part_of(lake, 1, "topics", rows_of("topics", {"topic_id": "t"}))
    with pytest.raises(KgroupsError, match=f"1 of 1 parts .*{part.size} bytes, not {part.size + 1}.*nothing of it"):
        writer(lake, 1).append_parts("topics", [replace(part, size=part.size + 1)])
    Path(lake.location, "topics", part.path).unlink()
    with pytest.raises(KgroupsError, match=r"1 of 1 parts that tasks wrote are not there.*there is no such file"):
        writer(lake, 1).append_parts("topics", [part])
    assert lake.table("topics").version() == 0


def test_a_replacement_also_replaces_files_committed_meanwhile(lake):
    """As OPTIMIZE may: its new file must not stay beside the new rows."""
    old, theirs, ours = (
        part_of(lake, audit_id, "topics", rows_of("topics", {"topic_id": topic_id}))
        for audit_id, topic_id in ((1, "old"), (2, "theirs"), (3, "ours"))
    )
    writer(lake, 1).append_parts("topics", [old])
    log, others = lake.table("topics"), [theirs]

    def another_writer_commits_first(table, operation, write):
        files_of = Snapshot.files

        def files(self):
            if others:
                log.commit([others.pop()], by="somebody", transaction=None)
            return files_of(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Snapshot, "files", files)
            return write()

    lake.commit = another_writer_commits_first  # type: ignore[method-assign]
    writer(lake, 3).replace_parts("topics", [ours])
    assert others == []
    assert texts(lake, "topics", "topic_id") == ["ours"]


def test_each_task_with_rows_writes_one_part(lake):
    rows = frame(lake, "topics", {"topic_id": "a"}, {"topic_id": "b"}).repartitionByRange(2, "topic_id")
    nothing = frame(lake, "topics", {}).limit(0)
    parts = parts_of(lake.runner, rows.unionByName(nothing), PartWriter("topics", lake.uri, writer(lake, 1).audit_id))
    assert [part.records for part in parts] == [1, 1]
    writer(lake, 1).append_parts("topics", parts)
    assert texts(lake, "topics", "topic_id") == ["a", "b"]


def test_tasks_on_this_machine_reach_a_folder_and_a_probe_agrees(lake):
    assert make_writable(lake) is None
    assert probe(lake) is None
    assert list(Path(lake.location, "_work").iterdir()) == []


def test_a_probe_says_why_tasks_cannot_write(lake, monkeypatch):
    monkeypatch.setattr(lake, "uri", "file:/proc/no/lake")
    reason = probe(lake)
    assert reason is not None
    assert reason.startswith("a task cannot write to file:/proc/no/lake/_work with pyarrow (FileNotFoundError: ")
    assert "\n" not in reason


@pytest.mark.parametrize(
    ("properties", "column", "reason"),
    [
        ({"delta.columnMapping.mode": "name"}, {}, "has column mapping"),
        ({"delta.constraints.c": "a > 0"}, {}, "has check constraints"),
        ({"delta.enableRowTracking": "true"}, {}, "has delta.enableRowTracking"),
        ({}, {"delta.generationExpression": "b + 1"}, "has a column a with delta.generationExpression"),
        ({}, {"delta.identity.start": 1}, "has a column a with delta.identity.start"),
        ({"delta.columnMapping.mode": "none", "delta.appendOnly": "false"}, {"comment": "x"}, None),
    ],
)
def test_tables_that_plain_files_would_break_are_named(properties, column, reason):
    schema = {"fields": [{"name": "a", "metadata": column}]}
    assert refusal(properties, json.dumps(schema)) == reason


@pytest.mark.parametrize("table", one_of("open_transactions", "offset_expiry"))
def test_files_read_without_deltas_snapshot_equal_the_table_and_its_nullability(spark, lake, table, tmp_path):
    lake = Lake.open(spark, str(shutil.copytree(lake.location, tmp_path / "no glob {1,2}[3]")))
    assert_df_equality(lake.read_files(table), lake.read(table))
    replace_all(writer(lake, 1), table, frame(lake, table, {"audit_id": 1}))
    replace_all(writer(lake, 2), table, frame(lake, table, {"audit_id": 2, "group_id": "a"}, {"audit_id": 2}))
    assert_df_equality(lake.read_files(table), lake.read(table), ignore_row_order=True)
