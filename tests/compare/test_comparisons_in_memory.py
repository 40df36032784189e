"""Comparisons of small lakes."""

from __future__ import annotations

import struct
from typing import Any

from kgroups_spark.compare.comparison import Comparison, Side, compare
from kgroups_spark.compare.differences import GROUP
from kgroups_spark.lake.lake import Lake
from tests.logs.dense_logs import text
from tests.logs.log_files import Files
from tests.nights.nights_here import audit
from tests.protocol.local_spark import in_memory
from tests.records.build import batch

DAY_MS = 86_400_000
SEGMENT = "__consumer_offsets-0/00000000000000000000.log"


def compared(files: Files, a: str, b: str, **more: Any) -> Comparison:
    audited = audit(files)
    with in_memory():
        lake = Lake.open(audited.session, audited.lake)
        return compare(lake, Side(a, DAY_MS), Side(b, DAY_MS), 0, progress=lambda _: None, **more)


def test_a_log_without_records_has_no_differences() -> None:
    found = compared({SEGMENT: b""}, "4.3", "3.9")
    assert (found.partitions, found.differences, found.facts[0].failing) == (0, [], {})


def test_groups_of_a_partition_that_does_not_load_are_counted_as_the_other_release_has_them() -> None:
    """2.0 cannot read any of these offsets, so by its rules there would be no group."""
    slots = [struct.pack(">h", 1) + text("g") + text("t") + struct.pack(">i", number) for number in range(3)]
    value = struct.pack(">hqi", 3, 7, -1) + text("") + struct.pack(">q", 1000)
    found = compared({SEGMENT: batch(0, [(slot, value) for slot in slots])}, "4.3", "2.0")
    assert [(each.unserved_groups, each.unserved_offsets, [*each.failing]) for each in found.facts] == [
        (0, 0, []),
        (1, 3, [0]),
    ]
    assert [each.group_id for each in found.differences if each.difference == GROUP] == ["g"]
