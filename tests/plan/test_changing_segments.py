"""Segments that a broker replaces, merges, renames, cuts off and deletes while an audit plans and reads.

The change happens at each moment in turn: before every listing of a folder, at every opening of a file, before and
after every read. Whatever happens, an audit ends in a state that existed, loses nothing and invents no damage.
"""

from __future__ import annotations

import itertools
import struct

import pytest
from pyarrow import fs

from kgroups_spark.audit.plan import AnotherLog
from kgroups_spark.errors import KgroupsError
from kgroups_spark.records.batches import HEADER_BYTES
from kgroups_spark.replay import ranges
from kgroups_spark.sources import files, segments
from tests.nights.changing_segments import PLANNED, Broker, FolderLake, Lake, commit, state


class Moments:
    """Counts the moments at which an audit touches files, and lets a change go on at some of them."""

    def __init__(self, monkeypatch, steps, first, *, all_at_once):
        self.seen, self._steps, self._first, self._all_at_once = 0, steps, first, all_at_once
        self._is_busy = False
        for kind in (files.LocalFile, files.StoredFile):
            self._around(monkeypatch, kind, "__init__")
            self._around(monkeypatch, kind, "readinto")
        self._around(monkeypatch, segments, "list_folder")
        monkeypatch.setattr(segments.time, "sleep", lambda _: None)

    def _around(self, monkeypatch, owner, name):
        real = getattr(owner, name)

        def moment(*arguments, **more):
            self._pass()
            found = real(*arguments, **more)
            self._pass()
            return found

        monkeypatch.setattr(owner, name, moment)

    def _pass(self):
        self.seen += 1
        if self.seen < self._first:
            return
        next(self._steps, None)
        if self._all_at_once:
            for _ in self._steps:
                pass

    def finish(self):
        """Does the rest of the change."""
        for _ in self._steps:
            pass


CHANGES = [
    Broker.cleans,
    Broker.merges,
    Broker.cleans_twice,
    Broker.goes_on,
    Broker.copies_files,
    Broker.cuts_off,
    Broker.deletes_records,
]


HOW = ["whole", "in ranges", "in ranges, the last first", "full"]


@pytest.mark.parametrize("change", CHANGES, ids=[change.__name__ for change in CHANGES])
def test_a_change_at_any_moment_loses_nothing_and_invents_no_damage(change, tmp_path, chosen):
    moments = range(1, 2 + audit_disturbed(change, tmp_path / "undisturbed", "full", 10**6))
    assert len(moments) > 15
    cases = list(itertools.product(moments, HOW, [True, False]))
    for number, (moment, how, at_once) in enumerate(chosen.some(cases, 2)):
        audit_disturbed(change, tmp_path / str(number), how, moment, all_at_once=at_once)


@pytest.mark.parametrize("change", CHANGES, ids=[change.__name__ for change in CHANGES])
def test_a_change_in_an_object_store_loses_nothing_and_invents_no_damage(change, tmp_path, chosen, monkeypatch):
    """A store has no open files: each read gets the file that has the name at that time."""
    store = fs.SubTreeFileSystem("/", fs.LocalFileSystem())
    monkeypatch.setattr(files, "file_system", lambda location: (store, location))
    monkeypatch.setattr(segments, "is_local", lambda location: False)
    moments = range(1, 2 + audit_disturbed(change, tmp_path / "undisturbed", "full", 10**6))
    for number, (moment, how) in enumerate(chosen.some(itertools.product(moments, HOW), 1)):
        audit_disturbed(change, tmp_path / str(number), how, moment)


def audit_disturbed(change, folder, how, moment, *, all_at_once=True):
    """An audit during which the change begins at that moment, and one after it; how many moments there were."""
    broker = Broker(folder)
    lake = Lake(broker)
    cut_off = change is Broker.cuts_off
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ranges, "SMALLEST_CUT_BYTES", 1 if "ranges" in how else 1 << 30)
        moments = Moments(patched, change(broker), moment, all_at_once=all_at_once)
        lake.audit(full=how == "full", backwards="last first" in how)
        moments.finish()
    for is_after in (False, True):
        if is_after and cut_off and lake.next_offset > broker.written - 1:
            with pytest.raises(AnotherLog, match="ends at offset 20, the lake has read it up to 21"):
                lake.audit()
            break
        if is_after:
            lake.audit()
        assert lake.damage == [], (moment, how)
        assert len(set(lake.offsets)) == len(lake.offsets), (moment, how)
        assert lake.state() == state(lake.next_offset), (moment, how)
        assert lake.next_offset >= (broker.written if is_after else PLANNED) - cut_off, (moment, how)
    there = {number for data in broker.contents().values() for number in range(99) if commit(number) in data}
    assert there <= set(lake.offsets), (moment, how)
    return moments.seen


# Damage in the header of the log's last batch, whose offset and leader epoch no checksum covers.
#
# The audit that meets it loses nothing, and the next one, of the sound log, ends where it would have ended anyway.
UNCOVERED_BITS = range(8 * 17)  # base offset, length, leader epoch, magic
HEADER_BITS = range(8 * HEADER_BYTES)


