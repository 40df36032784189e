"""Both engines over one lake of all recordings: the same rows, the same refusals."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.lake import Lake
from kgroups_spark.sql.by_duckdb import duckdb_reader
from kgroups_spark.sql.by_spark import SparkReader
from kgroups_spark.sql.reader import ROWS_AT_ONCE, SqlError
from kgroups_spark.words import to_datetime
from tests.chosen import one_of
from tests.cli.group_questions import gone_piece_by_piece, share_group
from tests.cli.story_reader import ArrowReader, SparkArrowReader
from tests.cli.written_lake import ledger, waiting, write_lake
from tests.lake.table_rows import rows_of
from tests.views.recorded import tables_of_all

MOMENT = datetime(2026, 11, 12, 7, 0, 0, 123_000, tzinfo=UTC)


@pytest.fixture(scope="module")
def readers(spark, tmp_path_factory):
    """DuckDB's and Spark's."""
    tables = tables_of_all()
    more = {"audits": ledger({"notes": ["one"], "rows_added": {"groups": 1}}, {"audit_id": 2, "status": "running"})}
    more["offset_expiry"] = waiting(tables["committed_offsets"])
    location = write_lake(tmp_path_factory.mktemp("lakes") / "lake", tables | more)
    by_duckdb = duckdb_reader(location, must=True)
    return by_duckdb, SparkReader(spark, Lake.open(spark, location))


def reported(rows):
    """The rows with their types, sorted."""
    return sorted(repr(sorted(row.items())).replace("zoneinfo.ZoneInfo(key='UTC')", "UTC") for row in rows)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT :group AS text, ':group' AS quoted, :number AS n, :flag AS flag, :nothing AS nothing, :moment AS t",
        "SELECT * FROM group_members WHERE array_contains(:groups, group_id) -- :no 'comment",
        *one_of(
            "SELECT * FROM groups_as_of(:moment)",
            "SELECT * FROM committed_offsets_as_of(:moment) WHERE group_id = :group",
            "SELECT * FROM expiring(:late)",
            "SELECT group_id, sum(log_offset) AS total, count(*) AS n, max(log_timestamp) AS newest "
            "FROM offset_commits WHERE log_timestamp <= :moment GROUP BY group_id",
            "SELECT * FROM lag WHERE offsets_partition = 1",
            "SELECT group_id, offsets_partition_of(group_id) AS place FROM groups",
        ),
    ],
)
def test_queries(readers, query):
    rows = readers[0].sql("SELECT group_id, count(*) AS n FROM group_members GROUP BY group_id ORDER BY n DESC, 1")
    groups = [row["group_id"] for row in rows][:3]
    group = readers[0].sql("SELECT min(group_id) AS g FROM committed_offsets_as_of(:t)", t=MOMENT)[0]["g"]
    given = {
        "moment": MOMENT,
        "late": datetime(2027, 1, 1, tzinfo=UTC),
        "group": group,
        "groups": groups,
        "number": 7,
        "flag": True,
        "nothing": None,
    }
    one, other = (reported(reader.sql(query, **given)) for reader in readers)
    assert one == other
    assert one or "lag" in query


def test_spark_streams_an_answer_partition_by_partition_in_order(readers, monkeypatch):
    query = "SELECT * FROM offset_commits WHERE log_timestamp <= :moment ORDER BY offsets_partition, log_offset"
    everything = list(readers[0].ask(query, {"moment": MOMENT}))

    def at_once(self):
        raise AssertionError("the whole answer")

    monkeypatch.setattr(DataFrame, "toArrow", at_once)
    assert list(readers[1].ask(query, {"moment": MOMENT})) == everything != []
    numbers = list(readers[1].batches("SELECT explode(sequence(1, 40000)) AS n ORDER BY n DESC"))
    assert max(batch.num_rows for batch in numbers) <= ROWS_AT_ONCE < 40_000
    assert [n for batch in numbers for n in batch["n"].to_pylist()] == [*range(40_000, 0, -1)]
    assert [*readers[1].batches("SELECT 1 AS n WHERE false")] == []
    with pytest.raises(SqlError, match="group_id"):
        next(readers[1].batches("SELECT grup_id FROM groups"))


def test_both_engines_refuse_unknown_names_with_suggestions(readers, capfd):
    for reader in readers:
        with pytest.raises(SqlError, match="group_member_history"):
            reader.sql("SELECT * FROM group_member_historie")
        with pytest.raises(SqlError, match="group_id") as refused:
            reader.sql("SELECT grup_id FROM groups")
        assert "Traceback" not in str(refused.value) and "JVM" not in str(refused.value)
        with pytest.raises(SqlError, match=r"(?i)syntax error"):
            reader.sql("SELECT * FROM groups WHERE (")
    assert capfd.readouterr().err == ""


def test_both_engines_say_the_same_of_a_table_that_is_gone(spark, tmp_path):
    location = write_lake(tmp_path / "lake", {"audits": ledger({})}, without="groups")
    said = "has no table groups any more, which a lake of its layout has: restore it; or kgroups audit makes it again"
    for reader in (duckdb_reader(location, must=True), SparkReader(spark, Lake.open(spark, location))):
        for read in (lambda of: of.rows("groups"), lambda of: of.sql("SELECT * FROM groups")):
            with pytest.raises(KgroupsError, match=said) as refused:
                read(reader)
            assert len(refused.value.lines) == 1


def test_spark_names_a_file_that_cannot_be_read(spark, tmp_path):
    commits = rows_of("offset_commits", {"audit_id": 1})
    location = write_lake(tmp_path / "lake", {"audits": ledger({}), "offset_commits": commits})
    [file] = (tmp_path / "lake" / "offset_commits").glob("*.parquet")
    file.write_bytes(b"")
    reader = SparkReader(spark, Lake.open(spark, location))
    with pytest.raises(SqlError, match=f"^Spark failed: .*while reading file .*{file.name}"):
        reader.sql("SELECT max(group_id) AS g FROM offset_commits")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE delta.`{lake}/groups`",
        "DELETE FROM delta.`{lake}/groups`",
        "INSERT INTO delta.`{lake}/groups` SELECT * FROM groups",
        "WITH g AS (SELECT * FROM groups) INSERT INTO delta.`{lake}/groups` SELECT * FROM g",
        "FROM groups INSERT INTO delta.`{lake}/groups` SELECT *",
        "CREATE TABLE mine AS SELECT 1",
        "ALTER TABLE delta.`{lake}/groups` ADD COLUMNS (x INT)",
        "INSERT OVERWRITE DIRECTORY '{lake}/x' USING csv SELECT 1",
        "VACUUM delta.`{lake}/groups`",
        "BEGIN SELECT 1; END",
        "SET spark.sql.ansi.enabled = false",
    ],
)
def test_spark_refuses_statements_that_change_something(readers, statement):
    by_spark = readers[1]
    before = sorted(Path(by_spark.location).rglob("*"))
    with pytest.raises(SqlError, match="this is not one query"):
        by_spark.sql(statement.format(lake=by_spark.location))
    assert sorted(Path(by_spark.location).rglob("*")) == before


@pytest.mark.parametrize("statement", one_of("SHOW TABLES", "DESCRIBE groups", "EXPLAIN SELECT * FROM groups"))
def test_both_engines_answer_show_describe_and_explain(readers, statement):
    for reader in readers:
        assert "group_id" in str(reader.sql(statement)) or "groups" in str(reader.sql(statement))


# describe, history and export-offsets answer the same with Spark as with DuckDB: for a removed group and a share
# group, now and as of a moment.
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def group_readers(spark):
    gone, shared = gone_piece_by_piece(), share_group("s")
    both = {
        name: pa.concat_tables([each.tables[name] for each in (gone, shared) if name in each.tables])
        for name in gone.tables | shared.tables
    }
    by_duckdb = ArrowReader(both, to_datetime(10_000), partitions=shared.tables["audits"]["partitions"][0].as_py())
    return by_duckdb, SparkArrowReader(spark, by_duckdb)


@pytest.mark.parametrize(
    "line",
    one_of(
        "describe --group g --format json",
        f"describe --group g --as-of {10**12} --members --format json",
        f"describe --group g --as-of {10**12 + 1500} --format json",
        f"history --group g --since {10**12} --topic t:0,1 --topic dead --format json",
        "history --group g --commits --limit 4 --format json",
        f"export-offsets --group g --as-of {10**12 + 2500}",
        "describe --group gg",
        "describe --group s",
        f"describe --group s --as-of {10**12 + 5000}",
    ),
)
def test_both_engines_give_the_same_answers(group_readers, kgroups, line):
    one, other = (kgroups(line, reader) for reader in group_readers)
    assert one == other
    assert one[1] or one[0] == 1 or "--members" in line
