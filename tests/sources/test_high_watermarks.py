"""Nothing is read at or above the high watermark that a log directory has for a partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroups_spark.audit.plan import plan_audit
from kgroups_spark.errors import UsageError
from kgroups_spark.sources.segments import committed_offsets, parse_checkpoint
from tests.chosen import some_of
from tests.logs.segment_logs import segment_logs
from tests.nights.changing_segments import Broker, Lake
from tests.sources.checkpoints import TOPIC, write_checkpoint


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_checkpoint_counts_as_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "replication-offset-checkpoint").write_text(text)
    assert parse_checkpoint(text, "") is None
    assert committed_offsets(str(tmp_path)) is None
    write_checkpoint(tmp_path, 21)
    (tmp_path / "cleaner-offset-checkpoint").write_text(text)
    assert committed_offsets(str(tmp_path)) == {(TOPIC, 0): 21}


def test_offsets_that_the_cleaner_has_cleaned_are_committed(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 21, 30)
    write_checkpoint(tmp_path, 25, 7, 9, name="cleaner-offset-checkpoint")
    assert committed_offsets(str(tmp_path)) == {(TOPIC, 0): 25, (TOPIC, 1): 30}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1\n0\n", "line 1 is '1', version 0 is known"),
        ("\x00\x00", "line 1 is"),
        ("0\n", "it ends early"),
        ("0\nmany\n", "line 2 is 'many', not a number of entries"),
        ("0\n2\na 0 5\n", "it has 1 entries, of 1 partitions, and says 2"),
        ("0\n1\na 0 5\na 1 5\n", "it has 2 entries, of 2 partitions, and says 1"),
        ("0\n2\na 0 5\na 0 5\n", "it has 2 entries, of 1 partitions, and says 2"),
        ("0\n1\na 0\n", "line 3 is 'a 0', not a topic, a partition and an offset"),
        ("0\n1\na 0 -5\n", "line 3 is 'a 0 -5'"),
        ("0\n1\na 0 5 6\n", "line 3 is"),
    ],
)
def test_a_damaged_checkpoint_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"/log/checkpoint is damaged: {why}.*copy it again"):
        parse_checkpoint(text, "/log/checkpoint")


@pytest.mark.parametrize("committed", some_of(5, *range(4, 22)))
def test_nothing_is_read_above_the_high_watermark(committed: int, tmp_path: Path) -> None:
    lake = Lake(Broker(tmp_path))
    write_checkpoint(tmp_path, committed)
    for uncommitted in (21 - committed, 21 - committed):
        lake.audit()
        assert (sorted(lake.offsets), lake.next_offset, lake.uncommitted) == (
            [*range(committed)],
            committed,
            uncommitted,
        )
    write_checkpoint(tmp_path, 21)
    lake.audit()
    assert (sorted(lake.offsets), lake.next_offset, lake.uncommitted) == ([*range(21)], 21, 0)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_the_high_watermark_counts_if_a_partitions_folder_is_given_with_a_slash_at_its_end(
    tmp_path: Path, scheme: str
) -> None:
    broker = Broker(tmp_path)
    write_checkpoint(tmp_path, 8)
    (partition,) = plan_audit(segment_logs([f"{scheme}{broker.log}/"]), None).partitions
    assert partition.new is not None
    assert partition.new.end_offset == 8


def test_reading_goes_beyond_the_planned_end_while_files_change(tmp_path: Path) -> None:
    """The cleaner may have removed a record because of a newer one above the high watermark at planning."""
    broker = Broker(tmp_path)
    write_checkpoint(tmp_path, 21)
    plan = plan_audit(segment_logs([str(tmp_path)]), None)
    for _ in broker.merges():
        pass
    write_checkpoint(tmp_path, broker.written)
    lake = Lake(broker)
    lake.offsets = []
    for log_range in plan.new_ranges:
        lake.read(log_range)
    assert {offset % 5: offset for offset in lake.offsets} == {number % 5: number for number in range(30)}
