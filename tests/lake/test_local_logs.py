"""The logs of Delta tables as Python writes and reads them: checkpoints, what is refused, what is damaged.

That other readers of Delta and other stores say the same is tested in protocol/test_stores.py.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.local import Local, LocalStore
from kgroups_spark.lake.parts import PartWriter
from kgroups_spark.lake.store import TableLog
from kgroups_spark.tables.schemas import TABLES
from tests.lake.table_rows import rows_of

NAME = "topics"
INTERVAL = 4
DAY_MS = 86_400_000


@pytest.fixture
def table(tmp_path):
    made = LocalStore().table(f"file:{tmp_path}/{NAME}")
    made.create(TABLES[NAME].schema_json, "a comment", {"delta.checkpointInterval": str(INTERVAL), "ours": "yes"})
    return made


def part(table, number):
    lake = table.path.rpartition("/")[0]
    made = PartWriter(NAME, lake, number).write([rows_of(NAME, {"audit_id": number, "topic": f"t{number}"})])
    assert made is not None
    return made


def append(table, number):
    table.commit([part(table, number)], by="a test", transaction=("app", number))


def replace_all(table, number):
    table.commit([part(table, number)], by="a test", transaction=("app", number), remove=lambda file: True)


def log(table):
    return Path(table.path.removeprefix("file:")) / "_delta_log"


def topics(table):
    """As another reader of Delta reads them."""
    return sorted(DeltaTable(table.path.removeprefix("file:")).to_pyarrow_table()["topic"].to_pylist())


def says(table):
    files = sorted((file.path, file.size, json.dumps(file.stats)) for file in table.files())
    found = table.snapshot()
    schema = found.metadata["schemaString"]
    return {"files": files, "properties": found.properties, "schema": schema, "at": found.version}


def test_readers_need_no_version_before_a_checkpoint(table):
    replace_all(table, 1)
    for number in range(2, 2 * INTERVAL + 2):
        append(table, number)
    before = says(table), table.snapshot().last_transaction("app"), topics(table)
    assert [path.name[:20].lstrip("0") for path in sorted(log(table).glob("*.checkpoint.parquet"))] == ["4", "8"]
    assert json.loads((log(table) / "_last_checkpoint").read_text())["version"] == 2 * INTERVAL
    for version in range(2 * INTERVAL):
        (log(table) / f"{version:020d}.json").unlink()
    assert (says(table), table.snapshot().last_transaction("app"), topics(table)) == before
    assert table.version_as_of("app", 2 * INTERVAL) == 2 * INTERVAL
    with pytest.raises(KgroupsError, match="the version of audit 3 is no longer in the table's log"):
        table.version_as_of("app", 3)
    append(table, 100)
    assert "t100" in topics(table)


def removed(table):
    return set(TableLog(LocalStore(), table.path).snapshot().removes)


def test_a_checkpoint_names_the_files_removed_in_the_last_week(table, monkeypatch):
    """Otherwise VACUUM by Spark deletes files that readers of young versions need."""
    append(table, 1)
    with monkeypatch.context() as patch:
        patch.setattr("kgroups_spark.lake.store._now_ms", lambda: int(time.time() * 1000) - 8 * DAY_MS)
        replace_all(table, 2)
    second = {file.path for file in table.files()}
    replace_all(table, 3)
    assert len(removed(table)) == 2
    append(table, 4)
    for version in range(INTERVAL):
        (log(table) / f"{version:020d}.json").unlink()
    assert removed(table) == second


def test_features_that_it_does_not_know_are_refused(table):
    text = json.dumps(
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}}
    )
    assert table._store.write(table.path, 1, f"{text}\n")
    with pytest.raises(
        KgroupsError, match=r"has features of Delta .*deletionVectors.*: use --engine spark, or drop them"
    ):
        table.files()


class KnowingStore(LocalStore):
    features = ("deletionVectors",)


def test_a_table_that_refuses_plain_files_or_their_removal_says_why(table):
    table = TableLog(KnowingStore(), table.path)
    assert table.refusal() is None
    for version, (action, reason) in enumerate(
        [
            ({"metaData": {**table.snapshot().metadata, "configuration": {"delta.appendOnly": "true"}}}, "appendOnly"),
            ({"metaData": table.snapshot().metadata}, None),
            ({"protocol": {"minReaderVersion": 1, "minWriterVersion": 3}}, "has features of Delta"),
        ],
        start=1,
    ):
        assert table._store.write(table.path, version, f"{json.dumps(action)}\n")
        assert reason in (table.refusal() or "") if reason else table.refusal() is None


def test_a_file_of_the_log_that_is_damaged_or_gone_is_named(table):
    for number in range(1, INTERVAL + 3):
        append(table, number)
    entry, checkpoint = log(table) / f"{INTERVAL + 1:020d}.json", log(table) / f"{INTERVAL:020d}.checkpoint.parquet"
    for file, kept in [(entry, -20), (checkpoint, -20), (checkpoint, 0)]:  # none is kept after a power failure
        file.write_bytes(file.read_bytes()[:kept])
        with pytest.raises(KgroupsError, match=rf"{file} is damaged .*: restore it"):
            table.files()
    checkpoint.unlink()
    entry.unlink()
    with pytest.raises(FileNotFoundError, match=entry.name):
        table.files()


@pytest.mark.parametrize(
    ("lake", "where"), [("s3://bucket/lake", "a store"), ("hdfs://host/lake", "a store"), ("main.kafka", "a catalog")]
)
def test_only_a_folder_of_this_machine_can_be_written(lake, where):
    with pytest.raises(UsageError, match=f"--engine local writes to a folder .* {lake} is in {where}, which Spark"):
        Lake.create(Local(), lake)


@pytest.mark.parametrize("spelled", ["{}", "file:{}", "file://{}"])
def test_a_folder_has_several_names(spelled, tmp_path):
    lake = Lake.create(Local(), spelled.format(tmp_path / "lake"))
    assert lake.uri == f"file:{tmp_path}/lake"
    assert (tmp_path / "lake" / "audits" / "_delta_log").is_dir()
