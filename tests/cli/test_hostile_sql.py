"""`kgroups sql` by either engine: hostile statements, alone and hidden in queries, change, read and run nothing; the
queries that people ask still run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.java_classes import items_of
from kgroups_spark.lake.lake import Lake
from kgroups_spark.reading.by_duckdb import duckdb_reader
from kgroups_spark.reading.by_spark import SparkReader
from kgroups_spark.reading.reader import LakeReader, SqlError
from kgroups_spark.reading.spark_functions import FUNCTIONS_OF_SPARK, TABLE_FUNCTIONS_OF_SPARK
from kgroups_spark.reading.spark_queries import SETTINGS
from kgroups_spark.tables.schemas import TABLES
from kgroups_spark.views import FUNCTIONS, VIEWS
from tests.chosen import Chosen
from tests.cli import hostile_sql as hostile
from tests.cli.written_lake import ledger, write_lake
from tests.views.recorded import tables_of

SECRET = "a secret nobody may read"
PROPERTY = "kgroups.hostile"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake, and with a folder `outside` with a file."""
    folder = tmp_path_factory.mktemp("hostile")
    write_lake(folder / "lake", tables_of("kip848-4.3") | {"audits": ledger({})})
    (folder / "outside").mkdir()
    (folder / "outside" / "secret").write_text(SECRET)
    return folder


@pytest.fixture(scope="module")
def by_duckdb(folder: Path) -> LakeReader:
    reader = duckdb_reader(str(folder / "lake"), must=True)
    assert reader is not None
    return reader


@pytest.fixture(scope="module")
def by_spark(folder: Path, spark: SparkSession) -> SparkReader:
    return SparkReader(spark, Lake.open(spark, str(folder / "lake")))


def filled(folder: Path, text: str) -> str:
    return text.replace("{lake}", str(folder / "lake")).replace("{outside}", str(folder / "outside"))


def files(folder: Path) -> list[tuple[Path, int, int]]:
    """Everything below the folder."""
    seen = [(path, path.lstat()) for path in folder.rglob("*")]
    return sorted((path, stat.st_mtime_ns, stat.st_size) for path, stat in seen)


def queries(relations: tuple[str, ...], expressions: tuple[str, ...]) -> Iterator[str]:
    for relation in relations:
        yield f"SELECT * FROM {relation}"
    for relation in relations[:4]:
        yield f"SELECT 1 AS x FROM groups CROSS JOIN {relation}"
    for expression in expressions:
        yield f"SELECT {expression} AS x"
        yield f"SELECT 1 AS x FROM groups WHERE CAST({expression} AS STRING) = 'x'"


def assert_refused(reader: LakeReader, text: str) -> None:
    with pytest.raises(SqlError) as refused:
        pytest.fail(f"{text} was run: {reader.arrow(text).to_pylist()[:3]}")
    assert SECRET not in str(refused.value)


def assert_nothing_shown(reader: LakeReader, text: str) -> None:
    """DuckDB neither opens the files that EXPLAIN names nor looks at subqueries that nothing reads."""
    try:
        assert SECRET not in str(reader.arrow(text).to_pylist())
    except SqlError as refused:
        assert SECRET not in str(refused)


@pytest.mark.spark
def test_spark_runs_no_hostile_statement(by_spark: SparkReader, folder: Path, chosen: Chosen) -> None:
    before = files(folder)
    for statement in hostile.SPARK_STATEMENTS:
        assert_refused(by_spark, filled(folder, statement))
    for statement in chosen.some(hostile.SPARK_STATEMENTS, 10):
        assert_refused(by_spark, filled(folder, f"EXPLAIN {statement}"))
    assert_untouched(by_spark, folder, before)


@pytest.mark.spark
def test_spark_runs_no_query_that_hides_something_hostile(by_spark: SparkReader, folder: Path, chosen: Chosen) -> None:
    before = files(folder)
    texts = [*hostile.SPARK_QUERIES, *queries(hostile.SPARK_RELATIONS, hostile.SPARK_EXPRESSIONS)]
    for text, around in chosen.some(product(texts, hostile.AROUND_QUERIES), 100):
        assert_refused(by_spark, filled(folder, around.replace("{}", text)))
    assert_untouched(by_spark, folder, before)


