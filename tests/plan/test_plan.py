"""Where an audit goes on reading, and which logs it refuses (R8)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import pytest

from kgroups_spark.audit.plan import (
    STALE_MS,
    AnotherLog,
    AuditPlan,
    DeleteRetention,
    PartitionPlan,
    Uncommitted,
    known_corrupt,
    missing_files_note,
    not_read_now,
    plan_audit,
    read_now,
    uncommitted_notes,
    uncommitted_offsets,
)
from kgroups_spark.lake.lake import Lake as RealLake
from kgroups_spark.lake.ledger import FINISHED, RUNNING, AuditRow, PartitionProgress, Reading
from kgroups_spark.replay.ranges import RangeProgress
from kgroups_spark.sources import segment_log
from kgroups_spark.sources.partition_log import PartitionLog
from kgroups_spark.words import LAST_MS, to_epoch_ms
from tests.lake.table_rows import rows_of, writer
from tests.logs.planned_batches import TOPIC_ID, commits, damaged, marker
from tests.logs.segment_logs import segment_logs
from tests.nights.changing_segments import FolderLake as Lake
from tests.records.build import batch


@pytest.fixture
def log(tmp_path):
    """An empty log of partition 0 with a cluster id and a topic id."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (tmp_path / "meta.properties").write_text("cluster.id=one\n")
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    return folder


def write(log, base_offset, *batches):
    segment = log / f"{base_offset:020}.log"
    segment.write_bytes(b"".join(batches))
    return segment


def audited(log, *batches):
    """A lake that has read a log of these batches."""
    write(log, 0, *batches)
    lake = Lake(log.parent)
    lake.audit()
    return lake


def test_offsets_that_were_gone_before_they_were_read_are_reported(log):
    segment = write(log, 0, batch(0, commits(3)))
    lake = Lake(log.parent)
    lake.audit()
    segment.unlink()
    write(log, 7, batch(7, commits(1)))
    plan = lake.audit()
    (partition,) = plan.partitions
    assert (partition.lost_from, partition.lost_to, partition.start_offset) == (3, 7, 7)
    (note,) = plan.losses
    assert "offsets 3 to 6 of partition 0 were gone" in note
    assert (lake.records, lake.next_offset) == (4, 8)


def test_a_first_audit_reports_a_log_that_lacks_its_first_segment(log):
    write(log, 0, b"")
    write(log, 3, batch(3, commits(3)))
    assert Lake(log.parent).audit().losses == []
    (log / f"{0:020d}.log").unlink()
    lake = Lake(log.parent)
    plan = lake.audit()
    assert [(p.lost_from, p.lost_to) for p in plan.partitions] == [(0, 3)]
    (note,) = plan.losses
    assert note.startswith("the first offsets of partition 0 were gone before they were read: a compacted log keeps ")
    assert lake.audit().losses == []


class TestRefused:
    """Logs that are not the one the lake holds."""

    def after_an_audit(self, log):
        write(log, 0, batch(0, commits(3), leader_epoch=4))
        (log / "leader-epoch-checkpoint").write_text("0\n1\n4 0\n")
        lake = Lake(log.parent)
        lake.audit()
        (log / "leader-epoch-checkpoint").unlink()
        return lake

    def test_another_cluster(self, log):
        lake = self.after_an_audit(log)
        (log.parent / "meta.properties").write_text("cluster.id=two\n")
        with pytest.raises(AnotherLog, match="cluster one, and this log is of cluster two"):
            lake.plan()

    def test_a_lower_leader_epoch_than_that_of_a_batch_that_is_still_there_is_damaged(self, log):
        lake = self.after_an_audit(log)
        back = [batch(offset, commits(1), leader_epoch=2) for offset in (3, 4)]
        write(log, 0, batch(0, commits(3), leader_epoch=4), *back)
        assert [part.start_offset for part in lake.plan().new_ranges] == [3]

    def test_a_log_that_was_cut_back_and_goes_on_with_other_batches(self, log):
        """None of them begins where the last batch that was read began."""
        lake = audited(log, batch(0, commits(2), leader_epoch=4), batch(2, commits(1), leader_epoch=4))
        write(log, 0, *(batch(at, commits(5), leader_epoch=6) for at in (0, 5)))
        with pytest.raises(AnotherLog, match=r"of leader epoch 6 at offset 0, the lake has read it up to 3 in epoch 4"):
            lake.plan()

    @pytest.mark.parametrize("starts", [(0, 4), (0, 3), (0, 3, 5)])
    def test_a_log_of_the_same_epoch_with_a_batch_across_the_start_or_end_of_the_last_one_read(self, log, starts):
        lake = audited(log, *(batch(offset, commits(3), leader_epoch=4) for offset in (0, 3)))
        spans = pairwise((*starts, 8))
        write(log, 0, *(batch(start, commits(end - start), leader_epoch=4) for start, end in spans))
        with pytest.raises(AnotherLog, match=r"has a batch from offset \d to \d, where one .* ends before offset [36]"):
            lake.plan()

    def test_a_last_batch_that_the_cleaner_reduced_is_not_refused(self, log):
        lake = self.after_an_audit(log)
        write(log, 0, batch(0, commits(1), last_offset_delta=2, leader_epoch=4), batch(3, commits(1), leader_epoch=4))
        lake.audit()
        assert lake.records == 4

    def test_a_last_batch_that_the_cleaner_took_from_before_an_empty_segment_is_not_refused(self, log):
        """Before Kafka 4.0 the cleaner kept no empty batch at the end of what it cleaned."""
        lake = audited(log, batch(0, commits(3), leader_epoch=4), marker(3, epoch=5))
        write(log, 0, batch(0, commits(3), leader_epoch=4))
        write(log, 4)
        assert lake.plan().new_ranges == []
        write(log, 4, batch(4, commits(1), leader_epoch=5))
        lake.audit()
        assert lake.records == 5

    def test_missing_ids_are_not_refused(self, log):
        lake = self.after_an_audit(log)
        (log / "partition.metadata").unlink()
        (log.parent / "meta.properties").unlink()
        assert lake.plan().new_ranges == []


