"""Records of quarantine decoded again: their transactions are those that quarantine has."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kgroups_spark.replay.history_rows import decodable
from kgroups_spark.replay.range_decoder import decoded_again
from tests.lake.table_rows import rows_of
from tests.logs.planned_batches import commits


@pytest.mark.parametrize(
    ("producer_id", "said", "expected"), [(7, True, True), (7, False, False), (None, False, False)]
)
def test_a_commit_is_of_a_transaction_as_quarantine_says(
    producer_id: int | None, said: bool | None, expected: bool
) -> None:
    ((key, value),) = commits(1)
    place = {"offsets_partition": 3, "log_offset": 5, "log_timestamp": None, "producer_id": producer_id}
    rows = rows_of("quarantine", {**place, "is_transactional": said, "raw_key": key, "raw_value": value})
    found = {name: table.to_pylist() for name, table in decoded_again(rows, 3, audit_id=2)}
    (commit,) = found["offset_commits"]
    names = ("log_offset", "is_transactional", "producer_id", "producer_epoch")
    assert tuple(commit[name] for name in names) == (5, expected, producer_id, None)
    (traffic,) = found["group_traffic"]
    assert (traffic["commits"], traffic["transactional_commits"]) == (1, int(expected))


def test_records_keep_their_times_and_come_in_log_order() -> None:
    ((key, value),) = commits(1)
    at = datetime(2026, 11, 16, 6, 30, 15, 123_000, UTC)
    record = {"producer_id": None, "is_transactional": False, "raw_key": key}
    rows = rows_of(
        "quarantine",
        {**record, "log_offset": 7, "log_timestamp": at, "raw_value": value},
        {**record, "log_offset": 5, "log_timestamp": None, "raw_value": None},
    )
    names = ("offsets_partition", "log_offset", "log_timestamp", "committed_offset")
    found = [table.to_pylist() for name, table in decoded_again(rows, 3, audit_id=2) if name == "offset_commits"]
    assert [[tuple(row[name] for name in names) for row in lot] for lot in found] == [
        [(3, 5, None, None), (3, 7, at, 5)]
    ]


def test_only_unresolved_single_records_with_a_key_may_be_decoded_again() -> None:
    one = {"record_count": 1, "raw_key": b"k", "reason": "unknown_record_type"}
    others = ({"reason": "corrupt_batch"}, {"record_count": 0}, {"raw_key": None}, {"resolved_by": 3})
    rows = rows_of("quarantine", *({**one, "log_offset": at, **other} for at, other in enumerate((*others, {}))))
    assert decodable(rows)["log_offset"].to_pylist() == [len(others)]
