"""open_transactions.is_hanging: by age alone where `__transaction_state` was not read, else by Kafka's rule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kgroups_spark.audit.state_log_plan import named_table
from kgroups_spark.tables.columns import Condition
from tests.lake.table_rows import rows_of
from tests.nights.story import story

OURS = {"topic": "__consumer_offsets", "partition": 0}
OTHERS = [{"topic": "orders", "partition": 0}, {"topic": "__consumer_offsets", "partition": 1}]


class ListedLake:
    """A lake that has only rows of transactional_ids."""

    def __init__(self, *listed: dict[str, Any]) -> None:
        self.listed = rows_of(
            "transactional_ids", *({"state": "Ongoing", "timeout_ms": 60_000} | row for row in listed)
        )

    def rows(self, table: str, columns: list[str], conditions: list[Condition]) -> Any:
        assert table == "transactional_ids"
        return self.listed.select(columns)


@pytest.mark.parametrize(
    ("listed", "is_hanging"),
    [
        ([], True),
        ([{"topic_partitions": [OURS, *OTHERS]}], False),
        ([{"topic_partitions": OTHERS}], True),
        ([{"topic_partitions": [], "timeout_ms": 2147483647}], False),
        ([{"topic_partitions": [OURS], "state": "Dead"}], True),
        ([{"topic_partitions": [OURS], "producer_id": 8}], True),
    ],
)
def test_an_old_transaction_that_the_coordinator_will_end_does_not_hang(
    listed: list[dict[str, Any]], is_hanging: bool
) -> None:
    row = {"producer_id": 7, "offsets_partition": 0, "open_since": datetime(2026, 1, 1, tzinfo=UTC)}
    opened = rows_of("open_transactions", *(row | {"is_hanging": old} for old in (True, False, None)))
    lake = ListedLake(*({"producer_id": 7} | each for each in listed))
    named = named_table(lake, opened)  # type: ignore[arg-type]
    assert named["is_hanging"].to_pylist() == [is_hanging, False, None]


def test_without_that_log_an_old_transaction_hangs_and_a_young_one_does_not() -> None:
    opened = story().table("open_transactions").to_pylist()
    assert sorted((row["producer_id"], row["is_hanging"]) for row in opened) == [(4010, True), (4015, False)]
