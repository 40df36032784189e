"""Lakes that software of older layouts made (tests/data/lakes): two nights of the recorded log `transactions-4.3` and a
third that was killed on its way."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.compare.comparison import Side, compare
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.history.checkpoints import reduced_to
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.claim import Claim
from kgroups_spark.lake.fence import Fence
from kgroups_spark.lake.kernel import KernelTable
from kgroups_spark.lake.lake import Lake, table_properties
from kgroups_spark.lake.migrations import migrate
from kgroups_spark.lake.reach import make_writable
from kgroups_spark.reading.by_duckdb import duckdb_reader
from kgroups_spark.reading.by_spark import SparkReader
from kgroups_spark.state_logs.keep import states_reduced_to
from kgroups_spark.tables.layout import LAKE_VERSION, LAKE_VERSION_PROPERTY
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from kgroups_spark.upkeep.maintain import run_maintain
from kgroups_spark.upkeep.options import MaintainOptions
from kgroups_spark.views.duckdb_views import duckdb_views
from kgroups_spark.views.needed import with_what_they_need
from kgroups_spark.views.spark_views import register_views
from tests.chosen import one_of
from tests.nights.lakes import COMPARED, contents, copy_until
from tests.nights.lakes import rows as rows_of

DATA = Path(__file__).parents[1] / "data"


# A table that a lake of the layout lacks; one of layout 3 lacks columns alone.
LACKS = {1: "previous_offset_expiry", 2: "topic_offsets", 5: "share_partitions"}
# Null in rows of older layouts.
LATER_COLUMNS = ("stored_description_epoch", "offset_delta")


def soaked(*values):
    return pytest.param(*values, marks=pytest.mark.soak)


def lake_of(layout, folder):
    with zipfile.ZipFile(DATA / "lakes" / f"layout-{layout}.zip") as archive:
        archive.extractall(folder)
    return str(folder / "lake")


@pytest.fixture
def old(tmp_path):
    """The lake of layout 1."""
    return lake_of(1, tmp_path)


def test_there_is_a_lake_of_every_older_layout():
    lakes = sorted(path.stem for path in (DATA / "lakes").iterdir())
    assert lakes == sorted(f"layout-{layout}" for layout in range(1, LAKE_VERSION))


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    with zipfile.ZipFile(DATA / "corpora" / "corpora.zip") as archive:
        archive.extractall(folder)
    return folder / "logs" / "transactions-4.3"


# A property that a user has set to another value keeps it.
CHOSEN = "delta.checkpointInterval"


def layouts(lake):
    return {name: int(lake.table(name).properties()[LAKE_VERSION_PROPERTY]) for name in TABLES}


def columns(lake):
    found = {name: StructType.fromJson(json.loads(lake.table(name).schema_json())) for name in TABLES}
    return {name: [(f.name, f.dataType) for f in schema] for name, schema in found.items()}


TODAYS_COLUMNS = {name: [(f.name, f.dataType) for f in table.schema] for name, table in TABLES.items()}


def audit(spark, lake, segments):
    return run_audit(spark, AuditOptions(lake=str(lake), segments=[str(segments)], take_over=True))


@pytest.fixture(scope="module")
def todays_contents(local, log, tmp_path_factory):
    """The contents of a lake that had today's layout from the start, after the same nights."""
    folder = tmp_path_factory.mktemp("todays")
    for share in (0.35, 0.6, 1):
        copy_until(log, folder / "nights", share)
        audit(local, folder / "lake", folder / "nights")
    return contents(folder / "lake", without=("offset_delta",))


@pytest.mark.parametrize("layout", one_of(*range(1, LAKE_VERSION)))
def test_an_audit_migrates_an_older_lake_to_the_present_layout_and_continues(
    session, tmp_path, log, todays_contents, layout
):
    old = lake_of(layout, tmp_path)
    assert_migrated(session, old, audit(session, old, log).audit, layout, todays_contents)


