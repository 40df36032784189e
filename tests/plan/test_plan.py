"""Where an audit goes on reading, and which logs it refuses (R8)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from kgroups_spark.audit.plan import AnotherLog
from tests.logs.cleaner import clean
from tests.logs.planned_batches import KEY, TOPIC_ID, commits, damaged, marker
from tests.nights.changing_segments import FolderLake as Lake
from tests.records.build import batch, message


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """An empty log of partition 0 with a cluster id and a topic id."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (tmp_path / "meta.properties").write_text("cluster.id=one\n")
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    return folder


def write(log: Path, base_offset: int, *batches: bytes) -> Path:
    segment = log / f"{base_offset:020}.log"
    segment.write_bytes(b"".join(batches))
    return segment


def clean_folder(log: Path, *, drop_tombstones: bool) -> None:
    """Kafka's cleaner goes over the log."""
    files = {f"{log.name}/{segment.name}": segment.read_bytes() for segment in log.glob("*.log")}
    for name in files:
        (log.parent / name).unlink()
    for name, data in clean(files, drop_tombstones=drop_tombstones).items():
        (log.parent / name).write_bytes(data)


def test_the_next_audit_goes_on_after_the_last_batch(log: Path) -> None:
    first, second = batch(0, commits(3)), batch(3, commits(2))
    write(log, 0, first)
    lake = Lake(log.parent)
    lake.audit()
    write(log, 0, first, second)
    write(log, 5, batch(5, commits(1)))
    (log_range,) = lake.plan().new_ranges
    assert [(p.position, p.end) for p in log_range.pieces] == [(len(first), len(first) + len(second)), (0, 104)]
    lake.audit()
    assert (lake.records, lake.next_offset) == (6, 6)


def test_a_cluster_id_recorded_with_javas_backslashes_is_the_same_cluster(log: Path) -> None:
    (log.parent / "meta.properties").write_text("cluster.id=ciWo7IWazngRchmPES6q5A\\=\\=\n")
    write(log, 0, batch(0, commits(3)))
    lake = Lake(log.parent)
    assert lake.audit().cluster_id == "ciWo7IWazngRchmPES6q5A=="
    assert lake.last is not None
    lake.last = replace(lake.last, cluster_id="ciWo7IWazngRchmPES6q5A\\=\\=")
    assert lake.audit().cluster_id == "ciWo7IWazngRchmPES6q5A=="


def test_a_half_written_batch_is_read_once_it_is_complete(log: Path) -> None:
    first, second = batch(0, commits(3)), batch(3, commits(2))
    write(log, 0, first, second[:40])
    lake = Lake(log.parent)
    lake.audit()
    assert (lake.records, lake.damage) == (3, [])
    write(log, 0, first, second)
    lake.audit()
    assert (lake.records, lake.damage, lake.next_offset) == (5, [], 5)


def test_a_full_audit_reads_earlier_batches_again(log: Path) -> None:
    first, second = batch(0, commits(3)), batch(3, commits(2))
    write(log, 0, first)
    lake = Lake(log.parent)
    lake.audit()
    write(log, 0, first, second)
    plan = lake.plan(full=True)
    (again,), (new,) = plan.reread_ranges, plan.new_ranges
    assert (again.is_reread, again.start_offset, again.pieces[0].end) == (True, 0, len(first))
    assert (new.start_offset, new.pieces[0].position) == (3, len(first))


def test_offsets_that_were_gone_before_they_were_read_are_reported(log: Path) -> None:
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


