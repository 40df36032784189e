"""Nights over a broker's own folder: its cleaner swaps segments between planning and reading, and its checkpoint of
high watermarks says what is committed (test_changing_segments.py has every moment and every change, without Spark)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.commit_points import audit
from tests.nights.changing_segments import Broker, state
from tests.nights.lakes import assert_every_record_is_in_one_table, rows
from tests.sources.checkpoints import write_checkpoint

pytestmark = pytest.mark.spark


def test_segments_that_the_cleaner_merges_between_planning_and_reading(spark, tmp_path: Path) -> None:
    broker, lake = Broker(tmp_path / "log"), tmp_path / "lake"
    write_checkpoint(tmp_path / "log", 20)
    first = audit(spark, lake, tmp_path / "log")
    assert [note for note in first.audit.notes if note.startswith("1 offset of 1 partition (0) not read: at or above")]
    broker.append(20)
    write_checkpoint(tmp_path / "log", broker.written)
    steps = broker.merges()

    def swap(text: str) -> None:
        if text.startswith("reading"):
            list(steps)
            write_checkpoint(tmp_path / "log", broker.written)

    second = audit(spark, lake, tmp_path / "log", progress=swap, offsets_partitions=3)
    assert (second.shortfall.missing, second.lacks_records) == ((1, 2), True)
    committed = {row["partition"]: row["log_offset"] for row in rows(lake, "committed_offsets")}
    assert committed == state(broker.written)
    assert rows(lake, "quarantine") == []
    (partition,) = second.audit.partitions
    assert (partition.start_offset, partition.end_offset) == (20, broker.written)
    assert_every_record_is_in_one_table(lake)
