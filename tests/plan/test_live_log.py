"""A live partition as an audit plans and reads it: the rows that segments would give, and the logs it refuses (R8)."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroups_spark.audit.plan import AnotherLog, plan_audit, require_readable
from kgroups_spark.cluster.fetch import FetchLimits
from kgroups_spark.cluster.live_log import NoOffsetsTopic, PieceOpener, live_logs
from kgroups_spark.cluster.requests import OffsetAnswer
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.lake.ledger import FINISHED, AuditRow, PartitionProgress
from kgroups_spark.messages.coordinator_records import COORDINATOR_LOGS, CoordinatorRecordDecoder, GroupRecordDecoder
from kgroups_spark.replay.range_decoder import RangeDecoder
from kgroups_spark.replay.ranges import LogRange, ReadContext
from kgroups_spark.replay.state_logs import QUARANTINE, StateRangeDecoder
from kgroups_spark.sources.partition_log import SegmentPiece
from tests.chosen import examples
from tests.logs.planned_batches import commits, damaged, marker
from tests.records.build import batch
from tests.sources.fake_cluster import FakeCluster

LOG = [
    batch(0, commits(3), leader_epoch=1),
    batch(3, commits(2), attributes=0x10, producer_id=7, producer_epoch=0, leader_epoch=1),
    batch(5, commits(4), leader_epoch=2),
    batch(12, commits(1), leader_epoch=2),  # 9, 10 and 11 were compacted away
    marker(13, epoch=3),
]
END = 14


def logs(cluster):
    return live_logs(cluster.as_cluster(), "t")


def planned(cluster, last=None, *, full=False):
    plan = plan_audit(logs(cluster).logs, last, full=full)
    require_readable([plan])
    return plan


def context_of(cluster):
    opener = PieceOpener(cluster.as_cluster(), FetchLimits())
    return ReadContext(1, "4.3", lambda path: pa.BufferReader(b"".join(cluster.batches)), opener=opener)


def read(cluster, log_range):
    """Rows by table, and what was read."""
    decoder = RangeDecoder([log_range], context_of(cluster), GroupRecordDecoder())
    rows: dict[str, list[dict]] = {}
    for name, table in decoder.outputs():
        rows.setdefault(name, []).extend(table.to_pylist())
    for each in rows.values():
        each.sort(key=lambda row: row.get("log_offset") or 0)
    return rows, decoder.progress


def audited(cluster):
    """The ledger's row of an audit of all that is there."""
    (partition,) = planned(cluster).partitions
    _, progress = read(cluster, partition.new)
    done = PartitionProgress(
        0,
        0,
        progress.next_offset,
        topic_id=partition.log.topic_id,
        last_batch_offset=progress.last_batch_offset,
        last_leader_epoch=progress.last_leader_epoch,
        last_batch_crc=progress.last_batch_crc,
    )
    return AuditRow(1, FINISHED, "host", datetime(2026, 11, 21, tzinfo=UTC), cluster_id="one", partitions=(done,))


def test_a_fetched_log_equals_its_segments():
    cluster = FakeCluster(LOG)
    (new,) = planned(cluster).new_ranges
    rows, progress = read(cluster, new)
    size = len(b"".join(LOG))
    expected, of_segment = read(cluster, LogRange(0, 0, 0, (SegmentPiece("0.log", 0, size),)))
    assert rows == expected
    assert progress == of_segment
    assert (progress.records, progress.next_offset, progress.size_bytes) == (11, END, size)


@examples(10)
@given(st.lists(st.integers(1, END - 1), max_size=4, unique=True))
def test_wherever_a_range_is_cut_each_batch_is_read_once(cuts):
    cluster = FakeCluster(LOG)
    (new,) = planned(cluster).new_ranges
    (piece,) = new.pieces
    borders = [0, *sorted(cuts), END]
    parts = [
        piece._replace(start_offset=start, end_offset=end, keep_first=start == 0) for start, end in pairwise(borders)
    ]
    whole, progress = read(cluster, new)
    rows, of_parts = read(cluster, new._replace(pieces=tuple(parts)))
    assert rows == whole
    assert of_parts == progress


