"""Readers of a lake that has been through nights, a killed audit and upkeep: they never see half an audit, and Spark,
DuckDB and deltalake read the same."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from kgroups_spark.audit.maintain import run_maintain
from kgroups_spark.audit.options import MaintainOptions
from kgroups_spark.audit.run import AuditOptions, run_audit
from kgroups_spark.errors import UsageError
from kgroups_spark.lake.as_of_audit import LakeAsOfAudit
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.local import Local
from kgroups_spark.sql.by_duckdb import duckdb_views
from kgroups_spark.sql.by_spark import SparkReader, register_views
from kgroups_spark.sql.views import with_what_they_need
from kgroups_spark.tables.schemas import STATE_LOG_TABLES, TABLES, arrow_schema
from tests.chosen import Chosen, some_of
from tests.logs.corpora import ANSWERS
from tests.nights.lakes import copy_until
from tests.recorded_logs import CORPORA
from tests.views.arrow_tables import WITHOUT_RECORD_VIEWS

pytestmark = pytest.mark.spark

# The ledger shows a running audit, and tables that only audits read are not for readers. Views are on these
# tables alone: some of them are enough.
SEEN = [name for name, table in TABLES.items() if table.kind in ("history", "current")]
SEEN += ["previous_offset_expiry", "last_audit", "audit_partitions", "coverage", "expiry_outcomes", "lag"]
# Views that Spark is asked of; in a soak also of the coverage. Half an audit shows in expiry_outcomes.
SEEN_BY_SPARK = ("last_audit", "expiry_outcomes", "coverage")
# The log has no folders of the other coordinators: their tables stay as they were made.
NOW = [name for name, table in TABLES.items() if table.kind == "current" and name not in STATE_LOG_TABLES]
# No topic was created again, no log was cut back, no cluster was asked, no group waits, and no other log is there
# (audit/test_cut_back_nights.py, test_state_as_of.py and the views' own tests have them).
EMPTY = ("stale_offsets", "replaced_ranges", "transactional_producers", "transaction_limits")
EMPTY += ("group_settings", "lag_history", "handovers", "waiting_partitions")
EMPTY += ("share_lag", "share_windows", "dead_letters", "redeliveries")
RETENTION_MS = ANSWERS["expiry-4.3-after"]["retention_ms"]
Contents = dict[str, list[str]]


class Killed(Exception):
    """Raised by a commit that is never made."""


@dataclass
class LivedIn:
    """The lake, what readers saw that they should not (moment, what differed), and what the last audit reported."""

    path: Path
    moments: int = 0
    wrong: list[tuple[str, list[str]]] = field(default_factory=list)
    committed: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A broker's log on three evenings: before it was restarted, amid its expiry checks, and after them."""
    folder = tmp_path_factory.mktemp("logs")
    with zipfile.ZipFile(CORPORA) as archive:
        archive.extractall(folder)
    before, after = (folder / "logs" / f"expiry-4.3-{name}" for name in ("before", "after"))
    copy_until(after, folder / "amid", 0.96)
    return [before, folder / "amid", after]


