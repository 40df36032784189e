"""View expiry_outcomes: the outcomes of the previous audit's decisions that the log has shown."""

from __future__ import annotations

import random

import pytest

from kgroups_spark.tables.schemas import arrow_schema
from tests.chosen import some_of
from tests.views.arrow_tables import in_duckdb, rows_of
from tests.views.outcome_cases import CASES, SLOT, at, expected_rows, tables_of
from tests.views.random_logs import RandomLog, expected_outcomes
from tests.views.random_logs import tables_of as tables_of_logs

QUERY = "SELECT offsets_partition, decision, outcome, outcome_log_offset, removed_after_ms FROM expiry_outcomes"


def test_each_case_has_its_outcome() -> None:
    found = rows_of(in_duckdb(tables_of(CASES)), QUERY)
    assert sorted(found, key=lambda row: row["offsets_partition"]) == expected_rows(CASES)


def test_a_row_says_who_decided_what_and_why() -> None:
    (row,) = rows_of(in_duckdb(tables_of(CASES[:1])), "SELECT * FROM expiry_outcomes")
    assert row == {
        "audit_id": 1,
        "offsets_partition": 0,
        **SLOT,
        "committed_offset": 5,
        "decision": "expire",
        "reason": "as then",
        "expires_at": at(90),
        "outcome": "removed",
        "outcome_log_offset": 150,
        "outcome_timestamp": at(150),
        "removed_after_ms": 60_000,
    }


def test_without_a_previous_audit_there_are_no_rows() -> None:
    tables = tables_of(CASES) | {"previous_offset_expiry": arrow_schema("previous_offset_expiry").empty_table()}
    assert rows_of(in_duckdb(tables), "SELECT * FROM expiry_outcomes") == []


@pytest.mark.parametrize("seed", some_of(3, *range(10)))
def test_outcomes_in_random_logs_equal_those_of_the_coordinator(seed: int) -> None:
    logs = [RandomLog(100 * seed + partition, partition) for partition in range(30)]
    choice = random.Random(seed)
    expire = {(log.partition, slot) for log in logs for slot in log.decided if choice.random() < 0.5}
    tables = tables_of_logs(logs, expire)
    seen = {
        (row["offsets_partition"], (row["group_id"], row["topic"], row["partition"])): (
            row["outcome"],
            row["outcome_log_offset"],
        )
        for row in rows_of(in_duckdb(tables), "SELECT * FROM expiry_outcomes")
    }
    assert seen == expected_outcomes(logs, expire)
