"""View unstable_periods over recorded logs, and what brokers said; unstable_periods.txt has its cases."""

from __future__ import annotations

from functools import cache

import pytest

from tests.chosen import some_of
from tests.logs.corpora import ANSWERS
from tests.nights import broker_answers
from tests.views.arrow_tables import in_duckdb
from tests.views.recorded import STORY, tables_of

QUERY = "SELECT * FROM unstable_periods ORDER BY offsets_partition, group_id, topic, partition, from_log_offset"


@cache
def recorded(log):
    with in_duckdb(tables_of(log)) as connection:
        return connection.sql(QUERY).to_arrow_table().to_pylist()


# Scala's loader lets a tombstone take other things with it.
JAVA = sorted(name for name, answer in ANSWERS.items() if "unstable" in answer and answer["release"] >= "4.0")


@pytest.mark.parametrize("log", some_of(3, *JAVA))
def test_offsets_that_are_still_unstable_are_those_that_the_broker_calls_unstable(log):
    still = [row for row in recorded(log) if row["ended_by"] is None]
    ours, said = broker_answers.pending_offsets(lambda _: still, ANSWERS[log])
    assert ours == said


def test_recordings_have_periods_with_every_kind_of_end():
    ends = {row["ended_by"] for row in recorded("transactions-4.3")}
    assert ends == {None, "committed", "aborted", "tombstone"}


def test_the_storys_aborted_and_open_transactions_are_reported_and_no_others():
    reported = {
        (r["group_id"], r["topic"], r["partition"], r["from_log_offset"], r["ended_by"]) for r in recorded("story")
    }
    events = [event for event in STORY["events"] if event["cause"] == "transaction"]
    ended_by = {"transaction_aborted": "aborted", "transaction_open_at_end": None, "transaction_left_open": None}
    happened = {
        (event["group"], event["topic"], partition, place, ended_by[event["what"]])
        for event in events
        for partition, place in zip(event["partitions"], event["log_offsets"], strict=False)
    }
    assert {period for period in reported if period[-1] != "committed"} == happened
    assert len(happened) > 40