@pytest.fixture(scope="module", params=["parts", pytest.param("spark", marks=pytest.mark.soak)])
def lived_in(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    local: Local,
    logs: list[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> LivedIn:
    """Two nights; a third that is killed as late as can be, and comes again; then upkeep."""
    lived = LivedIn(tmp_path_factory.mktemp("lived in") / "lake")
    chosen = Chosen("lived in", every=request.param == "spark")
    by: Any = {"parts": local, "spark": spark}[request.param]
    for log in logs[:2]:
        night(local, lived, log)
    with watched(spark, lived, chosen, killed_at=("audits", 2)), pytest.raises(Killed):
        night(local, lived, logs[2])
    with watched(spark, lived, chosen, by_spark=True):
        night(by, lived, logs[2])
    with watched(spark, lived, chosen):
        run_maintain(by, MaintainOptions(lake=str(lived.path)))
    return lived


def night(session: Any, lived: LivedIn, log: Path) -> None:
    options = AuditOptions(lake=str(lived.path), segments=[str(log)], retention_ms=RETENTION_MS)
    run_audit(session, options)


@contextmanager
def watched(
    spark: SparkSession,
    lived: LivedIn,
    chosen: Chosen,
    killed_at: tuple[str, int] | None = None,
    *,
    by_spark: bool = False,
) -> Iterator[None]:
    """Looks at the lake before one commit of twenty, in a soak before each: the lake is then as it would be if the
    audit had been killed there.

    The `killed_at` commit (table, which of its commits) is never made. Spark is slow and looks only once, `by_spark` or
    in a soak, when all but the last table have been written. Many commits only shut killed audits out and hold no rows:
    it passes over nine of ten of them.
    """
    commit, lock, counts = Lake.commit, threading.Lock(), dict[str, int]()
    lake = Lake.open(spark, str(lived.path))
    asks_spark = chosen.some(SEEN_BY_SPARK, 0, always=SEEN_BY_SPARK[:2]) if by_spark or chosen.every else []
    seen, seen_by_spark = in_duckdb(lived.path), in_spark(spark, lake, asks_spark) if asks_spark else {}

    def look(self: Lake, table: str, operation: str, write: Callable[[], Any]) -> Any:
        with lock:
            counts[table] = counts.get(table, 0) + 1
            counts[operation] = counts.get(operation, 0) + 1
            if operation == "shut out" and counts[operation] % 10 != 5:
                return commit(self, table, operation, write)
            lived.moments += 1
            lived.committed.add(table)
            is_late = (table, operation) == ("group_expiry", "replace")
            now = in_duckdb(lived.path) if chosen.takes(1 / 20) or is_late else {}
            if is_late and asks_spark:
                found = in_spark(spark, lake, asks_spark)
                now |= {f"{name} by Spark": rows for name, rows in found.items() if rows != seen_by_spark[name]}
            different = sorted(name for name in now if now[name] != seen.get(name))
            if different:
                lived.wrong.append((f"{operation} {table}", different))
        if (table, counts[table]) == killed_at:
            raise Killed
        return commit(self, table, operation, write)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lake, "commit", look)
        yield


def in_duckdb(path: Path) -> Contents:
    with duckdb_views(str(path)) as connection:
        return {name: texts(read_by_duckdb(connection, name)) for name in SEEN}


def in_spark(spark: SparkSession, lake: Lake, names: list[str]) -> Contents:
    register_views(spark, lake, with_what_they_need(names))
    return {name: texts(spark.table(name).toArrow()) for name in names}


def read_by_duckdb(connection: duckdb.DuckDBPyConnection, name: str) -> pa.Table:
    return connection.sql(f"SELECT * FROM {name}").to_arrow_table()


def texts(table: pa.Table) -> list[str]:
    """The rows as texts, in an order of their own."""
    return sorted(map(repr, table.to_pylist(maps_as_pydicts="strict")))


def test_no_reader_ever_sees_half_an_audit(lived_in: LivedIn) -> None:
    assert lived_in.wrong == []
    assert lived_in.moments > 40
    assert lived_in.committed >= {"offset_commits", "group_versions", *NOW, "previous_offset_expiry", "audits"}


def test_the_last_night_is_reported_when_it_has_finished(lived_in: LivedIn) -> None:
    with duckdb_views(str(lived_in.path)) as connection:
        assert connection.sql("SELECT audit_id FROM last_audit").fetchall() == [(5,)]
        outcomes = dict(connection.sql("SELECT outcome, count(*) FROM expiry_outcomes GROUP BY outcome").fetchall())
        assert {row[0] for row in connection.sql("SELECT audit_id FROM expiry_outcomes").fetchall()} == {2}
    assert outcomes["removed"]


@pytest.mark.parametrize("name", some_of(3, *TABLES))
def test_spark_deltalake_and_duckdb_read_the_same(spark: SparkSession, lived_in: LivedIn, name: str) -> None:
    """Names, types and values of every column of every table."""
    schema = arrow_schema(name)
    by_spark = Lake.open(spark, str(lived_in.path)).read(name).toArrow()
    by_deltalake = DeltaTable(str(lived_in.path / name)).to_pyarrow_table()
    with duckdb_views(str(lived_in.path)) as connection:
        by_duckdb = read_by_duckdb(connection, name)
        described = connection.sql(f"DESCRIBE {name}").fetchall()
    for table in (by_spark, by_deltalake, by_duckdb):
        assert table.schema.names == schema.names
        # Readers differ in the names of list elements and in whether these may be null: the cast fails on all else.
        assert texts(table.cast(schema)) == texts(table) == texts(by_spark)
    assert {row[0]: row[1].startswith("TIMESTAMP WITH TIME ZONE") for row in described} == {
        column.name: pa.types.is_timestamp(column.type) for column in schema
    }


@pytest.fixture(scope="module")
def views(lived_in: LivedIn) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb_views(str(lived_in.path)) as connection:
        yield connection


@pytest.fixture(scope="module")
def spark_reader(spark: SparkSession, lived_in: LivedIn) -> SparkReader:
    return SparkReader(spark, Lake.open(spark, str(lived_in.path)))


@pytest.mark.parametrize("name", some_of(2, *WITHOUT_RECORD_VIEWS))
def test_both_dialects_agree(spark_reader: SparkReader, views: duckdb.DuckDBPyConnection, name: str) -> None:
    """All are compared where their rules are shown, too; here they read Delta tables."""
    asked = spark_reader.frame(f"SELECT * FROM {name}")
    by_duckdb, by_spark = read_by_duckdb(views, name), asked.toArrow()
    commented = views.sql(f"SELECT column_name, comment FROM duckdb_columns() WHERE table_name = '{name}'")
    comments = dict(commented.fetchall())
    assert (by_duckdb.num_rows == 0) is (name in EMPTY)
    assert by_duckdb.schema.names == by_spark.schema.names
    assert texts(by_duckdb.cast(by_spark.schema)) == texts(by_spark)
    assert comments == {column.name: column.metadata["comment"] for column in asked.schema}


def test_an_earlier_audit_can_still_be_read(spark: SparkSession, lived_in: LivedIn) -> None:
    then = LakeAsOfAudit(Lake.open(spark, str(lived_in.path)), 1)
    names = ("offset_commits", "committed_offsets", "previous_offset_expiry")
    ids = {name: {row.audit_id for row in then.read(name).select("audit_id").collect()} for name in names}
    assert ids == {"offset_commits": {1}, "committed_offsets": {1}, "previous_offset_expiry": set()}


def test_a_place_without_a_lake_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no lake at"):
        duckdb_views(str(tmp_path))