@pytest.mark.spark
def test_variables_of_the_session_are_not_read(by_spark: SparkReader, chosen: Chosen) -> None:
    by_spark.spark.sql(f"DECLARE OR REPLACE VARIABLE hidden STRING DEFAULT '{SECRET}'")
    try:
        texts = (
            "SELECT hidden AS x",
            "SELECT upper(session.hidden) AS x",
            "SELECT 1 AS x FROM groups WHERE hidden = 'x'",
        )
        assert_refused(by_spark, texts[0])
        for text, around in chosen.some(product(texts, hostile.AROUND_QUERIES), 10):
            assert_refused(by_spark, around.replace("{}", text))
    finally:
        by_spark.spark.sql("DROP TEMPORARY VARIABLE hidden")


def made_of_nothing(spark: SparkSession, _: LakeAsOfAudit, name: str) -> None:
    """A table, view or function of that name, which says nothing of the lake."""
    if name in FUNCTIONS:
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {name}() RETURNS INT RETURN 1")
    else:
        spark.sql("SELECT 1 AS x").createOrReplaceTempView(name)


@pytest.mark.spark
def test_only_the_lakes_names_are_shown(
    spark: SparkSession, folder: Path, tmp_path: Path, chosen: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a soak with all that is behind the names: Spark takes 20 s of CPU to make it."""
    if not chosen.every:
        monkeypatch.setattr("kgroups_spark.views.spark_views._make", made_of_nothing)
    spark = spark.newSession()
    by_spark = SparkReader(spark, Lake.open(spark, str(folder / "lake")))
    spark.sql(f"CREATE TABLE strange (x INT) USING parquet LOCATION '{tmp_path / 'strange'}'")
    spark.sql("CREATE TEMPORARY VIEW odd AS SELECT 1 AS x")
    try:
        tables = by_spark.arrow("SHOW TABLES")["tableName"].to_pylist()
        assert sorted(tables) == sorted({*TABLES, *VIEWS})
        assert sorted(by_spark.arrow("SHOW VIEWS")["viewName"].to_pylist()) == sorted(tables)
        assert by_spark.arrow("SHOW TABLES LIKE 'strange|odd'").num_rows == 0
        assert {"expiring", "upper"} <= set(by_spark.arrow("SHOW FUNCTIONS")["function"].to_pylist())
        assert "reflect" not in by_spark.arrow("SHOW FUNCTIONS")["function"].to_pylist()
    finally:
        spark.sql("DROP VIEW odd")
        spark.sql("DROP TABLE strange")


def assert_untouched(by_spark: SparkReader, folder: Path, before: list[tuple[Path, int, int]]) -> None:
    assert files(folder) == before
    spark = by_spark.spark
    assert spark._jvm is not None and spark._jvm.java.lang.System.getProperty(PROPERTY) is None
    assert not spark.catalog.tableExists("mine") and not spark.catalog.databaseExists("mine")


@pytest.mark.spark
def test_a_query_restores_the_sessions_settings(by_spark: SparkReader) -> None:
    conf = by_spark.spark.conf
    conf.set("spark.sql.runSQLOnFiles", "true")
    before = {name: conf.get(name, None) for name in SETTINGS}
    by_spark.sql("SELECT 1")
    assert_refused(by_spark, "DROP VIEW groups")
    assert {name: conf.get(name, None) for name in SETTINGS} == before
    conf.unset("spark.sql.runSQLOnFiles")


@pytest.mark.spark
def test_a_name_in_a_with_clause_hides_no_view_of_the_session(by_spark: SparkReader, folder: Path) -> None:
    """Only Spark's analysis knows what a name refers to."""
    by_spark.spark.read.text(str(folder / "outside" / "secret")).createOrReplaceTempView("mine")
    try:
        for query in (
            "SELECT * FROM mine, (WITH mine AS (SELECT 1 AS x) SELECT * FROM mine)",
            "SELECT java_hash((SELECT value FROM mine)), (WITH mine AS (SELECT 1 AS x) SELECT x FROM mine)",
            "WITH mine AS (SELECT * FROM mine) SELECT * FROM mine",
        ):
            assert_refused(by_spark, query)
            assert_refused(by_spark, f"EXPLAIN {query}")
    finally:
        by_spark.spark.catalog.dropTempView("mine")


@pytest.mark.spark
def test_spark_substitutes_no_settings_or_environment_in_strings(by_spark: SparkReader) -> None:
    for text in ("${env:HOME}", "${system:user.dir}", "${spark.app.name}", "${hiveconf:spark.app.name}"):
        assert by_spark.sql(f"SELECT '{text}' AS x") == [{"x": text}]


@pytest.mark.spark
def test_every_function_of_spark_is_allowed_or_left_out_for_a_reason(by_spark: SparkReader) -> None:
    """New functions of a newer Spark make this fail, so that they are reviewed."""
    jvm = by_spark.spark._jvm
    assert jvm is not None
    analysis = jvm.org.apache.spark.sql.catalyst.analysis
    convert = jvm.scala.jdk.javaapi.CollectionConverters
    groups = {}
    registry = analysis.FunctionRegistry.builtin()
    for name in items_of(convert.asJavaCollection(registry.listFunction())):
        groups[name.funcName()] = registry.lookupFunction(name).get().getGroup()
    left_out = {name for name in groups if name not in FUNCTIONS_OF_SPARK}
    reasons = {
        "runs code": {"reflect", "java_method", "try_reflect"},
        "names files": {"input_file_name", "input_file_block_start", "input_file_block_length"},
        "opens what options and texts name": {
            name for name, group in groups.items() if group in ("avro_funcs", "protobuf_funcs", "xml_funcs")
        },
        "nobody needs it": {
            name for name, group in groups.items() if group in ("sketch_funcs", "st_funcs", "vector_funcs")
        }
        | {name for name in groups if re.match("approx_top_k_|bitmap_|count_min|.*(hll|kll|theta|tuple)_", name)},
        "not looked into": {"aes_decrypt", "aes_encrypt", "try_aes_decrypt", "current_path", "measure"},
    }
    reasons["nobody needs it"] |= {name for name in groups if name.startswith(("vector_", "st_"))}
    assert left_out == set().union(*reasons.values())
    assert FUNCTIONS_OF_SPARK - set(groups) <= {*TABLE_FUNCTIONS_OF_SPARK, "<>", "!="}
    tables = {
        name.funcName()
        for name in items_of(convert.asJavaCollection(analysis.TableFunctionRegistry.builtin().listFunction()))
    }
    assert tables - TABLE_FUNCTIONS_OF_SPARK == {"collations", "python_worker_logs", "sql_keywords"}


@pytest.mark.spark
def test_spark_runs_the_queries_that_people_ask(by_spark: SparkReader, chosen: Chosen) -> None:
    for query in chosen.some(hostile.SPARK_GOOD, 3):
        by_spark.arrow(query)


@pytest.mark.spark
def test_a_bug_in_spark_is_one_message(by_spark: SparkReader) -> None:
    query = "WITH t AS (SELECT now() AS x) SELECT * FROM groups_as_of((SELECT x FROM t))"
    with pytest.raises(SqlError, match=r"^Spark failed: java\.util\.NoSuchElementException: key not found"):
        by_spark.sql(query)


def test_duckdb_runs_nothing_hostile(by_duckdb: LakeReader, folder: Path, chosen: Chosen) -> None:
    secret_in_python = tables_of("kip848-4.3")["groups"]
    assert secret_in_python.num_rows
    before = files(folder)
    for statement in hostile.DUCKDB_STATEMENTS:
        assert_refused(by_duckdb, filled(folder, statement))
    texts = list(queries(hostile.DUCKDB_RELATIONS, hostile.DUCKDB_EXPRESSIONS))
    for text in texts:
        assert_refused(by_duckdb, filled(folder, text))
    for text, around in chosen.some(product(texts, hostile.AROUND_DUCKDB_QUERIES), 150):
        quoted = text.replace("'", "''") if "query('" in around else text
        assert_nothing_shown(by_duckdb, filled(folder, around.replace("{}", quoted)))
    assert files(folder) == before
    assert by_duckdb.sql("SELECT count(*) > 0 AS n, min(java_hash('a')) AS h FROM groups") == [{"n": True, "h": 97}]


def test_duckdb_explains_queries(by_duckdb: LakeReader) -> None:
    for text in ("EXPLAIN", "explain analyze", "EXPLAIN (FORMAT json)", "EXPLAIN (ANALYZE)", "-- c\nEXPLAIN /* ; */"):
        [plan] = by_duckdb.sql(f"{text} SELECT * FROM groups")
        assert "explain_value" in plan
