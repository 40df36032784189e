"""Comparisons of small lakes."""

from __future__ import annotations

from typing import Any

from kgroups_spark.compare.comparison import Comparison, Side, compare
from kgroups_spark.lake.lake import Lake
from tests.logs.log_files import Files
from tests.nights.nights_here import audit
from tests.protocol.local_spark import in_memory

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
