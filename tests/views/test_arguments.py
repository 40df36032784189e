"""Functions take their arguments as values, whatever the caller's columns, aliases and WITH are called: DuckDB puts an
argument's text where a macro names it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kgroups_spark.sql.views import FUNCTIONS, RECORD_VIEWS, VIEWS, view_sql
from kgroups_spark.tables.schemas import TABLES
from tests.chosen import Chosen, some_of
from tests.cli.written_lake import ledger, waiting
from tests.lake.table_rows import rows_of as table_rows
from tests.views.arrow_tables import InSpark, with_known_history
from tests.views.recorded import tables_of

CASES = {
    "groups_as_of": "count(*), sum(log_offset), min(known)",
    "group_members_as_of": "count(*), sum(log_offset), min(known)",
    "committed_offsets_as_of": "count(*), sum(log_offset), min(known)",
    "pending_offsets_as_of": "count(*), sum(log_offset), min(known)",
    "ends_as_of": "count(*), sum(end_offset)",
    "log_ends_as_of": "count(*), sum(end_offset)",
    "state_log_ends_as_of": "count(*), sum(end_offset)",
    "state_known_as_of": "count(*), min(known)",
    "share_records_as_of": "count(*), sum(log_offset)",
    "share_partitions_as_of": "count(*), sum(log_offset), min(known)",
    "share_batches_as_of": "count(*), sum(first_offset), min(known)",
    "transactional_ids_as_of": "count(*), sum(log_offset), min(known)",
    "expiring": "count(*), sum(log_offset)",
}
SCALAR = ("java_hash", "offsets_partition_of", "offsets_partition_count", "known_as_of")


def words_of(name: str) -> set[str]:
    """Every word of the SQL of a view or function, outside texts."""
    return {
        word.lower() for word in re.findall(r"[A-Za-z_]\w*", re.sub(r"'(?:[^']|'')*'", "", view_sql(name, "duckdb")))
    }


def names_inside(*functions: str) -> list[str]:
    """Every word that these functions' SQL is made of, with the views and functions below it, and every column of the
    tables below: no other name can collide with a caller's. No caller's name has our prefix."""
    words, seen, waiting = set[str](), set[str](), {*functions}
    while waiting:
        seen |= waiting
        found = set[str]().union(*map(words_of, waiting))
        words |= found
        waiting = {name for name in found & {*FUNCTIONS, *VIEWS} if name not in RECORD_VIEWS} - seen
    columns = {column.name for name in words & {*TABLES} for column in TABLES[name].columns}
    return sorted(name for name in words | columns if not name.startswith("kgroups_"))


# The other logs, of which one ends before the last moment, and one was compacted before.
STATE_LOGS = {
    "partitions": [
        {
            "topic": topic,
            "offsets_partition": 0,
            "start_offset": 0,
            "end_offset": end,
            "records": 3,
            "records_reread": 0,
        }
        | {"newest_log_timestamp": datetime(2026, 12, day, tzinfo=UTC)}
        for topic, end, day in (("__share_group_state", 3, 1), ("__transaction_state", 4, 2))
    ]
}
ONCE_WRONG = ("moments", "records", "expires_at", "log_timestamp", "known", "log")


@pytest.fixture(scope="module")
def moments() -> list[datetime]:
    """Three at which something is different."""
    times = sorted(time for time in tables_of("kip848-4.3")["offset_commits"]["log_timestamp"].to_pylist() if time)
    return [times[len(times) // 4], times[len(times) // 2], times[-1] + timedelta(days=7)]


@pytest.fixture(scope="module")
def lake(moments: list[datetime]) -> duckdb.DuckDBPyConnection:
    tables = tables_of("kip848-4.3")
    more = {"audits": ledger(STATE_LOGS), "offset_expiry": waiting(tables["committed_offsets"])}
    return with_known_history(tables | more | state_logs(moments))


def state_logs(moments: list[datetime]) -> dict[str, pa.Table]:
    """At each moment another share partition with a batch, and another transactional id."""
    batch = {"firstOffset": 1, "lastOffset": 2, "deliveryState": 0, "deliveryCount": 1}
    snapshot = json.dumps({"startOffset": 1, "stateBatches": [batch]})
    places = [{"log_offset": n, "log_timestamp": at} for n, at in enumerate(moments)]
    shares = [place | {"partition": place["log_offset"], "value": snapshot} for place in places]
    value = json.dumps({"transactionStatus": 0, "transactionTimeoutMs": 1})
    ids = [place | {"transactional_id": str(place["log_offset"]), "value": value} for place in places]
    return {
        "share_group_state_records": table_rows("share_group_state_records", *shares),
        "transaction_state_records": table_rows("transaction_state_records", *ids),
    }


def literal(moment: datetime) -> str:
    return f"TIMESTAMPTZ '{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}Z'"


def calls(function: str, name: str, moments: list[datetime]) -> Iterator[str]:
    """Queries that call the function for each moment: the name is a column's, an alias's, a WITH's."""
    values = ", ".join(f"({number}, {literal(moment)})" for number, moment in enumerate(moments))
    asked = f"(SELECT {CASES[function]} FROM {function}"
    for given, argument in ((f'caller(kgt_n, "{name}")', f'"{name}"'), (f'"{name}"(kgt_n, kgt)', f'"{name}".kgt')):
        yield f"SELECT r.* FROM (VALUES {values}) AS {given}, LATERAL {asked}({argument})) r ORDER BY kgt_n"
    each = " UNION ALL ".join(f"SELECT {n} AS kgt_n, * FROM {asked}({literal(at)})) r" for n, at in enumerate(moments))
    yield f'WITH "{name}" AS (SELECT 1 AS log_offset) SELECT * EXCLUDE (kgt_n) FROM ({each}) ORDER BY kgt_n'