def test_a_first_audit_reports_a_log_that_lacks_its_first_segment(log: Path) -> None:
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

    def after_an_audit(self, log: Path) -> Lake:
        write(log, 0, batch(0, commits(3), leader_epoch=4))
        (log / "leader-epoch-checkpoint").write_text("0\n1\n4 0\n")
        lake = Lake(log.parent)
        lake.audit()
        (log / "leader-epoch-checkpoint").unlink()
        return lake

    def test_another_cluster(self, log: Path) -> None:
        lake = self.after_an_audit(log)
        (log.parent / "meta.properties").write_text("cluster.id=two\n")
        with pytest.raises(AnotherLog, match="cluster one, what was given is of cluster two"):
            lake.plan()

    def test_a_lower_leader_epoch_than_that_of_a_batch_that_is_still_there_is_damaged(self, log: Path) -> None:
        lake = self.after_an_audit(log)
        back = [batch(offset, commits(1), leader_epoch=2) for offset in (3, 4)]
        write(log, 0, batch(0, commits(3), leader_epoch=4), *back)
        assert [part.start_offset for part in lake.plan().new_ranges] == [3]

    def test_a_log_that_was_cut_back_and_goes_on_with_other_batches(self, log: Path) -> None:
        """None of them begins where the last batch that was read began."""
        write(log, 0, batch(0, commits(2), leader_epoch=4), batch(2, commits(1), leader_epoch=4))
        lake = Lake(log.parent)
        lake.audit()
        write(log, 0, *(batch(at, commits(5), leader_epoch=6) for at in (0, 5)))
        with pytest.raises(AnotherLog, match=r"of leader epoch 6 at offset 0, the lake has read it up to 3 in epoch 4"):
            lake.plan()

    @pytest.mark.parametrize("starts", [(0, 4), (0, 3), (0, 3, 5)])
    def test_a_log_of_the_same_epoch_with_a_batch_across_the_start_or_end_of_the_last_one_read(
        self, log: Path, starts: tuple[int, ...]
    ) -> None:
        write(log, 0, *(batch(offset, commits(3), leader_epoch=4) for offset in (0, 3)))
        lake = Lake(log.parent)
        lake.audit()
        spans = pairwise((*starts, 8))
        write(log, 0, *(batch(start, commits(end - start), leader_epoch=4) for start, end in spans))
        with pytest.raises(AnotherLog, match=r"has a batch from offset \d to \d, where one .* ends before offset [36]"):
            lake.plan()

    def test_a_last_batch_that_the_cleaner_reduced_is_not_refused(self, log: Path) -> None:
        lake = self.after_an_audit(log)
        write(log, 0, batch(0, commits(1), last_offset_delta=2, leader_epoch=4), batch(3, commits(1), leader_epoch=4))
        lake.audit()
        assert lake.records == 4

    @pytest.mark.parametrize(
        "last",
        [
            pytest.param(batch(3, [(KEY, None)], leader_epoch=4), id="a tombstone gets its delete horizon"),
            pytest.param(marker(3, epoch=4), id="a marker without a transaction gets its delete horizon"),
            pytest.param(message(3, *commits(1)[0], magic=1), id="an old message becomes a batch"),
        ],
    )
    def test_a_last_batch_with_all_its_records_that_the_cleaner_rewrote_is_not_refused(
        self, log: Path, last: bytes
    ) -> None:
        write(log, 0, batch(0, commits(3), leader_epoch=4), last)
        lake = Lake(log.parent)
        lake.audit()
        write(log, 4, batch(4, commits(1), leader_epoch=4))
        clean_folder(log, drop_tombstones=False)
        lake.audit()
        assert lake.records == 5

    def test_a_last_batch_that_the_cleaner_took_from_before_an_empty_segment_is_not_refused(self, log: Path) -> None:
        """Before Kafka 4.0 the cleaner kept no empty batch at the end of what it cleaned."""
        write(log, 0, batch(0, commits(3), leader_epoch=4), marker(3, epoch=5))
        lake = Lake(log.parent)
        lake.audit()
        write(log, 0, batch(0, commits(3), leader_epoch=4))
        write(log, 4)
        assert lake.plan().new_ranges == []
        write(log, 4, batch(4, commits(1), leader_epoch=5))
        lake.audit()
        assert lake.records == 5

    def test_missing_ids_are_not_refused(self, log: Path) -> None:
        lake = self.after_an_audit(log)
        (log / "partition.metadata").unlink()
        (log.parent / "meta.properties").unlink()
        assert lake.plan().new_ranges == []


class TestKnownDamage:
    """A corrupt batch is counted by the audit that finds it, by no later one."""

    def test_with_sound_batches_after_it_the_next_night(self, log: Path) -> None:
        first, bad, third = batch(0, commits(3)), damaged(batch(3, commits(2))), batch(5, commits(4))
        write(log, 0, first, bad)
        lake = Lake(log.parent)
        lake.audit()
        write(log, 0, first, bad, third)
        write(log, 9, batch(9, commits(1)))
        for _ in range(2):
            lake.audit()
            assert (lake.records, len(lake.damage), lake.next_offset) == (10, 1, 10)

    def test_cut_off_by_a_broker_that_recovered_and_wrote_there_again(self, log: Path) -> None:
        first, bad, again = (
            batch(0, commits(3)),
            damaged(batch(3, commits(2))),
            batch(3, commits(1, committed_offset=8)),
        )
        write(log, 0, first, bad)
        lake = Lake(log.parent)
        lake.audit()
        write(log, 0, first)
        assert lake.audit().new_ranges == []
        write(log, 0, first, again)
        lake.audit()
        assert (lake.records, len(lake.damage), lake.next_offset) == (6, 1, 4)
