"""View expiry_outcomes: what the log has shown of what the audit before decided, in both dialects."""

from __future__ import annotations

import pytest

from kgroups_spark.tables.schemas import arrow_schema
from tests.views.arrow_tables import in_duckdb, in_spark, rows_of
from tests.views.outcome_cases import CASES, SLOT, Case, at, expected_rows, tables_of

QUERY = "SELECT offsets_partition, decision, outcome, outcome_log_offset, removed_after_ms FROM expiry_outcomes"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_offset(case: Case) -> None:
    assert rows_of(in_duckdb(tables_of((case,))), QUERY) == expected_rows((case,))


@pytest.mark.spark
def test_all_in_one_lake_by_both_dialects(spark) -> None:
    duck = in_duckdb(tables_of(CASES))
    assert sorted(rows_of(duck, QUERY), key=lambda row: row["offsets_partition"]) == expected_rows(CASES)
    everything = "SELECT * FROM expiry_outcomes"
    assert rows_of(in_spark(spark, tables_of(CASES)), everything) == rows_of(duck, everything)


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


def test_without_an_audit_before_there_is_nothing_to_say() -> None:
    tables = tables_of(CASES) | {"previous_offset_expiry": arrow_schema("previous_offset_expiry").empty_table()}
    assert rows_of(in_duckdb(tables), "SELECT * FROM expiry_outcomes") == []