@pytest.mark.parametrize("layout", [LAKE_VERSION - 1, soaked(1)])
def test_an_audit_in_spark_migrates_an_older_lake_too(spark, tmp_path, log, todays_contents, layout):
    old = lake_of(layout, tmp_path)
    assert_migrated(spark, old, audit(spark, old, log).audit, layout, todays_contents)


def assert_migrated(session, old, row, layout, todays_contents):
    assert row.audit_id == 4
    assert f"the lake was migrated from layout {layout} to {LAKE_VERSION}" in row.notes
    lake = Lake.open(session, old)
    assert set(layouts(lake).values()) == {LAKE_VERSION}
    assert columns(lake) == TODAYS_COLUMNS
    assert contents(old, without=("offset_delta",)) == todays_contents
    known = {(row["audit_id"], row["offset_delta"] is not None) for row in rows_of(old, "group_records")}
    assert known == {(2, layout >= 9), (4, True)}


def test_the_next_claim_adds_missing_table_properties(session, tmp_path, monkeypatch):
    name, others = "delta.enableExpiredLogCleanup", dict(table_properties(TABLES["groups"]))
    del others[name]
    with monkeypatch.context() as before:
        before.setattr("kgroups_spark.lake.lake.table_properties", lambda table: {**others, CHOSEN: "7"})
        lake = Lake.create(session, str(tmp_path / "lake"))
        assert name not in lake.table("groups").properties()
    shutil.rmtree(tmp_path / "lake" / "topics")
    with Claim.take(lake) as claim:
        assert claim.migrated is not None and claim.migrated.startswith("the tables' logs now keep every version")
    with Claim.take(lake) as claim:
        assert claim.migrated is None
    found = {each: lake.table(each).properties() for each in TABLES if each != "topics"}
    assert {(each[name], each[CHOSEN]) for each in found.values()} == {("false", "7")}


@pytest.mark.parametrize("layout", one_of(*LACKS))
def test_readers_see_an_older_lake_as_it_is_and_name_the_table_that_it_lacks(spark, tmp_path, layout):
    reader = SparkReader(spark, Lake.open(spark, lake_of(layout, tmp_path)))
    assert reader.last_audit["audit_id"] == 2
    groups = reader.rows("groups")
    assert len(groups) == 11
    left = LakeAsOfAudit.last_finished(reader.lake)
    assert left.read("groups").count() == 11
    # Comments stay those of the layout that made the table.
    found = [(f.name, f.dataType, f.nullable) for f in left.read("offset_commits").schema]
    assert found == [(f.name, f.dataType, f.nullable) for f in TABLES["offset_commits"].schema]
    assert reader.lake.version == layout
    assert reader.rows(LACKS[layout]) == []
    said = f"no table {LACKS[layout]} yet: run kgroups audit once to migrate .* layout {layout} to {LAKE_VERSION}$"
    for read in (reader.lake.read, reader.lake.read_files, reader.lake.rows):
        with pytest.raises(KgroupsError, match=said):
            read(LACKS[layout])
    side = Side("4.3", 0)
    with pytest.raises(KgroupsError, match=said.replace(LACKS[layout], "checkpoints")):
        compare(reader.lake, side, side, 0, progress=lambda _: None)
    by_duckdb = duckdb_reader(reader.location, must=True)
    assert by_duckdb.last_audit == reader.last_audit
    assert sorted(by_duckdb.rows("groups"), key=repr) == sorted(groups, key=repr)
    assert by_duckdb.rows(LACKS[layout]) == []


@pytest.mark.parametrize("layout", one_of(*LACKS))
def test_views_work_over_an_older_lake(spark, tmp_path, layout):
    old = lake_of(layout, tmp_path)
    names = (LACKS[layout], "committed_offsets", "lag", "last_audit")
    register_views(spark, Lake.open(spark, old), with_what_they_need(names))
    with duckdb_views(old) as connection:
        counts = {}
        for name in names:
            query = f"SELECT count(*) FROM {name}"
            counts[name] = connection.sql(query).fetchall()[0][0]
            assert spark.sql(query).collect()[0][0] == counts[name]
    offsets = counts.pop("committed_offsets")
    assert offsets > 0
    assert counts == {LACKS[layout]: 0, "lag": offsets, "last_audit": 1}


