"""Views of history and functions of a moment in Spark: they agree with DuckDB, and read no more than they
must; and reduced history gives the same for later moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from kgroups_spark.sql.views import FUNCTIONS, definition, known_history_sql
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import one_of
from tests.coordinator.replay_row import ReplayRow
from tests.history.random_history import NAMES
from tests.lake.table_rows import rows_of as table_rows
from tests.twin.reduction_twin import reduced
from tests.views import arrow_tables
from tests.views.arrow_tables import InSpark, rows_of
from tests.views.history_logs import history_log
from tests.views.scans import scans_of_duckdb, scans_of_spark

pytestmark = pytest.mark.spark

LOGS = ("classic-4.3", "expiry-4.3-after", "kip848-4.3", "mixed-upgrade", "transactions-4.3", "dense-1", "dense-2")
LOGS += ("ahead-1",)  # some of its records are stamped 2040
HISTORY_VIEWS = ("effective_commits", "partition_owners", "offset_history", "transactions")
HISTORY_VIEWS += ("group_history", "group_member_history")
# Those of the two other logs have a test of their own (test_state_as_of.py).
AS_OF = [name for name in FUNCTIONS if name.endswith("_as_of") and "offsets_partition" in definition(name).columns]
# Reduced history is checked on these logs, which have most transactions.
REDUCED = ("mixed-upgrade", "transactions-4.3", "dense-1")
# As readers make it: with its row.
KNOWN = {
    "begins": datetime(1970, 1, 1, tzinfo=UTC),
    "reduced_to": None,
    "incomplete_to": datetime(2026, 11, 1, tzinfo=UTC),
    "ends": datetime(2027, 1, 1, tzinfo=UTC),
}
# Each log has its partitions to itself.
PARTITIONS_PER_LOG = 100


class FilesInSpark(InSpark):
    """Tables as Parquet files, so that plans show what is read of them."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, {})
        self.folder = folder

    def table(self, name: str) -> DataFrame:
        return self.spark.read.schema(TABLES[name].schema).parquet(str(self.folder / f"{name}.parquet"))

    def view_sql(self, name: str) -> str:
        return known_history_sql(KNOWN, "spark") if name == "known_history" else super().view_sql(name)


class Lake(NamedTuple):
    tables: dict[str, pa.Table]
    spark: InSpark
    duckdb: duckdb.DuckDBPyConnection
    moments: list[datetime]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """All the logs in one."""
    folder, tables = tmp_path_factory.mktemp("lake"), all_tables()
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    moments = [middle(name) for name in ("kip848-4.3", "dense-1", "ahead-1")]
    return Lake(tables, FilesInSpark(spark, folder), in_duckdb(folder), moments)


def all_tables() -> dict[str, pa.Table]:
    parts: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    for number, log in enumerate(LOGS):
        for name, table in history_log(log).tables.items():
            at = table.schema.get_field_index("offsets_partition")
            if at >= 0:
                moved = pc.add(table["offsets_partition"], pa.scalar(PARTITIONS_PER_LOG * number, pa.int32()))
                table = table.set_column(at, table.schema.field(at), moved)
            parts[name].append(table)
    audit = {"audit_id": 1, "status": "finished", "started_at": datetime(2026, 12, 1, tzinfo=UTC)}
    return {name: pa.concat_tables(each) for name, each in parts.items()} | {"audits": table_rows("audits", audit)}


