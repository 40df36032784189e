"""Queries for one group read little of the tables: conditions on it reach the files, in both dialects, through every
view."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from kgroups_spark.sql.views import KNOWN_HISTORY, RECORD_VIEWS, known_history_sql, view_sql, with_what_they_need
from kgroups_spark.tables.schemas import TABLES, arrow_schema
from tests.chosen import one_of
from tests.views.recorded import tables_of

# The scans of a query's plan, in both engines: which columns they read, and by which filters.


def scans_of_spark(asked):
    """The table of each scan, and the filters that choose its files and row groups."""
    asked.sparkSession.conf.set("spark.sql.maxMetadataStringLength", "10000")
    plan = asked._jdf.queryExecution().executedPlan().toString()
    found = re.findall(r"FileScan parquet.*?/(\w+)\.parquet\].*?PushedFilters: \[(.*?)\], ReadSchema", plan)
    assert plan.count("FileScan") == len(found) > 0
    return found


def scans_of_duckdb(connection, query):
    """The columns that each scan reads, and its filters."""
    [(_, text)] = connection.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()
    waiting = list(json.loads(text))
    while waiting:
        node = waiting.pop()
        waiting += node["children"]
        if "ARROW_SCAN" in node["name"]:
            columns, filters = node["extra_info"]["Projections"], node["extra_info"].get("Filters", "")
            yield (
                {columns} if isinstance(columns, str) else set(columns),
                " AND ".join([filters] * isinstance(filters, str) or filters),
            )


# Views of record types are all made alike; of one of these the value may have another layout.
RECORDS = ("group_metadata_records", "consumer_group_member_metadata_records")
VIEWS = ("group_topics", "topic_health", "rebalances", "unstable_periods", "offset_history", *RECORDS)
AS_OF = ("groups_as_of", "group_members_as_of", "committed_offsets_as_of", "pending_offsets_as_of")
HISTORY = [
    name for name, table in TABLES.items() if table.kind == "history" and "offsets_partition" in table.statistics
]
# As readers make it: with its row.
KNOWN = dict.fromkeys(("begins", "reduced_to", "incomplete_to", "ends"), datetime(2026, 11, 1, tzinfo=UTC))

WHERE = "offsets_partition = 1 AND group_id = 'mail-10bf26'"
# A view that has no groups, and tables that no group's name leads into: markers by producer, what audits reported.
BY_PARTITION = {"topic_health"}
WITHOUT_GROUPS = {"transaction_markers", "audits", "checkpoints"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The tables as Parquet files, so that plans show what is read of them."""
    folder = tmp_path_factory.mktemp("tables")
    tables = tables_of("kip848-4.3")
    for name in TABLES:
        pq.write_table(tables.get(name, arrow_schema(name).empty_table()), folder / f"{name}.parquet")
    return folder


def statements(dialect):
    for name in with_what_they_need([*VIEWS, *AS_OF]):
        if name not in TABLES:
            is_known = name == KNOWN_HISTORY
            yield known_history_sql(KNOWN, dialect) if is_known else view_sql(name, dialect, audit_id=1)


@pytest.fixture(scope="module")
def by_spark(spark, folder):
    for name, table in TABLES.items():
        spark.read.schema(table.schema).parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    for made in statements("spark"):
        spark.sql(made)
    return spark


@pytest.fixture(scope="module")
def by_duckdb(folder):
    connection = duckdb.connect()
    for name in TABLES:
        connection.register(name, ds.dataset(folder / f"{name}.parquet"))
    for made in statements("duckdb"):
        connection.execute(made)
    return connection


@pytest.mark.parametrize("name", one_of(*VIEWS))
def test_in_spark(by_spark, name):
    where = "offsets_partition = 1" if name in BY_PARTITION else WHERE
    for table, filters in scans_of_spark(by_spark.sql(f"SELECT * FROM {name} WHERE {where}")):
        # Spark does not see that the join with topologies is about one group, which has one or two of them.
        if table in ("audits", "topics") or "EqualTo(record_type,23)" in filters:
            continue
        assert "EqualTo(offsets_partition,1)" in filters, table
        if name not in BY_PARTITION and table not in WITHOUT_GROUPS:
            assert "EqualTo(group_id,mail-10bf26)" in filters, table


@pytest.mark.parametrize("name", VIEWS)
def test_in_duckdb(by_duckdb, name):
    where = "offsets_partition = 1" if name in BY_PARTITION else WHERE
    scans = list(scans_of_duckdb(by_duckdb, f"SELECT * FROM {name} WHERE {where}"))
    assert scans
    for columns, filters in scans:
        if "partitions" in columns or '"status"' in filters or columns == {"topic", "topic_id"}:  # the ledger, topics
            continue
        assert '"offsets_partition" = 1' in filters, columns
        if name not in BY_PARTITION and "group_id" in columns:
            assert "\"group_id\" = 'mail-10bf26'" in filters, columns


@pytest.mark.parametrize("name", one_of(*AS_OF))
def test_a_moment_of_one_group_is_read_from_its_partition(by_spark, by_duckdb, name):
    query = f"SELECT * FROM {name}(TIMESTAMP '2026-11-20 00:00:00Z') WHERE {WHERE}"
    scans = [each for each in scans_of_spark(by_spark.sql(query)) if each[0] in HISTORY]
    assert len(scans) >= 5 and all("EqualTo(offsets_partition,1)" in filters for _, filters in scans)
    assert any("EqualTo(group_id,mail-10bf26)" in filters for _, filters in scans)
    by_partition = scans_of_duckdb(by_duckdb, query.replace("TIMESTAMP", "TIMESTAMPTZ"))
    assert all(
        '"offsets_partition" = 1' in filters for columns, filters in by_partition if "offsets_partition" in columns
    )


@pytest.mark.parametrize("name", one_of(*RECORDS))
def test_records_of_one_type_from_one_place_on(by_spark, by_duckdb, name):
    query = f"SELECT log_offset FROM {name} WHERE {WHERE} AND log_offset >= 100"
    [(_, filters)] = scans_of_spark(by_spark.sql(query))
    number = RECORD_VIEWS[name].number
    assert "GreaterThanOrEqual(log_offset,100)" in filters and f"EqualTo(record_type,{number})" in filters
    [(columns, filters)] = scans_of_duckdb(by_duckdb, query)
    assert '"log_offset" >= 100' in filters and f'"record_type" = {number}' in filters
    # JSON is not read where no field of it is asked for.
    assert columns <= {"log_offset", "offsets_partition", "group_id", "record_type"}