def test_groups_of_layout_3_have_no_description_epoch_yet(spark, tmp_path):
    location = lake_of(3, tmp_path)
    reader = SparkReader(spark, Lake.open(spark, location))
    for rows in (reader.rows("groups"), duckdb_reader(location, must=True).rows("groups")):
        assert [row["stored_description_epoch"] for row in rows] == [None] * 11
    assert LakeAsOfAudit.last_finished(reader.lake).read("groups").schema.names == TABLES["groups"].schema.names


def test_entries_of_an_older_ledger_have_no_topic_in_any_reader(spark, tmp_path):
    location = lake_of(5, tmp_path)
    reader = SparkReader(spark, Lake.open(spark, location))
    ended = [
        row["partitions"]
        for row in LakeAsOfAudit.last_finished(reader.lake).read("audits").collect()
        if row["partitions"] is not None
    ]
    assert {entry.topic for entries in ended for entry in entries} == {None}
    views = ("audit_partitions", "log_totals")
    register_views(spark, Lake.open(spark, location), with_what_they_need(views))
    by_duckdb = duckdb_reader(location, must=True)
    for view in views:
        rows = [row.asDict() for row in spark.sql(f"SELECT * FROM {view}").collect()]
        assert len(rows) == len(by_duckdb.rows(view)) > 3


def test_findings_before_layout_7_get_their_present_names(session, tmp_path):
    location = lake_of(6, tmp_path)
    table = DeltaTable(f"{location}/findings")
    (there,) = (row for row in table.to_pyarrow_table().to_pylist() if row["audit_id"] == 2)
    assert there["finding"] == "goes_when_emptied"
    others = [{**there, "finding": name} for name in ("transaction_open_too_long", "commit_time_off", "expiry_overdue")]
    write_deltalake(table, pa.Table.from_pylist(others, table.to_pyarrow_table().schema), mode="append")
    with Claim.take(Lake.open(session, location), take_over=True) as claim:
        assert claim.migrated is not None
    migrated = [row for row in rows_of(location, "findings") if row["audit_id"] == 2]
    assert sorted(row.pop("finding") for row in migrated) == [
        "commit_time_skew",
        "expiry_overdue",
        "hanging_transaction",
        "lost_when_emptied",
    ]
    assert [row for row in migrated if row["detail"] != there["detail"]] == []


# Rows of state_corrections as layout 10 had them -> what is reported of them in checkpoints.
MOVED = (
    (
        {"correction": "put", "entry_type": "group", "group_id": "g", "payload": "{}"},
        (None, "reread", "group", "g", "{}", None),
    ),
    ({"correction": "remove", "entry_type": "group", "group_id": "h"}, (None, "reread", "group", "h", None, None)),
    ({"correction": "wait", "entry_type": "group", "group_id": "w"}, (None, "reread", "waiting", "w", None, None)),
    (
        {"correction": "baseline", "entry_type": "offset", "group_id": "g", "payload": "", "topic": "t"},
        (None, "keep", "offset", "g", "", "t"),
    ),
    (
        {"correction": "state_baseline", "entry_type": "__transaction_state"},
        ("__transaction_state", "keep", "topics", None, '{"topics": []}', None),
    ),
)