def test_every_function_is_called() -> None:
    assert {*CASES, *SCALAR} == set(FUNCTIONS)
    names = {*names_inside("groups_as_of", "expiring"), "moments", "records"}
    assert {"log_offset", "expires_at", "numbered", "group_versions", "audits", *ONCE_WRONG} <= names


@pytest.mark.parametrize("function", some_of(2, *CASES))
def test_table_functions(
    lake: duckdb.DuckDBPyConnection, moments: list[datetime], function: str, chosen: Chosen
) -> None:
    expected = [
        lake.execute(f"SELECT {CASES[function]} FROM {function}({literal(at)})").fetchall()[0] for at in moments
    ]
    assert len(set(expected)) == 3 or function in ("pending_offsets_as_of", "expiring", "state_known_as_of")
    for name in chosen.some([*names_inside(function), *ONCE_WRONG], 1):
        for query in calls(function, name, moments):
            assert lake.execute(query).fetchall() == expected, query


def test_scalar_functions(lake: duckdb.DuckDBPyConnection, chosen: Chosen) -> None:
    calls = "java_hash('orders'), offsets_partition_of('orders', 50), offsets_partition_of('orders', 7)"
    [(hash_of, of_50, of_7)] = lake.execute(f"SELECT {calls}").fetchall()
    [(partitions,)] = lake.execute("SELECT offsets_partition_count()").fetchall()
    for name in chosen.some(
        names_inside(*SCALAR), 2, always=("text", "letter", "unit", "hash", "group_id", "known", "groups", "begins")
    ):
        one = f"""SELECT java_hash("{name}"), offsets_partition_of("{name}", 50) FROM (SELECT 'orders' AS "{name}")"""
        assert lake.execute(one).fetchall() == [(hash_of, of_50)], name
        other = f"""SELECT offsets_partition_of('orders', "{name}") FROM (SELECT 7 AS "{name}")"""
        assert lake.execute(other).fetchall() == [(of_7,)], name
        moment = f"""SELECT known_as_of("{name}") FROM (SELECT TIMESTAMPTZ '1999-01-01 00:00Z' AS "{name}")"""
        assert lake.execute(moment).fetchall() == [("before",)], name
        hidden = f"""WITH "{name}" AS (SELECT 1 AS x) SELECT offsets_partition_count() FROM "{name}\""""
        assert lake.execute(hidden).fetchall() == [(partitions,)], name


@pytest.mark.spark
def test_spark_takes_values(spark: SparkSession, moments: list[datetime], chosen: Chosen) -> None:
    """Its functions are not texts. It does not take columns of other tables (LATERAL) as their arguments at all."""
    tables = tables_of("kip848-4.3")
    more = {"audits": ledger({}), "offset_expiry": waiting(tables["committed_offsets"])}
    views = InSpark(spark, tables | more)
    given = f"TIMESTAMP '{moments[1].astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}Z'"
    for function in ("groups_as_of", "expiring"):
        asked = f"SELECT {CASES[function]} FROM {function}"
        [expected] = views.sql(f"{asked}({given})").collect()
        for name in chosen.some(("log_timestamp", "group_versions", "offset_expiry", "until"), 1):
            argument = f"(SELECT `{name}` FROM (SELECT {given} AS `{name}`))"
            [row] = views.sql(f"WITH `{name}` AS (SELECT 1 AS log_offset) {asked}({argument})").collect()
            assert row == expected, name
