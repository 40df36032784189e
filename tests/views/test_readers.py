"""Spark, DuckDB and deltalake read the same of a lake that has been through nights and upkeep. (What readers see of a
killed audit is in tests/crash/test_commit_points.py.)"""

from __future__ import annotations

import zipfile

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import MaintainOptions
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.errors import UsageError
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.sql.by_duckdb import duckdb_views
from kgroups_spark.sql.by_spark import SparkReader
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from tests.chosen import one_of
from tests.logs.corpora import ANSWERS
from tests.recorded_logs import CORPORA
from tests.views.arrow_tables import WITHOUT_RECORD_VIEWS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(local, tmp_path_factory):
    """A broker's log before it was restarted, and after its expiry checks; then upkeep."""
    folder, retention_ms = tmp_path_factory.mktemp("lived in"), ANSWERS["expiry-4.3-after"]["retention_ms"]
    with zipfile.ZipFile(CORPORA) as archive:
        archive.extractall(folder)
    for night in ("before", "after"):
        log = str(folder / "logs" / f"expiry-4.3-{night}")
        run_audit(local, AuditOptions(lake=str(folder / "lake"), segments=[log], retention_ms=retention_ms))
    run_maintain(local, MaintainOptions(lake=str(folder / "lake")))
    return folder / "lake"


def texts(table):
    """The rows as texts, in an order of their own."""
    return sorted(map(repr, table.to_pylist(maps_as_pydicts="strict")))


@pytest.mark.parametrize("name", one_of(*TABLES))
def test_spark_deltalake_and_duckdb_read_the_same(spark, lake, name):
    """Names, types and values of every column of every table."""
    schema = arrow_schema(name)
    by_spark = Lake.open(spark, str(lake)).read(name).toArrow()
    by_deltalake = DeltaTable(str(lake / name)).to_pyarrow_table()
    with duckdb_views(str(lake)) as connection:
        by_duckdb = connection.sql(f"SELECT * FROM {name}").to_arrow_table()
        described = connection.sql(f"DESCRIBE {name}").fetchall()
    for table in (by_spark, by_deltalake, by_duckdb):
        assert table.schema.names == schema.names
        # Readers differ in the names of list elements and in whether these may be null: the cast fails on all else.
        assert texts(table.cast(schema)) == texts(table) == texts(by_spark)
    assert {row[0]: row[1].startswith("TIMESTAMP WITH TIME ZONE") for row in described} == {
        column.name: pa.types.is_timestamp(column.type) for column in schema
    }


@pytest.mark.in_turn("files of nights")
@pytest.mark.parametrize("name", one_of(*WITHOUT_RECORD_VIEWS))
def test_both_dialects_agree(spark, lake, name):
    """All are compared in test_dialects.py, too; here they read Delta tables."""
    by_spark = SparkReader(spark, Lake.open(spark, str(lake))).frame(f"SELECT * FROM {name}").toArrow()
    with duckdb_views(str(lake)) as connection:
        by_duckdb = connection.sql(f"SELECT * FROM {name}").to_arrow_table()
    assert by_duckdb.schema.names == by_spark.schema.names
    assert texts(by_duckdb.cast(by_spark.schema)) == texts(by_spark)


def test_an_earlier_audit_can_still_be_read(spark, lake):
    then = LakeAsOfAudit(Lake.open(spark, str(lake)), 1)
    names = ("offset_commits", "committed_offsets", "previous_offset_expiry")
    ids = {name: {row.audit_id for row in then.read(name).select("audit_id").collect()} for name in names}
    assert ids == {"offset_commits": {1}, "committed_offsets": {1}, "previous_offset_expiry": set()}


def test_a_place_without_a_lake_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no lake at"):
        duckdb_views(str(tmp_path))
