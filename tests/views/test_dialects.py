"""Views in Spark agree with those in DuckDB, column by column: on logs made by hand, and on all recorded ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import duckdb
import pytest

from kgroups_spark.sql.spark_sql import spark_sql
from kgroups_spark.sql.views import FUNCTIONS, definition
from tests.chosen import one_of, some_of
from tests.cli.written_lake import ledger
from tests.lake.table_rows import MOMENT, rows_of
from tests.views import fixtures, recorded
from tests.views.arrow_tables import InSpark, comments, in_duckdb, shape
from tests.views.arrow_tables import rows_of as rows_as_given

# Views, and tables with rows for each.
HANDMADE = {
    **{
        view: partial(fixtures.tables_of, view)
        for view in (
            "coverage",
            "dead_letters",
            "eos_style",
            "expiry_outcomes",
            "group_member_history",
            "group_topics",
            "handovers",
            "lag",
            "migration",
            "partition_owners",
            "rebalances",
            "redeliveries",
            "share_windows",
            "topic_health",
            "topic_ids",
            "unstable_periods",
            "waiting_partitions",
        )
    },
    "share_lag": partial(fixtures.tables_of, "lag"),
    "stale_offsets": partial(fixtures.tables_of, "topic_ids"),
    "lag_history": partial(fixtures.tables_of, "lag_history"),
    "all_events": partial(fixtures.tables_of, "departures"),
    "unused_groups": partial(fixtures.tables_of, "cleanup"),
    "group_settings": partial(fixtures.tables_of, "group_settings"),
    "member_timeouts": partial(fixtures.tables_of, "group_settings"),
    "broker_load": partial(fixtures.tables_of, "broker_load"),
}


@pytest.mark.parametrize("name", some_of(3, *HANDMADE))
def test_dialects_agree_on_logs_made_by_hand(spark, name):
    assert compared(InSpark(spark, HANDMADE[name]()), name).num_rows > 2


# The recordings have no stale committed offset, and no audit before.
RECORDED = ("group_topics", "rebalances", "topic_health", "topic_ids", "unstable_periods", "effective_commits")
RECORDED += ("offset_history", "partition_owners", "transactions", "group_history", "group_member_history")
# Those of the two other logs have a test of their own (test_state_as_of.py).
AS_OF = [name for name in FUNCTIONS if name.endswith("_as_of") and "offsets_partition" in definition(name).columns]


@pytest.mark.in_turn("recorded logs")
@pytest.mark.parametrize("name", one_of(*RECORDED))
def test_dialects_agree_on_recorded_logs(spark, name):
    """All corpora and the story in one lake."""
    assert compared(InSpark(spark, recorded.tables_of_all()), name).num_rows > 10


@pytest.mark.in_turn("a moment of recorded logs")
@pytest.mark.parametrize("name", one_of(*AS_OF))
def test_functions_of_a_moment_agree_on_recorded_logs(spark, name):
    tables = recorded.tables_of_all()
    times = sorted(time for time in tables["offset_commits"]["log_timestamp"].to_pylist() if time is not None)
    late = f"'{times[len(times) * 19 // 20]:%Y-%m-%d %H:%M:%S.%f}Z'"
    query = f"SELECT * FROM {name}(TIMESTAMP {late})"
    by_spark = rows_as_given(InSpark(spark, tables), query)
    assert by_spark == rows_as_given(in_duckdb(tables), query.replace("TIMESTAMP ", "TIMESTAMPTZ ")) != []


def test_the_audit_whose_findings_count_is_the_last_one_that_looked(spark):
    looked = [
        ("finished", {"findings": 3}),
        ("finished", {"findings": 0}),
        ("finished", {}),
        ("running", {"findings": 1}),
    ]
    rows = [{"audit_id": n, "status": status, "rows_added": added} for n, (status, added) in enumerate(looked, 1)]
    assert asked(spark, rows) == [2]
    assert asked(spark, rows[2:]) == []


# States kept before log offset 3, later before 5, in both logs; and rows that are none.
KEPT = [
    {"offsets_partition": number, "log": log, "log_offset": log_offset, "reason": reason}
    for log in (None, "__share_group_state")
    for number, log_offset, reason in ((0, 3, "keep"), (0, 5, "keep"), (0, 9, "night"), (1, 9, "keep"))
]


def test_history_does_not_begin_at_one_broken_old_time(spark):
    times = [datetime(1970, 1, 1, tzinfo=UTC), *(MOMENT + timedelta(hours=5 * number) for number in range(9)), None]
    records = [{"offsets_partition": 0, "log_offset": number, "log_timestamp": at} for number, at in enumerate(times)]
    of_logs = [{"log": "__share_group_state", "state_partition": 0} | record for record in records]
    read = {"offsets_partition": 0, "start_offset": 0, "end_offset": 11, "records": 11, "records_reread": 0}
    tables = {
        "audits": ledger({"partitions": [read | {"topic": topic} for topic in (None, "__share_group_state")]}),
        "quarantine": rows_of("quarantine", *records),
        "state_quarantine": rows_of("state_quarantine", *of_logs),
        "checkpoints": rows_of("checkpoints", *KEPT),
    }
    views = InSpark(spark, tables)
    rows = [row for name in ("known_histories", "known_history") for row in compared(views, name).to_pylist()]
    # The record before the kept state of log offset 5 is the newest one of those.
    assert [(row["begins"], row["reduced_to"]) for row in rows] == [(MOMENT, MOMENT + timedelta(hours=5 * 3))] * 3


def test_past_the_end_of_a_list_there_is_nothing(spark):
    """Spark's own brackets raise there, and it may ask them of rows that a filter leaves out."""
    query = """SELECT [7][2] AS "next", from_json('[["a"]]', '[["VARCHAR"]]')[1][2] AS "inner" """
    assert spark.sql(spark_sql(query)).collect() == duckdb.sql(query).fetchall() == [(None, None)]


def asked(spark, audits):
    of_ledger = {"audits": rows_of("audits", *audits)}
    return compared(InSpark(spark, of_ledger), "findings_audit")["audit_id"].to_pylist()


def compared(views, name):
    """Names, types, comments and rows by both; gives the rows."""
    with in_duckdb(views.tables) as connection:
        one = connection.sql(f"SELECT * FROM {name}").to_arrow_table()
    view = views.sql(f"SELECT * FROM {name}")
    other = view.toArrow()
    assert one.column_names == other.column_names
    assert shape(one.schema) == shape(other.schema)
    assert comments(name) == {field.name: field.metadata["comment"] for field in view.schema}
    rows = sorted(map(repr, one.cast(other.schema).to_pylist()))
    assert rows == sorted(map(repr, other.to_pylist()))
    assert len(set(rows)) == len(rows)
    return one