def test_corrections_and_kept_states_are_read_alike_before_during_and_after_their_move(
    spark, tmp_path, monkeypatch, chosen
):
    location, commit, committed = lake_of(10, tmp_path), Lake.commit, []
    table = DeltaTable(f"{location}/state_corrections")
    facts = {"audit_id": 2, "offsets_partition": 3, "log_offset": 5, "state_format": 2, "release_version": "4.3"}
    older = [{**facts, "rules_version": 1, **row} for row, _ in MOVED]
    write_deltalake(table, pa.Table.from_pylist(older, table.to_pyarrow_table().schema), mode="append")
    expected = {(2, 3, 5, 2, "4.3", 1, *reported) for _, reported in MOVED}

    def reported(rows):
        columns = (*facts, "rules_version", "log", "reason", "entry_type", "group_id", "payload", "topic")
        found = [tuple(row[name] for name in columns) for row in rows]
        assert len(found) == len(MOVED)
        return set(found)

    def counted(self, table, operation, write):
        changes.append((table, operation))
        if len(changes) == deadly:
            raise Killed
        result = commit(self, table, operation, write)
        committed.append((table, operation))
        return result

    monkeypatch.setattr(Lake, "commit", counted)
    for deadly in (*chosen.some((2, 3, 4, 5), 1), 0):
        for reader in (SparkReader(spark, Lake.open(spark, location)), duckdb_reader(location, must=True)):
            assert reported(reader.rows("checkpoints")) == expected, deadly
        changes = []
        if deadly:
            with pytest.raises(Killed), Claim.take(Lake.open(spark, location), take_over=True):
                pytest.fail("the migration went on")
        else:
            Claim.take(Lake.open(spark, location), take_over=True).__exit__(None, None, None)
    assert committed.count(("checkpoints", "append")) == 1
    assert reported(rows_of(location, "checkpoints")) == expected
    assert not [name for name in ("state_corrections", "coordinator_state") if (Path(location) / name).exists()]


@pytest.mark.parametrize("layout", one_of(*range(1, LAKE_VERSION)))
def test_an_older_lake_says_how_far_it_is_reduced_before_its_migration(session, tmp_path, layout):
    """An audit of a cut-back log and `maintain --keep --dry-run` ask for it, without a claim at that time."""
    location = lake_of(layout, tmp_path)
    lake = Lake.open(session, location)
    assert (reduced_to(lake), states_reduced_to(lake)) == ({}, {})
    run_maintain(session, MaintainOptions(lake=location, keep_ms=0, dry_run=True))
    assert Lake.open(session, location).version == layout


@pytest.mark.parametrize("layout", one_of(2, *range(6, LAKE_VERSION)))
def test_a_dry_run_of_maintenance_does_not_count_rows_of_the_killed_audit(session, tmp_path, layout):
    options = MaintainOptions(lake=lake_of(layout, tmp_path), optimize=False, keep_ms=1000, take_over=True)
    foreseen = run_maintain(session, replace(options, dry_run=True))
    assert foreseen.rows_removed == run_maintain(session, options).rows_removed
    assert foreseen.rows_removed["offset_commits"] == 27


def test_columns_that_an_older_layout_lacks_are_null_and_then_added(session, old):
    # As if today's layout had one column more than it has.
    table = TABLES["topics"]
    shorter = pa.schema([field for field in arrow_schema("topics") if field.name != "source"])
    rows = pa.Table.from_pylist([{"audit_id": 1, "topic_id": "a", "topic": "t"}], shorter)
    shutil.rmtree(f"{old}/topics")
    write_deltalake(f"{old}/topics", rows, configuration={"delta.dataSkippingStatsColumns": "audit_id"})
    then = Lake.open(session, old).rows("topics")
    assert (then.schema.names, then["source"].to_pylist()) == (table.schema.names, [None])
    if isinstance(session, SparkSession):
        assert Lake.open(session, old).read("topics").columns == table.schema.names
    with Claim.take(Lake.open(session, old), take_over=True) as claim:
        assert claim.migrated is not None
    lake = Lake.open(session, old)
    assert lake.rows("topics")["source"].to_pylist() == [None]
    found = StructType.fromJson(json.loads(lake.table("topics").schema_json()))
    assert set(found.names) == set(table.schema.names)
    assert found["source"].nullable
    assert found["source"].metadata["comment"] == table.schema["source"].metadata["comment"]


class Killed(Exception):
    pass


# By layout, the commits of the migration at which it is killed.
KILLS = {1: (1, 2, 5, 12), 2: (1, 2, 12), 3: (1, 2), 5: (1, 2, 5, 9), 6: (1, 2, 5, 9), 10: (1, 2, 3, 5)}


