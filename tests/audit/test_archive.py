"""Records that somebody archived as rows give the tables that the segments give, or the notes say what is missing."""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from kgroups_spark import open_lake, run_audit
from kgroups_spark.audit.log_source import NEEDED, write_segments
from kgroups_spark.errors import KgroupsError, UsageError
from tests.audit.archives import LOGS, rows_of, tables
from tests.logs.corpora import files_of
from tests.nights.nights_here import write_files
from tests.recorded_state_logs import write_logs

pytestmark = pytest.mark.usefixtures("findings_not_sought")

RECORDING = "transactions-4.4"
HOW = {"engine": "local", "offsets_partitions": 4, "release_version": "4.4"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("segments")
    write_files(folder, files_of(RECORDING))
    return write_logs(RECORDING, folder)


@pytest.fixture(scope="module")
def rows(folder):
    return rows_of(folder)


@pytest.fixture(scope="module")
def expected(folder, tmp_path_factory):
    lake = tmp_path_factory.mktemp("expected") / "lake"
    run_audit(lake, segments=folder, **HOW)
    return tables(lake)


def test_the_rows_of_kafka_raw_give_the_tables_of_the_segments(rows, expected, tmp_path):
    for number in range(3):
        (tmp_path / "archive").mkdir(exist_ok=True)
        pq.write_table(rows.slice(number * len(rows) // 3, len(rows) // 3 + 1), tmp_path / f"archive/{number}.parquet")
    done = run_audit(tmp_path / "lake", records=tmp_path / "archive", **HOW)
    assert tables(tmp_path / "lake") == expected and any(expected.values())
    assert not [note for note in done.audit.notes or () if "tombstone" in note or "is_transactional" in note]


def test_a_longer_archive_is_read_on(rows, expected, tmp_path):
    whole = rows.to_pylist()
    for share in (0.5, 0.8, 1.0):
        last = {}
        for row in whole:
            last[row["topic"], row["partition"]] = max(last.get((row["topic"], row["partition"]), 0), row["offset"])
        some = [row for row in whole if row["offset"] <= share * last[row["topic"], row["partition"]]]
        pq.write_table(pa.Table.from_pylist(some, rows.schema), tmp_path / "archive.parquet")
        done = run_audit(tmp_path / "lake", records=tmp_path / "archive.parquet", **HOW)
        assert not done.lacks_records
    assert tables(tmp_path / "lake") == expected


def test_a_sink_that_drops_tombstones_and_markers_has_notes(rows, tmp_path):
    kept = rows.filter(pc.and_(pc.is_valid(rows["value"]), pc.is_null(rows["control_type"])))
    with (tmp_path / "archive.jsonl").open("w") as file:
        for row in kept.to_pylist():
            texts = {name: base64.b64encode(row[name]).decode() for name in ("key", "value")}
            numbers = {name: row[name] for name in ("topic", "partition", "offset")}
            file.write(json.dumps(numbers | {"timestamp": row["timestamp"].isoformat()} | texts) + "\n")
    notes = run_audit(tmp_path / "lake", records=tmp_path / "archive.jsonl", **HOW).audit.notes or []
    said = " ".join(note for note in notes if "__consumer_offsets" in note)
    assert "and no tombstone: most archives drop them" in said
    assert "between them missing" in said and "without is_transactional and control_type" in said
    assert open_lake(tmp_path / "lake").table("groups").num_rows


def test_a_control_record_without_a_key_is_a_marker_if_its_type_is_named(rows, tmp_path):
    """kafka-raw writes -1 for a control record without a type."""
    first = rows.filter(pc.is_valid(rows["control_type"])).slice(0, 1).to_pylist()[0]
    types = ("COMMIT", "ABORT", "-1", "other")
    made = [
        first | {"topic": LOGS[0], "partition": 0, "offset": offset, "key": None, "control_type": kind}
        for offset, kind in enumerate(types)
    ]
    pq.write_table(pa.Table.from_pylist(made, rows.schema), tmp_path / "archive.parquet")
    run_audit(tmp_path / "lake", records=tmp_path / "archive.parquet", **HOW)
    lake = open_lake(tmp_path / "lake")
    markers, bad = (lake.table(name).to_pylist() for name in ("transaction_markers", "quarantine"))
    assert {row["log_offset"]: row["outcome"] for row in markers} == {0: "committed", 1: "aborted"}
    assert {row["log_offset"]: row["reason"] for row in bad} == {2: "null_key", 3: "null_key"}


@pytest.mark.parametrize("missing", NEEDED)
def test_an_archive_without_a_column_is_refused(missing, rows, tmp_path):
    pq.write_table(rows.drop_columns([missing]), tmp_path / "archive.parquet")
    with pytest.raises(UsageError, match=f"has no column {missing}"):
        run_audit(tmp_path / "lake", records=tmp_path / "archive.parquet", **HOW)


def test_what_is_no_archive_is_refused(rows, tmp_path):
    def refused(table, match):
        if table is not None:
            pq.write_table(table, tmp_path / "archive.parquet")
        with pytest.raises(KgroupsError, match=match):
            run_audit(tmp_path / "lake", records=tmp_path / "archive.parquet", **HOW)

    refused(None, "cannot be read as Parquet")
    text = pa.array(["Offset(g,t,0)"] * len(rows))
    refused(rows.set_column(rows.column_names.index("key"), "key", text), "key is text and not base64")
    other = pa.array(["orders"] * len(rows))
    refused(rows.set_column(rows.column_names.index("topic"), "topic", other), "has no records of __consumer_offsets")
    twice = rows.slice(0, 1).set_column(rows.column_names.index("value"), "value", pa.array([b"x"]))
    refused(pa.concat_tables([rows, twice.cast(rows.schema)]), "two records at offset")
    with pytest.raises(UsageError, match="give one of them"):
        run_audit(tmp_path / "lake", records="a", segments="b", **HOW)


def test_a_delta_table_elsewhere_is_refused(tmp_path, monkeypatch):
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    elsewhere = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setattr("kgroups_spark.audit.log_source.file_system", lambda _: (elsewhere, "table"))
    with pytest.raises(UsageError, match="s3://bucket/table is a Delta table elsewhere: copy it to a folder of this"):
        write_segments("s3://bucket/table", tmp_path / "segments")
