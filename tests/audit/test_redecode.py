"""Records of quarantine decoded again: what quarantine says of their transactions holds."""

from __future__ import annotations

import pytest

from kgroups_spark.history.redecode import _decoded
from tests.audit.test_plan import commits


@pytest.mark.parametrize(
    ("producer_id", "said", "expected"), [(7, True, True), (7, False, False), (7, None, True), (None, None, False)]
)
def test_a_commit_is_of_a_transaction_as_quarantine_says(
    producer_id: int | None, said: bool | None, expected: bool
) -> None:
    ((key, value),) = commits(1)
    place = {"offsets_partition": 3, "log_offset": 5, "log_timestamp": None, "producer_id": producer_id}
    rows = [{**place, "is_transactional": said, "raw_key": key, "raw_value": value}]
    found = {name: table.to_pylist() for name, table in _decoded(rows, audit_id=2)}
    (commit,) = found["offset_commits"]
    names = ("log_offset", "is_transactional", "producer_id", "producer_epoch")
    assert tuple(commit[name] for name in names) == (5, expected, producer_id, None)
    (traffic,) = found["group_traffic"]
    assert (traffic["commits"], traffic["transactional_commits"]) == (1, int(expected))
