"""Lakes read by DuckDB without Spark: their rows, unfinished audits, refusals."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgroups_spark.cli.main import main
from kgroups_spark.cli.open_lake import open_lake
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.sql import by_duckdb
from kgroups_spark.sql.by_duckdb import DuckDbLake
from kgroups_spark.sql.by_spark import SparkReader
from kgroups_spark.sql.reader import SqlError
from kgroups_spark.sql.views import FUNCTIONS, VIEWS, definition
from kgroups_spark.tables.schemas import LAKE_VERSION, TABLES
from tests.cli.written_lake import AS_OF, add, commit, create, ledger, protocol, waiting, write_lake
from tests.views.recorded import tables_of


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    """A recording, in a folder with blanks, a percent sign and an accent in its name."""
    tables = tables_of("kip848-4.3")
    more = {"audits": ledger({}), "offset_expiry": waiting(tables["committed_offsets"])}
    return write_lake(tmp_path_factory.mktemp("lakes") / "so 100% là", tables | more)


def opened(location, engine="auto"):
    return open_lake(argparse.Namespace(lake=location, engine=engine, command="groups"))


def test_the_rows_read_are_those_written(location):
    reader, written = opened(location), tables_of("kip848-4.3")
    assert reader.engine == "duckdb"
    for name in ("groups", "group_members", "offset_commits"):
        rows = written[name].to_pylist(maps_as_pydicts="strict")
        assert sorted(reader.rows(name), key=repr) == sorted(rows, key=repr) != []
    assert reader.last_audit["audit_id"] == 1
    assert reader.known_as_of() == "audit 1, as of 2026-11-16 06:30:00 UTC"
    assert reader.rows("last_audit")[0]["as_of"] == AS_OF


def test_comments_of_views_and_functions_are_there_where_a_query_lists_them(location):
    reader = opened(location)
    assert reader.sql("SELECT DISTINCT known FROM groups_as_of(NULL)")
    for _ in range(2):
        rows = reader.sql("SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'lag'")
        assert {row["column_name"]: row["comment"] for row in rows} == {
            name: column.comment for name, column in definition("lag").columns.items()
        }
    views = "SELECT view_name AS name, comment FROM duckdb_views() WHERE NOT internal AND schema_name = 'main'"
    functions = "SELECT function_name AS name, comment FROM duckdb_functions() WHERE NOT internal"
    found = {row["name"]: row["comment"] for row in reader.sql(f"{views} UNION ALL {functions}")}
    assert {
        name for name in (*VIEWS, *FUNCTIONS) if not (found[name] or "").startswith(definition(name).comment)
    } == set()


def test_parameters_are_bound_and_lookalikes_are_not(location):
    reader = opened(location)
    query = """
      SELECT ':a' AS text, :a AS a, CAST('7' AS INT) AS b, '8'::INT AS c, "audit_id:x" AS d, :moment AS moment,
        :none AS none, :flag AS flag, array_contains(:names, 'n2') AS named -- :a
      FROM (SELECT 1 AS "audit_id:x") /* :a */
    """
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    [row] = reader.sql(query, a="it's", moment=moment, none=None, flag=True, names=["n1", "n2"], unused=1)
    assert row == {
        "text": ":a", "a": "it's", "b": 7, "c": 8, "d": 1, "moment": moment, "none": None, "flag": True, "named": True
    }  # fmt: skip


def test_sums_are_whole_numbers_and_times_are_utc(location):
    [row] = opened(location).sql("SELECT sum(log_offset) AS total, max(log_timestamp) AS newest FROM offset_commits")
    rows = tables_of("kip848-4.3")["offset_commits"].to_pylist()
    assert row == {
        "total": sum(each["log_offset"] for each in rows),
        "newest": max(each["log_timestamp"] for each in rows),
    }
    assert type(row["total"]) is int and row["newest"].utcoffset() == timedelta(0)


def test_rows_of_an_unfinished_audit_are_not_read(tmp_path):
    tables = tables_of("kip848-4.3")
    lake = write_lake(tmp_path / "lake", tables | {"audits": ledger({}, {"audit_id": 2, "status": "running"})})
    before = opened(lake)
    for audit_id in (2, 2):
        add(tmp_path / "lake", "groups", tables["groups"], audit_id=audit_id)
    after = opened(lake)
    assert len(before.rows("groups")) == len(after.rows("groups")) == tables["groups"].num_rows
    assert after.sql("SELECT count(*) AS n FROM groups") == [{"n": tables["groups"].num_rows}]
    add(tmp_path / "lake", "audits", ledger({"audit_id": 2}), audit_id=2)
    assert len(opened(lake).rows("groups")) == 3 * tables["groups"].num_rows
    # A reader opened before that still sees the earlier rows.
    assert len(after.rows("groups")) == tables["groups"].num_rows


def test_a_lake_whose_first_audit_has_not_finished_is_empty(tmp_path):
    reader = opened(write_lake(tmp_path / "lake", {"audits": ledger({"status": "running"})}))
    assert reader.rows("groups") == reader.sql("SELECT * FROM lag") == []
    with pytest.raises(KgroupsError, match=r"the lake at .* has no finished audit: run kgroups audit first"):
        _ = reader.last_audit


def test_a_deleted_table_of_the_present_layout_is_not_taken_for_an_empty_one(tmp_path):
    tables = tables_of("kip848-4.3") | {"audits": ledger({})}
    reader = opened(write_lake(tmp_path / "lake", tables, without="groups"))
    assert len(reader.rows("committed_offsets")) == tables["committed_offsets"].num_rows
    for asked in (lambda: reader.rows("groups"), lambda: reader.sql("SELECT * FROM groups")):
        with pytest.raises(KgroupsError, match="has no table groups any more, which a lake of its layout has: restore"):
            asked()


@pytest.mark.parametrize("name", ["groups", "audits"])
def test_a_damaged_file_is_reported_in_one_line(tmp_path, name):
    lake = write_lake(tmp_path / "lake", tables_of("kip848-4.3") | {"audits": ledger({})})
    (file,) = (tmp_path / "lake" / name).glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(KgroupsError, match=rf"^the lake at .* cannot be read: Could not open Parquet .*{file.name}.*$"):
        opened(lake).rows("groups")


@pytest.mark.parametrize("damage", [Path.unlink, Path.touch, lambda file: file.write_bytes(b"no Parquet")])
def test_a_query_over_a_damaged_file_is_refused_in_one_line(tmp_path, damage):
    """deltalake's messages have several lines and colours, and DuckDB's repeats each."""
    lake = write_lake(tmp_path / "lake", tables_of("kip848-4.3") | {"audits": ledger({})})
    (file,) = (tmp_path / "lake" / "groups").glob("*.parquet")
    file.unlink()
    if damage is not Path.unlink:
        damage(file)
    with pytest.raises(KgroupsError) as refused:
        opened(lake).sql("SELECT * FROM groups")
    (line,) = refused.value.lines
    assert re.fullmatch(rf"the lake at .* cannot be read: table groups: [^\n]*{file.name}[^\n]*", line)
    assert "\x1b" not in line and line.count(file.name) <= 2


def test_a_flipped_bit_of_a_data_file_is_refused(tmp_path):
    tables = tables_of("kip848-4.3") | {"audits": ledger({})}
    lake = write_lake(tmp_path / "lake", tables)
    (file,) = (tmp_path / "lake" / "groups").glob("*.parquet")
    column = pq.read_metadata(file).row_group(0).column(tables["groups"].column_names.index("group_id"))
    data = bytearray(file.read_bytes())
    data[(column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size - 1] ^= 1
    file.write_bytes(data)
    for read in (lambda: opened(lake).rows("groups"), lambda: opened(lake).sql("SELECT * FROM groups")):
        with pytest.raises(KgroupsError, match="CRC"):
            read()


def test_a_current_table_that_has_lost_all_of_its_rows_is_not_taken_for_an_empty_one(tmp_path):
    tables = tables_of("kip848-4.3")
    rows = tables["groups"].num_rows
    empty = {name: table for name, table in tables.items() if name != "groups"}
    full = write_lake(tmp_path / "full", tables | {"audits": ledger({"newest_audits": {"groups": 1}})})
    assert len(opened(full).rows("groups")) == rows
    lake = write_lake(tmp_path / "lake", empty | {"audits": ledger({"newest_audits": {"groups": 1}})})
    with pytest.raises(KgroupsError, match="has lost the newest version of table groups"):
        opened(lake).rows("groups")
    lake = write_lake(tmp_path / "none", empty | {"audits": ledger({"newest_audits": {"topics": 1}})})
    assert opened(lake).rows("groups") == []


def test_history_prints_no_row_if_a_table_is_damaged(tmp_path, capsys):
    lake = write_lake(tmp_path / "lake", tables_of("kip848-4.3") | {"audits": ledger({})})
    assert main(["history", "--lake", lake, "--all-groups"]) == 0
    assert capsys.readouterr().out
    (file,) = (tmp_path / "lake" / "offset_commits").glob("*.parquet")
    file.write_bytes(b"no Parquet")
    assert main(["history", "--lake", lake, "--all-groups"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, "table offset_commits" in printed.err) == ("", True)


def test_a_file_that_is_gone_since_the_lake_was_opened_is_reported_in_one_line(tmp_path):
    reader = opened(write_lake(tmp_path / "lake", tables_of("kip848-4.3") | {"audits": ledger({})}))
    for name in ("groups", "audits"):
        (file,) = (tmp_path / "lake" / name).glob("*.parquet")
        file.unlink()
    for read in (lambda: reader.rows("groups"), lambda: reader.last_audit, lambda: reader.rows("log_totals")):
        with pytest.raises(KgroupsError, match=r"^the lake at .* cannot be read: .* not found .*open it again$"):
            read()


def test_a_table_that_spark_cannot_read_is_reported_in_one_line():
    """For example because its log ends within a line: DuckDB's reader then leaves the lake to Spark."""

    class Damaged:
        def rows(self, *_):
            raise OSError("no more lines")

    reader = object.__new__(SparkReader)
    reader.location, reader._tables = "./lake", Damaged()
    with pytest.raises(KgroupsError, match=r"^table groups of the lake at \./lake cannot be read: no more lines$"):
        reader.table_rows("groups")