def test_a_gap_up_to_the_high_watermark_counts_as_read():
    cluster = FakeCluster(LOG[:3], high_watermark=END)
    (new,) = planned(cluster).new_ranges
    _, progress = read(cluster, new)
    assert (progress.records, progress.next_offset) == (9, END)
    (partition,) = planned(cluster, audited(cluster)).partitions
    assert (partition.start_offset, partition.new) == (END, None)


def test_a_corrupt_batch_is_quarantined_without_a_file_and_met_once():
    """A sound batch follows it: without one the partition waits."""
    cluster = FakeCluster([LOG[0], damaged(LOG[1]), LOG[2]])
    (new,) = planned(cluster).new_ranges
    rows, progress = read(cluster, new)
    (row,) = rows["quarantine"]
    assert (row["reason"], row["log_offset"], row["record_count"]) == ("corrupt_batch", 3, 2)
    assert (row["file"], row["file_position"], row["raw_value"]) == (None, None, damaged(LOG[1]))
    # As a log of transactions it has no record that can be decoded.
    log = COORDINATOR_LOGS["__transaction_state"]
    decoder = StateRangeDecoder(log, new, context_of(cluster), CoordinatorRecordDecoder(log))
    bad = [row for name, each in decoder.outputs(lambda _: None) if name == QUARANTINE for row in each.to_pylist()]
    assert [row["log_offset"] for row in bad] == [0, 1, 2, 3, *range(5, 9)]
    assert {(row["file"], row["file_position"]) for row in bad} == {(None, None)}
    assert (progress.records, progress.next_offset) == (9, 9)
    assert planned(cluster, audited(cluster)).new_ranges == []


def test_records_deleted_before_the_read_are_lost():
    (partition,) = planned(FakeCluster(LOG[3:], log_start=12), audited(FakeCluster(LOG[:3]))).partitions
    assert (partition.lost_from, partition.lost_to, partition.start_offset) == (9, 12, 12)


def test_a_last_batch_that_is_deleted_after_planning_is_no_other_log():
    cluster = FakeCluster(LOG)
    last, planned_before = audited(cluster), logs(cluster).logs
    cluster.log_start, cluster.batches = 20, [batch(20, commits(1), leader_epoch=4)]
    (partition,) = plan_audit(planned_before, last).partitions
    assert (partition.start_offset, partition.new) == (END, None)


NEWER, OLDER = [*LOG, marker(14, epoch=6)], [*LOG, batch(14, commits(1), leader_epoch=5)]


@pytest.mark.parametrize(
    ("read", "now", "said"),
    [
        (LOG, FakeCluster(LOG, topic_id="n" * 22), "partition 0 of the cluster's t has topic id n{22}, the lake holds"),
        (NEWER, FakeCluster(OLDER), "ends in leader epoch 5, the lake has read epoch 6"),
    ],
)
def test_another_log_is_refused(read, now, said):
    with pytest.raises(AnotherLog, match=said):
        planned(now, audited(FakeCluster(read)))


def test_a_leader_epoch_that_is_lower_than_that_of_a_batch_that_is_still_there_is_damaged():
    assert planned(FakeCluster(NEWER), audited(FakeCluster(NEWER))).left == {}


@pytest.mark.parametrize(
    ("cluster", "partitions", "error", "said"),
    [
        (
            FakeCluster([], topic_error="UNKNOWN_TOPIC_OR_PARTITION"),
            None,
            NoOffsetsTopic,
            "the cluster has no topic t:",
        ),
        (FakeCluster(LOG, always="TOPIC_AUTHORIZATION_FAILED"), None, KgroupsError, "READ"),
        (FakeCluster(LOG), [0, 7], UsageError, "t has no partition 7; found partition 0"),
    ],
)
def test_a_topic_that_cannot_be_read_is_refused_before_anything_is_planned(cluster, partitions, error, said):
    with pytest.raises(error, match=said):
        live_logs(cluster.as_cluster(), "t", partitions)


def test_a_topic_whose_leaders_do_not_answer(monkeypatch):
    cluster, waited_for = FakeCluster(LOG), []

    def list_offsets(places, at):
        waited_for.extend(places)
        return {place: OffsetAnswer(None, "LEADER_NOT_AVAILABLE") for place in places}

    monkeypatch.setattr(cluster, "list_offsets", list_offsets)
    with pytest.raises(KgroupsError, match=r"no partition of t can be read now .partition 0: LEADER_NOT_AVAILABLE"):
        logs(cluster)
    assert waited_for == [("t", 0)]