class TestKnownDamage:
    """A corrupt batch is counted by the audit that finds it, by no later one."""

    def test_with_sound_batches_after_it_the_next_night(self, log):
        first, bad, third = batch(0, commits(3)), damaged(batch(3, commits(2))), batch(5, commits(4))
        lake = audited(log, first, bad)
        write(log, 0, first, bad, third)
        write(log, 9, batch(9, commits(1)))
        for _ in range(2):
            lake.audit()
            assert (lake.records, len(lake.damage), lake.next_offset) == (10, 1, 10)

    def test_cut_off_by_a_broker_that_recovered_and_wrote_there_again(self, log):
        first, bad, again = (
            batch(0, commits(3)),
            damaged(batch(3, commits(2))),
            batch(3, commits(1, committed_offset=8)),
        )
        lake = audited(log, first, bad)
        write(log, 0, first)
        assert lake.audit().new_ranges == []
        write(log, 0, first, again)
        lake.audit()
        assert (lake.records, len(lake.damage), lake.next_offset) == (6, 1, 4)


# Which partitions are read again from their start, and which are not even examined.
T0 = datetime(2026, 11, 20, 2, tzinfo=UTC)
HOUR, DAY_MS = timedelta(hours=1), 86_400_000
RECORDS = [(b"k", b"v")] * 3


def audit_row(audit_id, end_offset, *, records=3, status=FINISHED, **columns):
    """An audit of partition 0 a day after the one before; it read `records` of it."""
    progress = PartitionProgress(0, end_offset - records, end_offset, records=records)
    started_at = T0 + timedelta(days=audit_id)
    return AuditRow(audit_id, status, "host", started_at, partitions=(progress,), **columns)


def reading(row):
    read = frozenset(each.offsets_partition for each in row.partitions or () if each.records or each.bytes)
    return Reading(row.started_at, row.newest_log_timestamp, read)


