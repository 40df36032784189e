"""Comparisons of small lakes."""

from __future__ import annotations

import struct

import pytest

from kgroups_spark.audit.comparison import Comparison, Side, compare
from kgroups_spark.audit.differences import EXPIRY_RULES, GROUP, GROUP_EXPIRY
from kgroups_spark.lake.lake import Lake
from tests.logs.dense_logs import text
from tests.logs.log_files import Files, read_zip, segments_of
from tests.nights.nights_here import audit
from tests.protocol.fake_delta import in_memory
from tests.recorded_logs import CORPORA
from tests.records.build import batch

DAY_MS = 86_400_000
SEGMENT = "__consumer_offsets-0/00000000000000000000.log"


def partition_of(corpus: str, number: int) -> Files:
    """One offsets partition of a recording."""
    files = read_zip(CORPORA)[corpus]
    return {path: files[path] for path in segments_of(files)[number]}


def compared(files: Files, a: str, b: str, *, retention_ms: tuple[int, int] = (DAY_MS, DAY_MS)) -> Comparison:
    audited = audit(files)
    sides = [Side(*side) for side in zip((a, b), retention_ms, strict=True)]
    with in_memory():
        lake = Lake.open(audited.session, audited.lake)
        return compare(lake, *sides, 0, progress=lambda _: None)


def whys(found: Comparison, kind: str) -> set[tuple[str, str | None]]:
    """The decisions of this kind that follow from no other difference: the field that differs, and why."""
    rows = [each for each in found.differences if each.difference == kind and each.follows_from is None]
    return {(each.what, each.why) for each in rows}


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


@pytest.mark.parametrize(
    ("versions", "ends_with"),
    [
        ("a3 a1", "version 3 for 1 type; newer records of the same keys follow, Kafka's cleaner may have removed it"),
        ("a3 a3 a1 b3 b1", "(and 2 more); newer records of the same keys follow, Kafka's cleaner may have removed it"),
        ("a3 a1 b3", "version 3 for 1 type (and 1 more)"),
        ("a3 a3", "version 3 for 1 type (and 1 more)"),
        ("a1 a3 b1", "version 3 for 1 type"),
        ("a3 a1 ??", "version 3 for 1 type (and 1 more)"),
    ],
)
def test_a_failed_load_is_reported_at_its_first_record(versions: str, ends_with: str) -> None:
    """2.0 cannot read value version 3. A newer record of the key that it can read may have replaced the failing one."""
    values = {
        "1": struct.pack(">hq", 1, 7) + text("") + struct.pack(">qq", 1000, -1),
        "3": struct.pack(">hqi", 3, 7, -1) + text("") + struct.pack(">q", 1000),
        "?": b"",
    }
    records = [
        (struct.pack(">h", 1) + text("g") + text(topic) + struct.pack(">i", 0), values[version])
        for topic, version in versions.split()
    ]
    found = compared({SEGMENT: batch(0, records)}, "4.3", "2.0").facts
    first = versions.split().index("a3")
    detail = found[1].failing[0]
    assert detail.startswith(f"log offset {first}: OffsetCommit (type 1) of group g: ")
    assert detail.endswith(ends_with)
    assert found[1].compacted_perhaps == ({0} if "cleaner" in ends_with else set())


def test_a_rule_that_counts_once_the_offsets_are_gone_is_a_cause() -> None:
    """The group has offsets by both, so the reason of both is `offsets_left`, but one never deletes it."""
    found = compared(partition_of("scala-3.9-reloaded", 3), "3.2", "3.7-java")
    assert ("deletes_at", EXPIRY_RULES["open_transaction"]) in whys(found, GROUP_EXPIRY)


def test_a_corrupt_batch_does_not_stop_the_load_of_either_release() -> None:
    """No release checks a CRC when it loads."""
    slots = [struct.pack(">h", 1) + text("g") + text(topic) + struct.pack(">i", 0) for topic in "tu"]
    value = struct.pack(">hqi", 3, 7, -1) + text("") + struct.pack(">q", 1000)
    damaged = bytearray(batch(0, [(slots[0], value)]))
    damaged[-3] ^= 1
    found = compared({SEGMENT: bytes(damaged) + batch(1, [(slots[1], value)])}, "4.3", "3.9")
    assert [[*each.failing] for each in found.facts] == [[], []]
    empty = compared({SEGMENT: batch(0, [(slots[0], b"")])}, "4.3", "3.9")
    assert [[*each.failing] for each in empty.facts] == [[0], [0]]