def test_lakes_of_another_layout_and_foreign_tables_are_refused(tmp_path):
    other = write_lake(tmp_path / "of another layout", {}, layout=LAKE_VERSION + 1)
    with pytest.raises(
        KgroupsError,
        match=rf"has layout {LAKE_VERSION + 1}; this version of kgroups-spark knows {LAKE_VERSION}: use the version",
    ):
        opened(other)
    create(tmp_path / "other", "audits", pa.schema({"a": pa.int64()}), {})
    with pytest.raises(UsageError, match="is not a lake: its table audits has no property"):
        opened(str(tmp_path / "other"))
    (tmp_path / "folder" / "audits").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"no lake at .*folder: it has no table audits; kgroups audit creates one"):
        opened(str(tmp_path / "folder"))


@pytest.fixture
def by_spark(monkeypatch):
    """The lakes that Spark would have opened."""
    asked: list[str] = []

    def instead(location, command):
        asked.append(location)
        return argparse.Namespace(missing_tables=[])

    monkeypatch.setattr("kgroups_spark.cli.open_lake.open_by_spark", instead)
    return asked


def test_a_lake_that_duckdb_cannot_read_is_left_to_spark_or_refused(tmp_path, by_spark, monkeypatch):
    lake = write_lake(tmp_path / "lake", {"audits": ledger({})})
    opened(lake, "spark")
    assert by_spark.pop() == lake
    commit(tmp_path / "lake", "groups", protocol(3, "deletionVectors"))
    opened(lake)
    assert by_spark.pop() == lake
    with pytest.raises(KgroupsError, match=r"cannot be read by DuckDB: .*table groups is more than its files"):
        opened(lake, "duckdb")
    other = write_lake(tmp_path / "other", {"audits": ledger({})})
    metadata = tmp_path / "other" / "topics" / "_delta_log" / f"{0:020}.json"
    metadata.write_text(metadata.read_text().replace("delta.dataSkippingStatsColumns", "delta.anotherOne"))
    with pytest.raises(KgroupsError, match=r"table topics has lost its property delta\.dataSkippingStatsColumns"):
        opened(other, "duckdb")
    opened("s3a://bucket/lake")
    assert by_spark.pop() == "s3a://bucket/lake"
    monkeypatch.setattr(by_duckdb, "PACKAGES", ("deltalake_of_another_name",))
    opened(lake)
    assert by_spark.pop() == lake
    with pytest.raises(KgroupsError, match=r"deltalake_of_another_name not installed \(pip install 'kgroups-spark"):
        opened(lake, "duckdb")