def middle(log: str) -> datetime:
    moments = history_log(log).replayed.moments
    return datetime.fromtimestamp(moments[len(moments) // 2] / 1000, UTC)


def in_duckdb(folder: Path) -> duckdb.DuckDBPyConnection:
    return views_over({name: ds.dataset(folder / f"{name}.parquet") for name in TABLES})


def assert_same(lake: Lake, query: str, duckdb_query: str | None = None) -> None:
    by_spark, by_duckdb = rows_of(lake.spark, query), rows_of(lake.duckdb, duckdb_query or query)
    assert by_spark
    assert list(by_spark[0]) == list(by_duckdb[0])
    assert by_spark == by_duckdb


@pytest.mark.parametrize("name", one_of(*HISTORY_VIEWS))
def test_views_agree_in_both_dialects(lake: Lake, name: str) -> None:
    assert_same(lake, f"SELECT * FROM {name}")


@pytest.mark.parametrize("name", one_of(*AS_OF))
def test_functions_of_a_moment_agree_in_both_dialects(lake: Lake, name: str) -> None:
    times = [f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f}Z'" for moment in lake.moments] + ["NULL"]
    if name == "log_ends_as_of":
        times.pop()  # nothing ends
    query = " UNION ALL ".join(f"SELECT {n} AS moment, * FROM {name}({time})" for n, time in enumerate(times))
    assert_same(lake, query, query.replace("TIMESTAMP", "TIMESTAMPTZ"))


def test_functions_name_their_columns_as_the_tables_do(lake: Lake) -> None:
    """The same names in the same order, and `known` after them."""
    for function, table in (
        ("committed_offsets_as_of", "committed_offsets"),
        ("pending_offsets_as_of", "pending_offsets"),
    ):
        assert lake.spark.sql(f"SELECT * FROM {function}(NULL)").columns == [*TABLES[table].schema.names, "known"]
    for function, table in (("groups_as_of", "group_versions"), ("group_members_as_of", "group_member_versions")):
        names = [name for name in TABLES[table].schema.names if name != "is_removed"]
        assert lake.spark.sql(f"SELECT * FROM {function}(NULL)").columns == [*names, "known"]


GROUP = "offsets_partition = 300 AND group_id = 'mail-110f26'"
HISTORY = [
    name for name, table in TABLES.items() if table.kind == "history" and "offsets_partition" in table.schema.names
]
BY_GROUP = ("offset_commits", "group_versions", "group_member_versions")
MOMENT = "'2026-11-20 00:00:00Z'"


def test_one_groups_history_is_read_from_files_that_may_have_it(lake: Lake) -> None:
    query = f"SELECT * FROM offset_history WHERE {GROUP}"
    scans = [(table, filters) for table, filters in scans_of_spark(lake.spark.sql(query)) if table in HISTORY]
    assert [table for table, _ in scans].count("offset_commits") == 3
    # Topologies of streams groups, a record or two a group: Spark does not see that the join is about one of them.
    topologies = [filters for table, filters in scans if "EqualTo(record_type,23)" in filters]
    assert len(topologies) == 1
    for table, filters in scans:
        if filters not in topologies:
            assert "EqualTo(offsets_partition,300)" in filters
            assert ("EqualTo(group_id,mail-110f26)" in filters) == (table in BY_GROUP)
    by_duckdb = list(scans_of_duckdb(lake.duckdb, query))
    assert len(by_duckdb) > 5
    for columns, filters in by_duckdb:
        if columns == {"topic_id", "topic"} or '"status"' in filters:  # the table of topics, the ledger
            continue
        assert '"offsets_partition" = 300' in filters, columns
        assert ("\"group_id\" = 'mail-110f26'" in filters) == ("group_id" in columns), columns


@pytest.mark.parametrize("name", [name for name in AS_OF if name != "log_ends_as_of"])
def test_a_moment_of_one_group_is_read_from_its_partition(lake: Lake, name: str) -> None:
    query = f"SELECT * FROM {name}(TIMESTAMP {MOMENT}) WHERE {GROUP}"
    scans = [filters for table, filters in scans_of_spark(lake.spark.sql(query)) if table in HISTORY]
    assert len(scans) >= 5
    assert all("EqualTo(offsets_partition,300)" in filters for filters in scans)
    assert sum("EqualTo(group_id,mail-110f26)" in filters for filters in scans) == {
        "committed_offsets_as_of": 4,
        "pending_offsets_as_of": 3,
    }.get(name, 1)
    by_duckdb = scans_of_duckdb(lake.duckdb, query.replace("TIMESTAMP", "TIMESTAMPTZ"))
    assert all(
        '"offsets_partition" = 300' in filters for columns, filters in by_duckdb if "offsets_partition" in columns
    )


def test_reduced_history_gives_the_same_state_as_of_later_moments(lake: Lake) -> None:
    horizons = halves(lake)
    left = reduced_tables(lake, horizons)
    for name in ("offset_commits", "group_member_versions", "transaction_markers"):
        assert left[name].num_rows < lake.tables[name].num_rows
    whole_views, reduced_views = views_over(lake.tables), views_over(left)
    reported = 0
    for partition, records in records_of(REDUCED):
        later = later_moments(records, horizons[partition])
        for moment in {later[0], later[len(later) // 2]}:
            for name in AS_OF:
                query = f"SELECT * FROM {name}(make_timestamptz({1000 * moment})) WHERE offsets_partition = {partition}"
                expected = rows_of(whole_views, query)
                assert rows_of(reduced_views, query) == expected, (name, partition, moment)
                reported += len(expected)
    assert reported > 200


def records_of(logs: Sequence[str]) -> Iterator[tuple[int, list[ReplayRow]]]:
    """The lake's partitions of these logs, and their records."""
    for log in logs:
        for partition, rows in history_log(log).replayed.rows.items():
            yield PARTITIONS_PER_LOG * LOGS.index(log) + partition, rows


def halves(lake: Lake) -> dict[int, int]:
    """H of each partition: half of its log; a transaction that is open there holds it back, as maintenance does."""
    horizons = {partition: rows[len(rows) // 2].log_offset for partition, rows in records_of(LOGS)}
    held = dict(horizons)
    for row in rows_of(lake.duckdb, "SELECT * FROM transactions"):
        partition, start, end = row["offsets_partition"], row["transaction_start_offset"], row["marker_offset"]
        if start < horizons[partition] and (end is None or end >= horizons[partition]):
            held[partition] = min(held[partition], start)
    return held


def views_over(tables: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
    connection = arrow_tables.in_duckdb(tables, alone=True)
    connection.execute(known_history_sql(KNOWN, "duckdb"))
    return connection


def later_moments(records: list[ReplayRow], horizon: int) -> list[int]:
    """Times as of which the log ends at H or later."""
    timed = [(row.log_offset, row.log_timestamp) for row in records if row.log_timestamp is not None]
    before = max((time for offset, time in timed if offset < horizon), default=0)
    return sorted({time for _, time in timed if time >= before})


def reduced_tables(lake: Lake, horizons: dict[int, int]) -> dict[str, pa.Table]:
    left = reduced({name: lake.tables[name] for name in NAMES}, horizons)
    kept = [
        {"offsets_partition": partition, "log_offset": at, "reason": "keep", "payload": '{"topics": []}'}
        for partition, at in horizons.items()
    ]
    return lake.tables | left | {"checkpoints": table_rows("checkpoints", *kept)}
