"""Damage in the header of the log's last batch, whose offset and leader epoch no checksum covers.

The audit that meets it loses nothing, and the next one, of the sound log, ends where it would have ended anyway.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from kgroups_spark.plan.audit_plan import AnotherLog
from kgroups_spark.plan.read_to import not_read_now
from kgroups_spark.records.headers import HEADER_BYTES
from kgroups_spark.sources.leader_epochs import LEADER_EPOCHS, epoch_by_checkpoint
from tests.chosen import Chosen
from tests.nights import changing_segments
from tests.nights.changing_segments import PLANNED, READINGS, Broker, Lake, commit, state

UNCOVERED_BITS = range(8 * 17)  # base offset, length, leader epoch, magic
HEADER_BITS = range(8 * HEADER_BYTES)


def flip(path: Path, at: int, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[at + bit // 8] ^= 0x80 >> bit % 8
    path.write_bytes(data)


def audited_with_a_flipped_bit(folder: Path, bit: int) -> tuple[Broker, Lake, Path, bytes]:
    """A lake after an audit while this bit of the last batch was flipped; the active segment and its sound bytes."""
    broker = Broker(folder)
    lake = Lake(broker)
    active = max(broker.log.glob("*.log"))
    sound = active.read_bytes()
    flip(active, len(sound) - len(commit(0)), bit)
    lake.audit()
    return broker, lake, active, sound


def test_any_flipped_bit_of_the_last_header_loses_nothing(
    tmp_path: Path, chosen: Chosen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Broker, "segment", 24)
    for bit in chosen.some(HEADER_BITS, 2, always=[*chosen.some(UNCOVERED_BITS, 2)]):
        broker, lake, active, sound = audited_with_a_flipped_bit(tmp_path / str(bit), bit)
        assert lake.next_offset in (PLANNED - 1, PLANNED), bit
        assert (lake.next_offset == PLANNED) == (PLANNED - 1 in lake.offsets), bit
        active.write_bytes(sound)
        for end in (PLANNED, PLANNED, PLANNED + 9):
            broker.append(end - broker.written)
            lake.audit()
            assert sorted(lake.offsets) == list(range(end)), bit
            assert (lake.next_offset, lake.state()) == (end, state(end)), bit


@pytest.mark.parametrize("segment", [6, 10, 20])
def test_any_flipped_bit_in_a_segment_of_few_batches_is_corrected_by_the_next_audit(
    tmp_path: Path, chosen: Chosen, monkeypatch: pytest.MonkeyPatch, segment: int
) -> None:
    """A wrong offset may be believed there; the next audit replaces what was read under it."""
    monkeypatch.setattr(Broker, "segment", segment)
    for bit in chosen.some(UNCOVERED_BITS, 1, always=[63 - 5]):
        broker, lake, active, sound = audited_with_a_flipped_bit(tmp_path / str(bit), bit)
        active.write_bytes(sound)
        for end in (PLANNED, PLANNED, PLANNED + 9):
            broker.append(end - broker.written)
            lake.audit()
            assert (sorted(lake.offsets), lake.next_offset, lake.state()) == (list(range(end)), end, state(end)), bit


def test_an_offset_that_jumps_is_held_back_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "segment", 24)
    broker = Broker(tmp_path)
    lake = Lake(broker)
    active = max(broker.log.glob("*.log"))
    flip(active, active.stat().st_size - len(commit(0)), 63 - 3)
    for _ in range(2):
        lake.audit()
        assert (lake.next_offset, lake.damage) == (PLANNED - 1, [])
        assert "it says offset 28, 8 after the end of the batch before it" in lake.unconfirmed[0]


def test_an_epoch_that_jumps_is_held_back_until_a_later_batch_confirms_it(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("bit", [25, 26, 30, 31])
def test_a_slightly_damaged_epoch_refuses_no_log_when_the_batch_was_cleaned(
    tmp_path: Path, bit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too high or too low, by less than is odd: the batch's CRC no longer identifies it, as the cleaner took it."""
    monkeypatch.setattr(Broker, "segment", 24)
    broker, lake, active, sound = audited_with_a_flipped_bit(tmp_path, 8 * 12 + bit)
    assert (lake.next_offset, lake.unconfirmed) == (PLANNED, [])
    active.write_bytes(sound)
    broker.append(9)
    data = active.read_bytes()
    active.write_bytes(data.replace(commit(PLANNED - 1), b""))
    lake.audit()
    assert (sorted(lake.offsets), lake.notes) == (list(range(PLANNED + 9)), [])