def test_a_damaged_log_names_its_table_and_the_reason_why_spark_reads_it(tmp_path, by_spark, capsys):
    lake = write_lake(tmp_path / "lake", {"audits": ledger({})})
    entry = tmp_path / "lake" / "groups" / "_delta_log" / f"{0:020}.json"
    entry.write_text(entry.read_text()[:300])
    with pytest.raises(KgroupsError, match=r"cannot be read by DuckDB: .*: table groups: [^\d]*$"):
        opened(lake, "duckdb")
    opened(lake)
    assert by_spark.pop() == lake
    assert re.search(
        r"^DuckDB cannot read the lake \(.*table groups: .*\), so Spark reads it$", capsys.readouterr().err
    )


def test_an_empty_newest_file_of_the_ledger_is_reported(tmp_path):
    lake = write_lake(tmp_path / "lake", {"audits": ledger({})})
    (tmp_path / "lake" / "audits" / "_delta_log" / f"{2:020}.json").touch()
    with pytest.raises(KgroupsError, match=r"is empty \(audits/_delta_log/0{19}2.json\).*kgroups audit gives up"):
        opened(lake)


@pytest.mark.parametrize(("name", "mistaken_for"), [("a%20b", "a b"), ("a%2Fb", "a/b"), ("a\\b", "a/b")])
def test_a_folder_that_deltalake_mistakes_for_another_is_left_to_spark(tmp_path, monkeypatch, name, mistaken_for):
    lake = write_lake(tmp_path / name, {"audits": ledger({})})
    write_lake(tmp_path / mistaken_for, {"audits": ledger({"audit_id": 2})})
    assert by_duckdb.duckdb_reader(lake, must=False) is None
    with pytest.raises(KgroupsError, match=r"cannot be read by DuckDB: .*deltalake does not find folders with"):
        opened(lake, "duckdb")
    monkeypatch.chdir(lake)
    assert by_duckdb.duckdb_reader(".", must=False) is None