@pytest.fixture
def old_log(tmp_path):
    """Offsets 0 to 2 in a segment of their own; 3 to 6 are gone; 7 to 9 are there."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(batch(0, RECORDS))
    (folder / f"{3:020}.log").write_bytes(batch(7, RECORDS))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 10\n")
    return tmp_path


def planned(old_log, last, since, *, earlier=None, full=False):
    """The plan this long after the last audit; `earlier`: other rows of the ledger (None: it must not be read)."""

    def readings():
        assert earlier is not None
        rows = [row for row in earlier if row.status == FINISHED]
        yield from (reading(row) for row in sorted(rows, key=lambda row: -row.audit_id))

    now = to_epoch_ms(last.started_at + since)
    retention = DeleteRetention(DAY_MS, last, readings(), now)
    (partition,) = plan_audit(segment_logs([str(old_log)]), last, full=full, delete_retention=retention).partitions
    return partition


def test_missing_offsets_and_a_read_too_long_ago_are_reported(old_log):
    partition = planned(old_log, audit_row(1, 3), 26 * HOUR)
    assert partition.why_read_again == (
        "partition 0 was read again from its start: last read 1d 2h ago, longer than delete.retention.ms (1d), "
        "and 4 of 7 offsets were gone"
    )
    assert (partition.reread.start_offset, partition.start_offset) == (0, 3)
    assert not planned(old_log, audit_row(1, 3), 24 * HOUR).read_again


def test_nothing_is_read_again_where_no_offset_is_missing(old_log):
    (old_log / "__consumer_offsets-0" / f"{3:020}.log").write_bytes(batch(3, RECORDS))
    assert planned(old_log, audit_row(1, 3), 99 * HOUR).why_read_again is None
    assert planned(old_log, audit_row(1, 6), 99 * HOUR).why_read_again is None


def test_an_end_that_was_cleaned_away_is_missing_too(old_log):
    folder = old_log / "__consumer_offsets-0"
    (folder / f"{3:020}.log").rename(folder / f"{9:020}.log")
    (folder / f"{9:020}.log").write_bytes(b"")
    partition = planned(old_log, audit_row(1, 3), 99 * HOUR)
    assert (partition.start_offset, partition.new) == (3, None)
    assert "and 6 of 6 offsets were gone" in (partition.why_read_again or "")


def test_a_deleted_start_of_the_log_is_missing_too(old_log):
    (old_log / "__consumer_offsets-0" / f"{0:020}.log").unlink()
    partition = planned(old_log, audit_row(1, 2), 99 * HOUR)
    assert (partition.lost_from, partition.lost_to, partition.reread) == (2, 3, None)
    assert partition.read_again and "5 of 8 offsets" in (partition.why_read_again or "")


def test_log_timestamps_count_where_they_advanced_further_than_the_clock(old_log):
    then = datetime.fromtimestamp(1, UTC)  # the batches' timestamps are at 1 s
    assert planned(old_log, audit_row(1, 3, newest_log_timestamp=then - timedelta(days=2)), HOUR).read_again
    assert not planned(old_log, audit_row(1, 3, newest_log_timestamp=then), HOUR).read_again


def test_the_last_read_is_by_the_audit_that_last_found_records(old_log):
    idle = audit_row(3, 3, records=0)
    earlier = (audit_row(1, 3), audit_row(2, 3, records=0), audit_row(4, 3, status=RUNNING))
    why = planned(old_log, idle, HOUR, earlier=earlier).why_read_again
    assert why is not None and "last read 2d 1h ago" in why


def test_a_deleted_start_is_missing_even_if_other_gaps_are_known_only_by_reading(old_log, monkeypatch):
    monkeypatch.setattr(segment_log.SegmentLog, "missing_from", lambda *_: None)
    undecided = planned(old_log, audit_row(1, 3), 99 * HOUR)
    assert (undecided.why_read_again, undecided.undecided is None) == (None, False)
    (old_log / "__consumer_offsets-0" / f"{0:020}.log").unlink()
    assert "and 1 of 8 offsets were gone" in (planned(old_log, audit_row(1, 2), 99 * HOUR).why_read_again or "")


def test_a_full_audit_needs_no_reason(old_log):
    for since in (HOUR, 99 * HOUR):
        partition = planned(old_log, audit_row(1, 3), since, full=True)
        assert (partition.read_again, partition.why_read_again) == (True, None)
    assert planned(old_log, audit_row(1, 3), 99 * HOUR).why_read_again is not None


# How far an audit read a partition, as the ledger has it; and the offsets that it left because they may vanish.
BEFORE = PartitionProgress(3, 50, 100, records=40, records_reread=7, bytes=900, offsets_missing=10, topic_id="t")
BEFORE = BEFORE._replace(lost_from=40, lost_to=50, last_batch_offset=98, last_leader_epoch=4, last_batch_crc=77)


class EndedLog(SimpleNamespace):
    """A log that is read up to `readable_to` and ends at `end_offset`; its broker noted epoch 9 alone."""

    def epoch_by_checkpoint(self, _offset):
        return 9

    def asked(self, ask):
        return ask(self)


def plan(before, **more):
    """Partition 3, from offset 100 on."""
    facts = {"partition": 3, "topic_id": None, "readable_to": None, "end_offset": 120, "newest_timestamp": None}
    facts |= more.pop("log", {})
    return PartitionPlan(cast(PartitionLog, EndedLog(**facts)), 20, 100, None, before=before, **more)


def read(number, end, records, **more):
    return RangeProgress(3, number, 100, end, records, size_bytes=10 * records, **more)


def last_batch(progress):
    return progress.last_batch_offset, progress.last_leader_epoch, progress.last_batch_crc


def test_records_offsets_and_the_last_batch_are_those_of_all_ranges_read():
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
def test_an_epoch_counts_if_the_batch_before_or_the_brokers_checkpoint_confirms_it(epoch, before, epochs, expected):
    entry = BEFORE._replace(last_leader_epoch=before)
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
def test_a_last_batch_of_an_old_message_has_no_leader_epoch(epoch):
    ranges = [read(0, 101, 1, last_batch_offset=100, last_leader_epoch=epoch, last_batch_crc=9)]
    assert last_batch(read_now(plan(BEFORE), ranges)) == (100, None, 9)


def test_without_new_batches_the_last_batch_stays():
    found = read_now(plan(BEFORE), [read(-1, 100, 30, last_batch_offset=99)])
    assert (found.start_offset, found.end_offset, found.offsets_missing) == (100, 100, 0)
    assert last_batch(found) == (98, 4, 77)
    first = read_now(plan(None), [])
    assert (first.end_offset, first.topic_id, *last_batch(first)) == (100, None, None, None, None)


def test_a_partition_that_was_not_read_keeps_its_end():
    found = not_read_now(BEFORE)
    assert (found.start_offset, found.end_offset, found.lost_from, found.lost_to) == (100, 100, None, None)
    assert (found.records, found.records_reread, found.bytes, found.offsets_missing) == (0, 0, 0, 0)
    assert (found.topic_id, *last_batch(found)) == ("t", 98, 4, 77)


def uncommitted(readable_to, end, **more):
    """The uncommitted offsets of a log that may go on after the range that was read."""
    partition = plan(BEFORE, log={"readable_to": readable_to, "end_offset": end}, **more)
    return uncommitted_offsets(AuditPlan([partition], None), [], LAST_MS)


def test_offsets_at_or_above_the_high_watermark_are_counted():
    assert uncommitted(110, 120) == {3: (10, 0)}
    assert uncommitted(90, 120) == {3: (20, 0)}  # nothing below 100 is new
    assert uncommitted(120, 120) == {}
    assert uncommitted(None, 120) == {}


def test_the_note_counts_offsets_and_names_partitions():
    start = (
        "3 offsets of 2 partitions (3, 7) not read: at or above the high watermark in replication-offset-checkpoint, "
    )
    found = {7: Uncommitted(1, 0), 3: Uncommitted(2, STALE_MS)}
    assert uncommitted_notes(found) == [start + "so what is there may vanish when a leader fails"]
    assert uncommitted_notes(found | {3: Uncommitted(2, STALE_MS + 1)}) == [
        start + "it is older than the log of 1 partition (3): copy it again with the log, or delete it"
    ]
    assert uncommitted_notes({}) == []


def missing_files(*ends):
    """The notes on partitions with these high watermarks and ends."""
    plans = [plan(None, log={"partition": n, "readable_to": r, "end_offset": e}) for n, (r, e) in enumerate(ends)]
    return list(missing_files_note(AuditPlan(plans, None)))


def test_offsets_below_the_high_watermark_without_a_segment_file_are_counted():
    assert missing_files((120, 120), (110, 120), (None, 120)) == []
    assert missing_files((123, 120), (120, 120), (121, 120)) == [
        "4 offsets of 2 partitions (0, 2) are not in the segment files, and below the high watermark in "
        "replication-offset-checkpoint: the files were copied before it, or some are missing"
    ]


# Which rows of quarantine an audit reads to recognise damage.
@pytest.fixture
def lake(session, tmp_path):
    """Partition 0 had damage in audits 1 and 3, partition 1 in audit 2; a record of partition 1 was undecodable."""
    lake = RealLake.create(session, str(tmp_path / "lake"))
    first, third = [(0, 10, "corrupt_batch")], [(0, 40, "corrupt_batch")]
    for audit_id, found in enumerate((first, [(1, 20, "corrupt_batch"), (1, 30, "truncated")], third), 1):
        rows = [
            {
                "audit_id": audit_id,
                "offsets_partition": partition,
                "reason": reason,
                "file": f"/log/__consumer_offsets-{partition}/0.log",
                "file_position": position,
            }
            for partition, position, reason in found
        ]
        writer(lake, audit_id).append_table("quarantine", rows_of("quarantine", *rows))
    return lake


def test_damage_in_files_is_known_by_partition(lake):
    assert known_corrupt(lake) == {0: {("0.log", 10), ("0.log", 40)}, 1: {("0.log", 20)}}


def test_an_empty_lake_knows_no_damage(session, tmp_path):
    empty = RealLake.create(session, str(tmp_path / "empty"))
    assert known_corrupt(empty) == known_corrupt(empty, "__share_group_state") == {}
