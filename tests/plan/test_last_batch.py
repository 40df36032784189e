"""Damage in the header of the log's last batch, whose offset and leader epoch no checksum covers.

The audit that meets it loses nothing, and the next one, of the sound log, ends where it would have ended anyway.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from kgroups_spark.plan.audit_plan import AnotherLog
from kgroups_spark.records.headers import HEADER_BYTES
from tests.chosen import Chosen
from tests.nights.changing_segments import PLANNED, Broker, Lake, commit, state

UNCOVERED_BITS = range(8 * 17)  # base offset, length, leader epoch, magic
HEADER_BITS = range(8 * HEADER_BYTES)


def flip(path: Path, at: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[at + bit // 8] ^= 0x80 >> bit % 8
    path.write_bytes(data)


@pytest.fixture(autouse=True)
def long_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is planned stands in the active segment."""
    monkeypatch.setattr(Broker, "segment", 24)


def test_any_bit_of_the_last_header(tmp_path: Path, chosen: Chosen) -> None:
    for bit in chosen.some(HEADER_BITS, 6, always=[*chosen.some(UNCOVERED_BITS, 4)]):
        broker = Broker(tmp_path / str(bit))
        lake = Lake(broker)
        active = max(broker.log.glob("*.log"))
        sound = active.read_bytes()
        flip(active, len(sound) - len(commit(0)), bit)
        lake.audit()
        assert lake.next_offset in (PLANNED - 1, PLANNED), bit
        assert (lake.next_offset == PLANNED) == (PLANNED - 1 in lake.offsets), bit
        active.write_bytes(sound)
        for end in (PLANNED, PLANNED, PLANNED + 9):
            broker.append(end - broker.written)
            lake.audit()
            assert sorted(lake.offsets) == list(range(end)), bit
            assert (lake.next_offset, lake.state()) == (end, state(end)), bit


def test_an_offset_that_jumps_is_held_back_and_named(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    lake = Lake(broker)
    active = max(broker.log.glob("*.log"))
    flip(active, active.stat().st_size - len(commit(0)), 63 - 3)
    for _ in range(2):
        lake.audit()
        assert (lake.next_offset, lake.damage) == (PLANNED - 1, [])
        assert "it says offset 28, 8 behind the end of the batch before it" in lake.unconfirmed[0]


def test_an_epoch_that_jumps_is_held_back_until_a_batch_behind_confirms_it(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    lake = Lake(broker)
    active = max(broker.log.glob("*.log"))
    at = active.stat().st_size - len(commit(0))
    flip(active, at, 8 * 12 + 8)
    lake.audit()
    assert (lake.next_offset, len(lake.unconfirmed)) == (PLANNED - 1, 1)
    assert "it says leader epoch 8388611, the batch before it 3" in lake.unconfirmed[0]
    data = bytearray(commit(PLANNED))
    data[12:16] = struct.pack(">i", 8388611)
    active.write_bytes(active.read_bytes() + data)
    lake.audit()
    assert (lake.next_offset, lake.unconfirmed) == (PLANNED + 1, [])


def test_a_gap_in_a_segment_that_was_cleaned_is_normal(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    for path in broker.log.glob("*.log"):
        path.unlink()
    broker.path(0).write_bytes(b"".join(commit(number) for number in (0, 1, 2, 7, 400)))
    lake = Lake(broker)
    lake.audit()
    assert (lake.next_offset, lake.unconfirmed) == (401, [])


def test_batches_of_a_segment_lie_between_its_name_and_the_next_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: Chosen
) -> None:
    monkeypatch.setattr(Broker, "segment", 6)
    broker = Broker(tmp_path)
    first = broker.path(6)
    sound = first.read_bytes()
    for bit in chosen.some(range(64), 16):
        lake = Lake(broker)
        first.write_bytes(sound)
        flip(first, len(sound) - len(commit(0)), bit)
        lake.audit()
        assert sorted(lake.offsets) == [n for n in range(PLANNED) if n != 11], bit
        assert len(lake.damage) == 1


def test_an_epoch_that_was_damaged_after_it_was_read(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    lake = Lake(broker)
    lake.audit()
    active = max(broker.log.glob("*.log"))
    flip(active, 0, 8 * 12 + 20)
    broker.append(1)
    lake.audit()
    assert lake.next_offset == PLANNED + 1


def test_a_lake_that_believed_a_damaged_offset_is_reported_so(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    lake = Lake(broker)
    lake.audit()
    (progress,) = lake.last.partitions or ()
    believed = replace(progress, last_batch_offset=5000, end_offset=5001)
    lake.last = replace(lake.last, partitions=(believed,))
    with pytest.raises(AnotherLog, match=r"under offset 5000 that stands at offset 20 of .*: its header was damaged"):
        lake.audit()