def test_duckdb_reads_no_catalog(monkeypatch):
    monkeypatch.setenv("SPARK_CONF_DIR", "/somewhere")
    with pytest.raises(UsageError, match=r"--engine duckdb reads a lake in a folder, and main.kafka is"):
        opened("main.kafka", "duckdb")


def test_a_file_uri_names_a_folder(location):
    assert opened(f"file:{location}").rows("groups") == opened(location).rows("groups")


def test_refused_queries_say_why_and_suggest_names(location):
    with pytest.raises(SqlError, match='"grup_id" not found in FROM clause!\nCandidate bindings: "group_id"'):
        opened(location).sql("SELECT grup_id FROM groups")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP VIEW groups",
        "CREATE TABLE mine AS SELECT 1",
        "INSERT INTO groups SELECT * FROM groups",
        "COPY groups TO '{folder}/x.csv'",
        "EXPORT DATABASE '{folder}/x'",
        "ATTACH '{folder}/x.db'",
        "SET enable_external_access = true",
        "SELECT 1; SELECT 2",
        "SELECT * FROM read_text('{folder}/x.txt')",
        "EXPLAIN ANALYZE COPY groups TO '{folder}/x.csv'",
        "WITH x AS (SELECT 1) INSERT INTO groups SELECT * FROM x",
    ],
)
def test_duckdb_refuses_everything_but_queries_and_opens_no_file(location, tmp_path, statement):
    (tmp_path / "x.txt").write_text("mine")
    with pytest.raises(SqlError):
        opened(location).sql(statement.format(folder=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["x.txt"]


def test_every_table_and_view_can_be_queried_alone(location, chosen):
    """In a lake in which no other query has made what it needs."""
    for name in chosen.some((*TABLES, *VIEWS), 3):
        assert by_duckdb.DuckDbReader(DuckDbLake(location)).sql(f"SELECT count(*) AS n FROM {name}")[0]["n"] >= 0