def flip(path, at, bit):
    data = bytearray(path.read_bytes())
    data[at + bit // 8] ^= 0x80 >> bit % 8
    path.write_bytes(data)


def audited_with_a_flipped_bit(folder, bit):
    """A lake after an audit while this bit of the last batch was flipped; the active segment and its sound bytes."""
    broker = Broker(folder)
    lake = Lake(broker)
    active = max(broker.log.glob("*.log"))
    sound = active.read_bytes()
    flip(active, len(sound) - len(commit(0)), bit)
    lake.audit()
    return broker, lake, active, sound


def test_any_flipped_bit_of_the_last_header_loses_nothing(tmp_path, chosen, monkeypatch):
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


def test_an_offset_that_nothing_confirms_is_held_back_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(Broker, "segment", 24)
    broker = Broker(tmp_path)
    lake = Lake(broker)
    active = max(broker.log.glob("*.log"))
    flip(active, active.stat().st_size - len(commit(0)), 63 - 3)
    for _ in range(2):
        lake.audit()
        assert (lake.next_offset, lake.damage) == (PLANNED - 1, [])
        assert "it says offset 28, 8 after the end of the batch before it, and nothing confirms" in lake.unconfirmed[0]


def test_the_brokers_checkpoint_confirms_the_first_batch_of_a_leader(tmp_path):
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


def rewritten(broker, *batches, rolled_at=None):
    """The broker with a log of these batches in one segment; an empty one may follow."""
    for path in broker.log.glob("*.log"):
        path.unlink()
    broker.path(0).write_bytes(b"".join(batches))
    if rolled_at:
        broker.path(rolled_at).write_bytes(b"")
    return broker


def gap_log(tmp_path):
    return rewritten(Broker(tmp_path), *map(commit, (0, 1, 2, 7, 400)))


def test_a_last_batch_after_a_gap_waits_until_another_one_follows(tmp_path):
    broker = gap_log(tmp_path)
    lake = Lake(broker)
    for _ in range(2):
        lake.audit()
        assert (lake.next_offset, len(lake.unconfirmed)) == (8, 1)
    broker.path(0).write_bytes(broker.path(0).read_bytes() + commit(401))
    lake.audit()
    assert (lake.next_offset, lake.unconfirmed) == (402, [])


@pytest.mark.parametrize("confirmed_by", ["the next segment", "the high watermark"])
def test_the_end_of_the_last_batch_confirms_it(tmp_path, confirmed_by):
    """Once it is read, the lake confirms it, too; and a batch that begins a segment has that segment's name."""
    broker = gap_log(tmp_path)
    checkpoint = tmp_path / "replication-offset-checkpoint"
    for end in (402, 401):
        if confirmed_by == "the next segment":
            broker.path(402).unlink(missing_ok=True)
            broker.path(end).write_bytes(b"")
        else:
            checkpoint.write_text(f"0\n1\n__consumer_offsets 0 {end}\n")
        lake = Lake(broker)
        lake.audit()
        assert (lake.next_offset, len(lake.unconfirmed)) == ((8, 1) if end == 402 else (401, 0))
    broker.path(401).unlink(missing_ok=True)
    checkpoint.unlink(missing_ok=True)
    lake.audit()
    assert (lake.next_offset, lake.unconfirmed) == (401, [])
    broker.path(500).write_bytes(commit(500))
    lake.audit()
    assert (lake.next_offset, lake.unconfirmed) == (501, [])


@pytest.mark.parametrize(("again", "is_rolled"), [(6, True), (6, False), (7, True)])
def test_the_last_batch_under_another_offset_refuses_the_partition(tmp_path, again, is_rolled):
    """Unless it may have been written twice, and the cleaner has removed the one that the lake has."""

    def moved(offset):
        return struct.pack(">q", offset) + commit(7)[8:]

    broker, lake = Broker(tmp_path), FolderLake(tmp_path)
    rewritten(broker, *map(commit, range(3)), moved(5), rolled_at=6)
    lake.audit()
    rewritten(broker, *map(commit, range(3)), moved(again), commit(64), rolled_at=65 if is_rolled else None)
    if again == 6 and is_rolled:
        lake.audit()
        assert (sorted(lake.offsets), lake.next_offset, lake.notes) == ([0, 1, 2, 5, again, 64], 65, [])
        return
    with pytest.raises(AnotherLog, match=f"was at offset 5, and now is at offset {again}: one of the two is damag"):
        lake.audit()


def test_what_the_lake_has_read_up_to_an_unconfirmed_end_is_not_doubted(tmp_path):
    """The log's last batch, which was read, is damaged now: neither a cut nor another log."""
    broker = Broker(tmp_path, written=18)
    lake = Lake(broker)
    lake.audit()
    path = max(broker.log.glob("*.log"))
    sound = path.read_bytes()
    for bit in (63 - 5, 63 - 40):
        flip(path, len(sound) - len(commit(0)), bit)
        lake.audit()
        assert (lake.next_offset, lake.unconfirmed, lake.notes) == (18, [], [])
        path.write_bytes(sound)
    path.write_bytes(sound + struct.pack(">q", 19) + commit(18)[8:])  # its true offset is 18
    lake.audit()
    assert (lake.next_offset, len(lake.unconfirmed)) == (18, 1)
    path.write_bytes(sound[: -len(commit(0))] + struct.pack(">q", 25) + commit(18)[8:])  # 17 is gone, 18 says 25
    with pytest.raises(
        KgroupsError, match=r"nothing confirms the offset of the last batch of .*, which says 25; the la"
    ):
        lake.audit()