def test_the_brokers_checkpoint_confirms_the_first_batch_of_a_leader(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    active = max(broker.log.glob("*.log"))
    data = bytearray(active.read_bytes())
    at = len(data) - len(commit(0))
    data[at + 12 : at + 16] = struct.pack(">i", 4)
    active.write_bytes(data)
    for checkpoint, expected in (
        ("0\n2\n3 0\n4 20\n", 4),
        ("0\n1\n3 0\n", None),
        ("0\n2\n3 0\n4 21\n", None),
        ("noise", None),
        (f"0\n1\n{'4' * 5000} 20\n", None),
        ("", None),
    ):
        (broker.log / "leader-epoch-checkpoint").write_text(checkpoint)
        lake = Lake(broker)
        lake.audit()
        (entry,) = lake.last.partitions or ()
        assert entry.last_leader_epoch == expected, checkpoint


def test_an_unreadable_leader_epoch_checkpoint_confirms_nothing(tmp_path: Path) -> None:
    (tmp_path / LEADER_EPOCHS).mkdir()
    assert epoch_by_checkpoint(str(tmp_path), 20) is None


def test_a_gap_in_a_cleaned_segment_is_normal(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    for path in broker.log.glob("*.log"):
        path.unlink()
    broker.path(0).write_bytes(b"".join(commit(number) for number in (0, 1, 2, 7, 400)))
    lake = Lake(broker)
    lake.audit()
    assert (lake.next_offset, lake.unconfirmed) == (401, [])


def test_a_batch_outside_the_offsets_of_its_segment_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: Chosen
) -> None:
    monkeypatch.setattr(Broker, "segment", 6)
    broker = Broker(tmp_path)
    first = broker.path(6)
    sound = first.read_bytes()
    for bit in chosen.some(range(64), 6):
        lake = Lake(broker)
        first.write_bytes(sound)
        flip(first, len(sound) - len(commit(0)), bit)
        lake.audit()
        assert sorted(lake.offsets) == [n for n in range(PLANNED) if n != 11], bit
        assert len(lake.damage) == 1


def test_an_epoch_damaged_after_it_was_read_refuses_no_log(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    lake = Lake(broker)
    lake.audit()
    active = max(broker.log.glob("*.log"))
    flip(active, 0, 8 * 12 + 20)
    broker.append(1)
    lake.audit()
    assert lake.next_offset == PLANNED + 1


def believed(tmp_path: Path) -> tuple[Broker, Lake]:
    """A lake that read the last batch, of offset 18, under offset 50: it was the first of its segment."""
    broker = Broker(tmp_path, written=19)
    lake = Lake(broker)
    active = max(broker.log.glob("*.log"))
    sound = active.read_bytes()
    flip(active, 0, 63 - 5)
    lake.audit()
    assert (lake.next_offset, lake.unconfirmed) == (51, [])
    active.write_bytes(sound)
    return broker, lake


@pytest.mark.parametrize("more", [0, 1, 31, 32, 33, 60])
@pytest.mark.parametrize("segment", [6, 18])
def test_the_next_audit_goes_on_from_the_true_offset_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, segment: int, more: int
) -> None:
    monkeypatch.setattr(Broker, "segment", segment)
    broker, lake = believed(tmp_path)
    broker.append(more)
    lake.audit()
    end = 19 + more
    assert (sorted(lake.offsets), lake.next_offset, lake.state()) == (list(range(end)), end, state(end))
    assert "was read under offset 50, and stands at offset 18: its header was damaged" in lake.notes[0]
    broker.append(2)
    lake.audit()
    assert (sorted(lake.offsets), lake.notes) == (list(range(end + 2)), [])


def test_another_batch_with_the_same_bytes_was_not_read_under_a_wrong_offset(tmp_path: Path) -> None:
    """Both were read under their own offsets, and another one was missing; then the cleaner removes the later one."""
    broker = Broker(tmp_path, written=19)
    broker.path(12).write_bytes(b"".join(map(commit, range(12, 17))))
    lake = Lake(broker)
    broker.path(50).write_bytes(struct.pack(">q", 50) + commit(18)[8:])
    lake.audit()
    assert (lake.next_offset, sorted(lake.offsets)) == (51, [*range(17), 18, 50])
    broker.path(50).unlink()
    broker.path(60).write_bytes(commit(60))
    lake.audit()
    assert (sorted(lake.offsets), lake.notes) == ([*range(17), 18, 50, 60], [])


@pytest.mark.parametrize("more", [3, 60])
def test_the_true_offset_is_found_after_nights_without_new_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """The segment was damaged while nothing new came, or the broker's folder was not given."""
    monkeypatch.setattr(Broker, "segment", 18)
    broker, lake = believed(tmp_path)
    (progress,) = lake.last.partitions or ()
    idle = not_read_now(progress)
    monkeypatch.setattr(
        changing_segments,
        "READINGS",
        replace(READINGS, earlier=lambda _: iter([(4, idle), (3, idle), (2, progress), (1, idle)])),
    )
    lake.last = replace(lake.last, partitions=(idle,))
    broker.append(more)
    lake.audit()
    assert sorted(lake.offsets) == list(range(19 + more))
    assert "was read under offset 50, and stands at offset 18" in lake.notes[0]


def test_a_wrong_offset_in_reduced_history_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "segment", 18)
    _, lake = believed(tmp_path)
    monkeypatch.setattr(changing_segments, "READINGS", replace(READINGS, reduced_to=lambda _: 19))
    with pytest.raises(AnotherLog, match=r"under offset 50 that stands at offset 18 of .*: its header was damaged"):
        lake.audit()
