from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import deltalake
import pytest

from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.hadoop import LOG_STORES
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.last_finished import APP_ID, REBUILD_APP_ID
from kgroups_spark.lake.ledger import AuditRow, Ledger
from kgroups_spark.tables.schemas import LAKE_VERSION, LAKE_VERSION_PROPERTY, TABLES, is_path
from tests.lake.table_rows import MOMENT, rows_of, writer

pytestmark = pytest.mark.spark


def test_a_new_lake_has_every_table_empty_with_its_columns_comments_and_nullability(lake):
    for name, table in TABLES.items():
        assert lake.read(name).schema == table.schema, name
    assert lake.read("groups").count() == 0


def test_deltas_log_has_types_comments_nullability_and_statistics_columns(lake):
    for name, table in TABLES.items():
        log = deltalake.DeltaTable(f"{lake.location}/{name}")
        fields = json.loads(log.schema().to_json())["fields"]
        assert [(field["name"], field["nullable"], field["metadata"]["comment"]) for field in fields] == [
            (field.name, field.nullable, field.metadata["comment"]) for field in table.schema
        ]
        metadata = log.metadata()
        assert metadata.description == table.comment
        assert metadata.configuration["delta.dataSkippingStatsColumns"] == ",".join(table.statistics)
        assert metadata.configuration["delta.checkpointInterval"] == "100"
        assert (log.protocol().min_reader_version, log.protocol().min_writer_version) == (1, 2)


def test_a_missing_lake_is_named_with_advice(spark, tmp_path):
    with pytest.raises(UsageError, match=r"no lake at .*: it has no table audits; kgroups audit creates one"):
        Lake.open(spark, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_files_is_not_made_a_lake(spark, tmp_path):
    (tmp_path / "thesis.doc").touch()
    with pytest.raises(UsageError, match=r"is neither a lake nor empty: it holds thesis.doc; name a new folder"):
        Lake.create(spark, str(tmp_path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.doc"]


def test_a_lake_whose_ledger_is_damaged_is_reported_in_one_line(spark, lake):
    Path(f"{lake.location}/audits/_delta_log/{0:020}.json").write_text("no longer JSON")
    for use in (Lake.open, Lake.create, lambda *place: Lake(*place).exists()):
        with pytest.raises(KgroupsError, match=r"audits/_delta_log/0+\.json is damaged \(.*\): restore it"):
            use(spark, lake.location)


def test_a_lake_of_another_layout_is_refused(spark, lake):
    other = LAKE_VERSION + 1
    spark.sql(
        f"ALTER TABLE delta.`{lake.table('audits').path}` SET TBLPROPERTIES ('{LAKE_VERSION_PROPERTY}' = '{other}')"
    )
    for opened in (Lake.open, Lake.create):
        with pytest.raises(
            KgroupsError, match=f"has layout {other}; this version of kgroups-spark knows {LAKE_VERSION}:"
        ):
            opened(spark, lake.location)


def test_a_catalogs_schema_is_distinguished_from_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    assert is_path("here") and is_path("./x") and is_path("s3a://bucket/x") and is_path("file:x")
    assert not is_path("main.kafka") and not is_path("nowhere")


def test_an_unknown_file_system_is_reported_in_one_line(spark):
    with pytest.raises(KgroupsError, match=r"^lake nofs://bucket/lake: [^\n]*nofs[^\n]*$"):
        Lake.open(spark, "nofs://bucket/lake")


def test_a_session_without_deltas_jars_says_how_to_get_them(spark):
    nothing = SimpleNamespace(**{LOG_STORES: spark._jvm.not_there})
    with pytest.raises(KgroupsError, match=r"spark-submit --packages io\.delta:delta-spark_"):
        Lake(SimpleNamespace(_jvm=nothing, _jsc=spark._jsc, version=spark.version), "./lake")


def test_a_log_that_cannot_be_written_is_reported_in_one_line(lake):
    (Path(lake.location) / "topics" / "_delta_log" / "00000000000000000001.json").mkdir()
    with pytest.raises(KgroupsError, match=r"^table topics of the lake at .* could not be written \(append\): [^\n]+$"):
        lake.commit("topics", "append", lambda: lake.table("topics").commit([], by="t", transaction=None))


# LakeAsOfAudit reads tables as a finished audit left them, whatever was committed since.


def replace(lake: Lake, audit_id: int, app_id: str = APP_ID) -> None:
    """Makes group `g<audit_id>` the only one."""
    row = {"audit_id": audit_id, "group_id": f"g{audit_id}"}
    writer(lake, audit_id, app_id).replace_table("groups", rows_of("groups", row))


def ledger_row(lake: Lake, audit_id: int, status: str, newest_audits: dict[str, int] | None = None) -> None:
    row = AuditRow(audit_id, status, "somebody", MOMENT, newest_audits=newest_audits)
    Ledger(lake).append(row)


@pytest.mark.parametrize("app_id", [APP_ID, REBUILD_APP_ID])
def test_rows_of_a_later_audit_or_rebuild_are_not_seen(lake: Lake, app_id: str) -> None:
    assert LakeAsOfAudit.last_finished(lake).audit_id == 0
    replace(lake, 1)
    ledger_row(lake, 1, "running")
    assert LakeAsOfAudit.last_finished(lake).rows("groups").num_rows == 0
    ledger_row(lake, 1, "finished")
    ledger_row(lake, 2, "running")
    replace(lake, 2, app_id)
    # A commit that removes a killed audit's rows, or compacts files, has no audit's number.
    lake.table("groups").commit([], by="test", transaction=None, remove=lambda file: True)
    tables = LakeAsOfAudit.last_finished(lake)
    assert tables.audit_id == 1
    assert tables.rows("groups")["group_id"].to_pylist() == ["g1"]
    frame = tables.read("groups")
    ledger_row(lake, 3, "finished")
    assert [row.group_id for row in frame.collect()] == ["g1"]
    assert [row.audit_id for row in tables.read("audits").collect() if row.status == "finished"] == [1]
    assert LakeAsOfAudit.last_finished(lake).rows("groups").num_rows == 0
    ledger_row(lake, 4, "finished", {"groups": 4})
    with pytest.raises(
        KgroupsError, match=r"has lost the newest version of table groups \(a file in groups/_delta_log"
    ):
        LakeAsOfAudit.last_finished(lake).rows("groups")
    replace(lake, 4)
    assert LakeAsOfAudit.last_finished(lake).rows("groups").num_rows == 1
