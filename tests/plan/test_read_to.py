"""How far an audit read a partition, as the ledger has it; and the offsets that it left because they may vanish."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kgroups_spark.audit.plan import (
    STALE_MS,
    AuditPlan,
    PartitionPlan,
    Uncommitted,
    missing_files_note,
    not_read_now,
    read_now,
    uncommitted_notes,
    uncommitted_offsets,
)
from kgroups_spark.lake.ledger import PartitionProgress
from kgroups_spark.replay.ranges import RangeProgress
from kgroups_spark.sources.partition_log import PartitionLog
from kgroups_spark.words import LAST_MS

BEFORE = PartitionProgress(
    3,
    50,
    100,
    records=40,
    records_reread=7,
    bytes=900,
    offsets_missing=10,
    topic_id="t",
    lost_from=40,
    lost_to=50,
    last_batch_offset=98,
    last_leader_epoch=4,
    last_batch_crc=77,
)


class EndedLog(SimpleNamespace):
    """A log that is read up to `readable_to` and ends at `end_offset`; its broker noted epoch 9 alone."""

    def epoch_by_checkpoint(self, _offset: int) -> int:
        return 9

    def asked(self, ask: Any) -> Any:
        return ask(self)


def plan(before: PartitionProgress | None, **more: Any) -> PartitionPlan:
    """Partition 3, from offset 100 on."""
    facts = {
        "partition": 3,
        "topic_id": None,
        "readable_to": None,
        "end_offset": 120,
        "newest_timestamp": None,
    } | more.pop("log", {})
    return PartitionPlan(cast(PartitionLog, EndedLog(**facts)), 20, 100, None, before=before, **more)


def read(number: int, end: int, records: int, **more: Any) -> RangeProgress:
    return RangeProgress(3, number, 100, end, records, size_bytes=10 * records, **more)


def last_batch(progress: PartitionProgress) -> tuple[int | None, int | None, int | None]:
    return progress.last_batch_offset, progress.last_leader_epoch, progress.last_batch_crc


def test_records_offsets_and_the_last_batch_are_those_of_all_ranges_read() -> None:
    with_batch = read(0, 110, 6, last_batch_offset=105, last_leader_epoch=5, epoch_before=5, last_batch_crc=9)
    ranges = [read(-1, 100, 30, last_batch_offset=99, last_leader_epoch=4), with_batch, read(1, 114, 0)]
    assert read_now(plan(BEFORE, lost_from=90), ranges) == PartitionProgress(
        3,
        100,
        114,
        records=36,
        records_reread=30,
        bytes=360,
        offsets_missing=8,
        topic_id="t",
        log_start_offset=20,
        lost_from=90,
        lost_to=100,
        last_batch_offset=105,
        last_leader_epoch=5,
        last_batch_crc=9,
    )
    assert read_now(plan(BEFORE, log={"topic_id": "u"}), ranges).topic_id == "u"
    assert last_batch(read_now(plan(None), ranges)) == (105, 5, 9)


@pytest.mark.parametrize(
    ("epoch", "before", "epochs", "expected"),
    [
        (5, 4, [4, 5], None),
        (5, 4, [5, 5], 5),
        (0, 4, [0, 0], 0),
        (3, 4, [4, 3], None),
        (9, 4, [4, 9], 9),
        # The batch before is that of the range before, or of the audit before.
        (4, 4, [4], 4),
        (5, 4, [5], None),
        (4, None, [4], None),
        (9, None, [9], 9),
    ],
)
def test_an_epoch_counts_if_the_batch_before_or_the_brokers_checkpoint_confirms_it(
    epoch: int, before: int | None, epochs: list[int], expected: int | None
) -> None:
    entry = replace(BEFORE, last_leader_epoch=before)
    together = read(
        0,
        101,
        1,
        last_batch_offset=100,
        last_leader_epoch=epoch,
        epoch_before=epochs[-2] if len(epochs) > 1 else None,
        last_batch_crc=9,
    )
    assert last_batch(read_now(plan(entry), [together])) == (100, expected, 9)
    if len(epochs) > 1:
        apart = [
            read(0, 100, 1, last_batch_offset=99, last_leader_epoch=epochs[0]),
            read(1, 101, 1, last_batch_offset=100, last_leader_epoch=epoch, last_batch_crc=9),
        ]
        assert last_batch(read_now(plan(entry), apart)) == (100, expected, 9)


@pytest.mark.parametrize("epoch", [None, -1])
def test_a_last_batch_of_an_old_message_has_no_leader_epoch(epoch: int | None) -> None:
    ranges = [read(0, 101, 1, last_batch_offset=100, last_leader_epoch=epoch, last_batch_crc=9)]
    assert last_batch(read_now(plan(BEFORE), ranges)) == (100, None, 9)


def test_without_new_batches_the_last_batch_stays() -> None:
    found = read_now(plan(BEFORE), [read(-1, 100, 30, last_batch_offset=99)])
    assert (found.start_offset, found.end_offset, found.offsets_missing) == (100, 100, 0)
    assert last_batch(found) == (98, 4, 77)
    first = read_now(plan(None), [])
    assert (first.end_offset, first.topic_id, *last_batch(first)) == (100, None, None, None, None)


def test_a_partition_that_was_not_read_keeps_its_end() -> None:
    found = not_read_now(BEFORE)
    assert (found.start_offset, found.end_offset, found.lost_from, found.lost_to) == (100, 100, None, None)
    assert (found.records, found.records_reread, found.bytes, found.offsets_missing) == (0, 0, 0, 0)
    assert (found.topic_id, *last_batch(found)) == ("t", 98, 4, 77)


def uncommitted(readable_to: int | None, end: int, **more: Any) -> dict[int, Uncommitted]:
    """The uncommitted offsets of a log that may go on after the range that was read."""
    partition = plan(BEFORE, log={"readable_to": readable_to, "end_offset": end}, **more)
    return uncommitted_offsets(AuditPlan([partition], None), [], LAST_MS)


def test_offsets_at_or_above_the_high_watermark_are_counted() -> None:
    assert uncommitted(110, 120) == {3: (10, 0)}
    assert uncommitted(90, 120) == {3: (20, 0)}  # nothing below 100 is new
    assert uncommitted(120, 120) == {}
    assert uncommitted(None, 120) == {}


def test_the_note_counts_offsets_and_names_partitions() -> None:
    start = (
        "3 offsets of 2 partitions (3, 7) not read: at or above the high watermark in replication-offset-checkpoint, "
    )
    found = {7: Uncommitted(1, 0), 3: Uncommitted(2, STALE_MS)}
    assert uncommitted_notes(found) == [start + "so what is there may vanish when a leader fails"]
    assert uncommitted_notes(found | {3: Uncommitted(2, STALE_MS + 1)}) == [
        start + "it is older than the log of 1 partition (3): copy it again with the log, or delete it"
    ]
    assert uncommitted_notes({}) == []


def missing_files(*ends: tuple[int | None, int]) -> list[str]:
    """The notes on partitions with these high watermarks and ends."""
    plans = [plan(None, log={"partition": n, "readable_to": r, "end_offset": e}) for n, (r, e) in enumerate(ends)]
    return list(missing_files_note(AuditPlan(plans, None)))


def test_offsets_below_the_high_watermark_without_a_segment_file_are_counted() -> None:
    assert missing_files((120, 120), (110, 120), (None, 120)) == []
    assert missing_files((123, 120), (120, 120), (121, 120)) == [
        "4 offsets of 2 partitions (0, 2) are not in the segment files, and below the high watermark in "
        "replication-offset-checkpoint: the files were copied before it, or some are missing"
    ]
