"""Functions take their arguments as values, whatever the caller's columns, aliases and WITH are called: DuckDB puts an
argument's text where a macro names it."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, timedelta

import pytest

from kgroups_spark.sql.views import FUNCTIONS, view_sql
from tests.chosen import some_of
from tests.cli.written_lake import ledger, waiting
from tests.views.arrow_tables import InSpark, with_known_history
from tests.views.recorded import tables_of

STATES = ("groups", "group_members", "committed_offsets", "pending_offsets", "share_partitions", "transactional_ids")
CASES = {
    **{f"{name}_as_of": "count(*), sum(log_offset), min(known)" for name in STATES},
    **{f"{name}_as_of": "count(*), sum(end_offset)" for name in ("ends", "log_ends", "state_log_ends")},
    "state_known_as_of": "count(*), min(known)",
    "share_records_as_of": "count(*), sum(log_offset)",
    "share_batches_as_of": "count(*), sum(first_offset), min(known)",
    "expiring": "count(*), sum(log_offset)",
}
SCALAR = ("java_hash", "offsets_partition_of", "offsets_partition_count", "known_as_of")


# Names of columns, tables, and of WITH in the SQL of functions: each of them, and each function's own, was wrong once
# or could be.
NAMES = (
    "moments",
    "records",
    "expires_at",
    "log_timestamp",
    "known",
    "log",
    "group_id",
    "log_offset",
    "begins",
    "audits",
)
NAMES += ("numbered", "topics", "offset_expiry", "text", "letter", "unit", "hash", "groups", "group_versions")


def is_callers(name):
    """No caller's name has our prefix."""
    return bool(name) and not name.startswith("kgroups_")


@pytest.fixture(scope="module")
def moments():
    """Three at which something is different."""
    times = sorted(time for time in tables_of("kip848-4.3")["offset_commits"]["log_timestamp"].to_pylist() if time)
    return [times[len(times) // 4], times[len(times) // 2], times[-1] + timedelta(days=7)]


@pytest.fixture(scope="module")
def lake(moments):
    tables = tables_of("kip848-4.3")
    more = {"audits": ledger({}), "offset_expiry": waiting(tables["committed_offsets"])}
    return with_known_history(tables | more)


def literal(moment):
    return f"TIMESTAMPTZ '{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}Z'"


def calls(function, name, moments):
    """Queries that call the function for each moment: the name is a column's, an alias's, a WITH's."""
    values = ", ".join(f"({number}, {literal(moment)})" for number, moment in enumerate(moments))
    asked = f"(SELECT {CASES[function]} FROM {function}"
    for given, argument in ((f'caller(kgt_n, "{name}")', f'"{name}"'), (f'"{name}"(kgt_n, kgt)', f'"{name}".kgt')):
        yield f"SELECT r.* FROM (VALUES {values}) AS {given}, LATERAL {asked}({argument})) r ORDER BY kgt_n"
    each = " UNION ALL ".join(f"SELECT {n} AS kgt_n, * FROM {asked}({literal(at)})) r" for n, at in enumerate(moments))
    yield f'WITH "{name}" AS (SELECT 1 AS log_offset) SELECT * EXCLUDE (kgt_n) FROM ({each}) ORDER BY kgt_n'


def test_every_function_is_called():
    assert {*CASES, *SCALAR} == set(FUNCTIONS)


@pytest.mark.parametrize("function", some_of(3, *CASES))
def test_table_functions(lake, moments, function, chosen):
    expected = [
        lake.execute(f"SELECT {CASES[function]} FROM {function}({literal(at)})").fetchall()[0] for at in moments
    ]
    own = re.findall(r"\b(\w+) AS \(|\bAS (\w+)\b", view_sql(function, "duckdb"))
    for name in chosen.some(sorted({*NAMES, *filter(is_callers, itertools.chain(*own))}), 2):
        for query in calls(function, name, moments):
            assert lake.execute(query).fetchall() == expected, query


def test_scalar_functions(lake):
    calls = "java_hash('orders'), offsets_partition_of('orders', 50), offsets_partition_of('orders', 7)"
    [(hash_of, of_50, of_7)] = lake.execute(f"SELECT {calls}").fetchall()
    [(partitions,)] = lake.execute("SELECT offsets_partition_count()").fetchall()
    for name in NAMES:
        one = f"""SELECT java_hash("{name}"), offsets_partition_of("{name}", 50) FROM (SELECT 'orders' AS "{name}")"""
        assert lake.execute(one).fetchall() == [(hash_of, of_50)], name
        other = f"""SELECT offsets_partition_of('orders', "{name}") FROM (SELECT 7 AS "{name}")"""
        assert lake.execute(other).fetchall() == [(of_7,)], name
        moment = f"""SELECT known_as_of("{name}") FROM (SELECT TIMESTAMPTZ '1999-01-01 00:00Z' AS "{name}")"""
        assert lake.execute(moment).fetchall() == [("before",)], name
        hidden = f"""WITH "{name}" AS (SELECT 1 AS x) SELECT offsets_partition_count() FROM "{name}\""""
        assert lake.execute(hidden).fetchall() == [(partitions,)], name


@pytest.mark.spark
def test_spark_takes_values(spark, moments, chosen):
    """Its functions are not texts. It does not take columns of other tables (LATERAL) as their arguments at all."""
    tables = tables_of("kip848-4.3")
    more = {"audits": ledger({}), "offset_expiry": waiting(tables["committed_offsets"])}
    views = InSpark(spark, tables | more)
    given = f"TIMESTAMP '{moments[1].astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}Z'"
    for function in chosen.some(("groups_as_of", "expiring"), 1):
        asked = f"SELECT {CASES[function]} FROM {function}"
        [expected] = views.sql(f"{asked}({given})").collect()
        for name in chosen.some(("log_timestamp", "group_versions", "offset_expiry", "until"), 1):
            argument = f"(SELECT `{name}` FROM (SELECT {given} AS `{name}`))"
            [row] = views.sql(f"WITH `{name}` AS (SELECT 1 AS log_offset) {asked}({argument})").collect()
            assert row == expected, name