@pytest.mark.parametrize("layout", one_of(*KILLS))
def test_a_repeatedly_killed_migration_completes(session, tmp_path, monkeypatch, chosen, layout):
    commit, old = Lake.commit, lake_of(layout, tmp_path)
    there = [name for name in COMPARED if (Path(old) / name).exists()]
    before = contents(old, there, LATER_COLUMNS)
    commits, deadly = [], [0]

    def counted(self, table, operation, write):
        if table != "audits" or operation != "append":
            commits.append(table)
            if len(commits) == deadly[0]:
                raise Killed
        return commit(self, table, operation, write)

    monkeypatch.setattr(Lake, "commit", counted)
    for deadly[0] in chosen.some(KILLS[layout], 2):
        commits.clear()
        with pytest.raises(Killed), Claim.take(Lake.open(session, old), take_over=True):
            pytest.fail("the migration went on")
        reader = duckdb_reader(old, must=True)
        assert reader.last_audit["audit_id"] == 2
        assert len(reader.rows("groups")) == 11
        assert Lake.open(session, old).version == layout
    deadly[0] = 0
    with Claim.take(Lake.open(session, old), take_over=True) as claim:
        assert claim.migrated == f"the lake was migrated from layout {layout} to {LAKE_VERSION}"
    assert commits[-1] == "audits"
    lake = Lake.open(session, old)
    assert set(layouts(lake).values()) == {LAKE_VERSION}
    assert columns(lake) == TODAYS_COLUMNS
    assert contents(old, there, LATER_COLUMNS) == before
    commits.clear()
    assert migrate(Fence(lake, 1, lambda: None)) is None
    assert commits == []


def test_software_of_the_older_layout_is_refused_from_the_claim_on(session, old, monkeypatch):
    def die(self, *_):
        raise Killed

    monkeypatch.setattr("kgroups_spark.lake.claim.migrate", die)
    with pytest.raises(Killed):
        Claim.take(Lake.open(session, old), take_over=True)
    monkeypatch.undo()
    monkeypatch.setattr("kgroups_spark.lake.ledger.LAKE_VERSION", 1)
    with pytest.raises(KgroupsError, match=f"audit 4 of the lake at .* was written with layout {LAKE_VERSION}"):
        Claim.take(Lake.open(session, old), take_over=True)


def test_a_table_of_neither_layout_is_named(session, old):
    session.sql(f"ALTER TABLE delta.`{old}/topics` ADD COLUMNS (colour STRING)")
    with pytest.raises(
        KgroupsError, match=f"table topics of .* neither of layout 1 nor of {LAKE_VERSION}: column colour is"
    ):
        Claim.take(Lake.open(session, old), take_over=True)


def test_the_writer_is_chosen_before_the_lake_is_migrated(session, old):
    assert make_writable(Lake.open(session, old)) is None


def test_a_foreign_table_named_audits_is_no_lake(spark, tmp_path):
    place = str(tmp_path / "books")
    spark.range(3).write.format("delta").save(f"{place}/audits")
    for opened in (Lake.open, Lake.create):
        with pytest.raises(UsageError, match=r"is not a lake: its table audits has no property kgroups\.lakeVersion"):
            opened(spark, place)
    assert [path.name for path in Path(place).iterdir()] == ["audits"]


def test_setting_unchanged_properties_makes_no_commit(lake):
    log: KernelTable = lake.table("topics")
    log.set_properties({LAKE_VERSION_PROPERTY: str(LAKE_VERSION)}, by="test", transaction=("test", 1))
    assert log.version() == 0
    log.set_properties({"colour": "blue"}, by="test", transaction=("test", 1))
    assert (log.version(), log.properties()["colour"]) == (1, "blue")
    assert log.properties()[LAKE_VERSION_PROPERTY] == str(LAKE_VERSION)
    assert log.last_transaction("kgroups-audit") is None
