"""Where a log was cut back, and which logs are refused as another: one segment against what audits read of it."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pyarrow.dataset
import pytest

from kgroups_spark.audit.plan import plan_audit, require_readable
from kgroups_spark.audit.same_log import AnotherLog, CutBack, KnownReadings, is_untouched
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.ledger import FINISHED, RUNNING, AuditRow, PartitionProgress
from kgroups_spark.lake.replaced import NOTHING, Replaced, ReplacedRange
from kgroups_spark.records.segment import scan_batches
from kgroups_spark.sources import segment_log
from kgroups_spark.sources.partition_log import scan_segment
from kgroups_spark.tables.columns import expression_of
from tests.lake.table_rows import rows_of
from tests.logs.planned_batches import KEY, TOPIC_ID, commits, damaged
from tests.logs.segment_logs import segment_logs
from tests.records.build import batch

THEN = datetime(2026, 11, 20, tzinfo=UTC)
# The leader of epoch 4 wrote 0 to 9, another one went on from 5 in epoch 6.
FIRST, SECOND, LOST = (batch(at, commits(count), leader_epoch=4) for at, count in ((0, 3), (3, 2), (5, 5)))
LATER = batch(5, commits(1), leader_epoch=6) + batch(6, commits(1), leader_epoch=6)
CUT_BACK = (FIRST, SECOND, LATER)


def progress(*batches, **columns):
    """The ledger's entry of an audit that has read these batches."""
    last = scan_batches(io.BytesIO(b"".join(batches)))[-1:]
    return PartitionProgress(
        0,
        0,
        int(last.last_offset[0]) + 1,
        topic_id=TOPIC_ID,
        last_batch_offset=int(last.base_offset[0]),
        last_leader_epoch=int(last.leader_epoch[0]),
        last_batch_crc=int(last.crc[0]),
    )._replace(
        **columns,
    )


READ = progress(FIRST, SECOND, LOST)


@pytest.fixture
def folder(tmp_path):
    """An empty log of partition 0 with a topic id."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    return folder


def planned(folder, batches, *read, starts_at=0, replaced=NOTHING, reduced_to=0, accept=False):
    """The plan for a log of these batches; `read`: by the audits 1, 2, ..."""
    for segment in folder.glob("*.log"):
        segment.unlink()
    (folder / f"{starts_at:020}.log").write_bytes(b"".join(batches))
    earlier = list(enumerate(read, 1))
    readings = KnownReadings(lambda _: reversed(earlier), replaced, lambda _: reduced_to, accept)
    last = AuditRow(len(read), FINISHED, "host", THEN, partitions=read[-1:])
    plan = plan_audit(segment_logs([str(folder.parent)]), last, readings=readings)
    require_readable([plan])
    return plan.partitions[0]


def test_a_log_is_looked_at_from_the_last_batch_that_was_read_on(folder, monkeypatch):
    """All of it if it is too short or has damage from there on, which may be a record with a copy of that batch."""
    scans = []
    monkeypatch.setattr(segment_log, "scan_segment", lambda *given: scans.append(given[1:]) or scan_segment(*given))
    read, copied = progress(FIRST, SECOND), batch(5, [(KEY, SECOND)])
    last = (read.last_batch_offset, read.last_batch_crc)
    for second, after, more in (SECOND, LATER, []), (SECOND, copied, [()]), (damaged(SECOND), LATER, [()]):
        plan = planned(folder, [FIRST, second, after], read)
        assert plan.new.pieces[0].position == len(FIRST) + (second == SECOND) * len(SECOND)
        assert scans == [(last,), *more]
        scans.clear()
    with pytest.raises(AnotherLog, match="ends at offset 5, the lake has read it up to 6"):
        planned(folder, [FIRST, SECOND], read._replace(end_offset=6))


def test_the_cut_is_after_the_newest_batch_that_log_and_lake_share(folder):
    plan = planned(folder, CUT_BACK, READ)
    assert plan.cut == CutBack(5, 10, progress(FIRST, SECOND))
    assert (plan.start_offset, plan.read_again, plan.lost_from) == (5, True, None)
    assert plan.new is not None and plan.new.start_offset == 5
    assert plan.reread is not None and (plan.reread.start_offset, plan.reread.end_offset) == (0, 5)
    assert plan.before == plan.cut.before


def test_the_note_names_the_range_and_where_the_log_ends_now(folder):
    plan = planned(folder, CUT_BACK, READ)
    assert plan.cut.note(0, plan.log) == (
        "the log of partition 0 was cut back: the range from 5 to 9 is replaced, the log now ends at 7; it was read "
        "again from its start"
    )


def test_without_a_checksum_the_topic_id_must_identify_the_log(folder):
    with pytest.raises(AnotherLog, match="if the log has changed, --accept-log-change"):
        planned(folder, CUT_BACK, READ._replace(topic_id=None))
    plan = planned(folder, CUT_BACK, progress(FIRST, topic_id=None), READ._replace(topic_id=None))
    assert plan.cut is not None and plan.cut.from_offset == 5


def test_a_shorter_log_without_a_later_leader_may_be_an_older_copy(folder):
    with pytest.raises(
        AnotherLog,
        match=r"ends at offset 5, the lake has read it up to 10: if this is an older copy, .*, --acc",
    ):
        planned(folder, [FIRST, SECOND], READ)
    plan = planned(folder, [FIRST, SECOND], READ, accept=True)
    assert plan.cut == CutBack(5, 10, progress(FIRST, SECOND))


def test_another_log_is_not_taken_for_one_that_was_cut_back(folder):
    """The newest reading that ended before the cut shows it, by its last batch's checksum."""
    others = [batch(at, commits(count, 7), leader_epoch=4) for at, count in ((0, 3), (3, 2))]
    with pytest.raises(AnotherLog, match="--accept-log-change"):
        planned(folder, [*others, LATER], progress(FIRST, SECOND), READ)
    plan = planned(folder, [*others, LATER], progress(FIRST, SECOND), READ, accept=True)
    assert plan.cut == CutBack(0, 10, None)
    assert plan.cut.note(0, plan.log) == (
        "partition 0 is read again (--accept-log-change): all that was read of it up to 10 is replaced, the log now "
        "is 0 to 7"
    )
    assert (plan.reread, plan.read_again, plan.before) == (None, False, None)
    assert plan.new is not None


def test_an_older_reading_identifies_the_log_where_the_cleaner_removed_a_last_batch(folder):
    third, fourth, lost = (batch(at, commits(count), leader_epoch=4) for at, count in ((3, 1), (4, 1), (5, 5)))

    def read(first):
        return [progress(first), progress(first, third), progress(first, third, fourth, lost)]

    cleaned = (FIRST, fourth, LATER)
    assert planned(folder, cleaned, *read(FIRST)).cut == CutBack(5, 10, progress(FIRST, third, fourth))
    with pytest.raises(AnotherLog, match="--accept-log-change"):
        planned(folder, cleaned, *read(batch(0, commits(3, 7), leader_epoch=4)))


def test_readings_that_were_replaced_since_are_ignored(folder):
    """Audit 1 read batches that no longer exist; audit 2 found that."""
    gone = progress(FIRST, batch(3, commits(2, 7), leader_epoch=4))
    replaced = Replaced((ReplacedRange(0, 3, 5, 2),))
    with pytest.raises(AnotherLog, match="--accept-log-change"):
        planned(folder, CUT_BACK, gone, READ)
    assert planned(folder, CUT_BACK, gone, READ, replaced=replaced).cut == CutBack(5, 10, progress(FIRST, SECOND))
    of_another = Replaced((ReplacedRange(1, 3, 5, 2),))
    with pytest.raises(AnotherLog, match="--accept-log-change"):
        planned(folder, CUT_BACK, gone, READ, replaced=of_another)


def test_a_reading_of_an_older_epoch_identifies_the_log_where_the_last_epoch_is_gone(folder):
    """Epoch 5 wrote the lost batches: the log has none of them, but all that audit 1 read in epoch 4."""
    last = progress(FIRST, SECOND, batch(5, commits(5), leader_epoch=5))
    assert planned(folder, CUT_BACK, progress(FIRST), last).cut == CutBack(3, 10, progress(FIRST))
    with pytest.raises(AnotherLog, match="--accept-log-change"):
        planned(folder, CUT_BACK, last)


def test_only_the_newest_64_readings_are_looked_up(folder):
    last = progress(FIRST, SECOND, batch(5, commits(5), leader_epoch=5))
    assert planned(folder, CUT_BACK, progress(FIRST), *[last] * 63).cut is not None
    with pytest.raises(AnotherLog, match="--accept-log-change"):
        planned(folder, CUT_BACK, progress(FIRST), *[last] * 64)


def test_a_cut_into_reduced_history_is_refused(folder):
    assert planned(folder, CUT_BACK, READ, reduced_to=5).cut is not None
    with pytest.raises(
        AnotherLog, match="differs from offset 5 on, in history that kgroups maintain --keep has reduced"
    ):
        planned(folder, CUT_BACK, READ, reduced_to=6)
    assert planned(folder, CUT_BACK, READ, reduced_to=6, accept=True).cut == CutBack(0, 10, None)


def test_a_log_that_lost_all_before_the_cut_needs_accept_log_change(folder):
    with pytest.raises(AnotherLog, match="--accept-log-change"):
        planned(folder, [LATER], READ, starts_at=5)
    plan = planned(folder, [LATER], READ, starts_at=5, accept=True)
    assert plan.new is not None
    assert (plan.cut, plan.start_offset) == (CutBack(0, 10, None), 5)


def test_readings_are_those_of_finished_audits_newest_first():
    entries = [progress(FIRST), progress(FIRST, SECOND), READ]
    of_others = [READ._replace(topic="__transaction_state"), READ._replace(offsets_partition=1)]
    ledger = rows_of(
        "audits",
        *(
            {"audit_id": n, "status": FINISHED, "partitions": reported(each, *of_others)}
            for n, each in enumerate(entries, 1)
        ),
        {"audit_id": 2, "status": RUNNING, "partitions": reported(READ)},
        {"audit_id": 4, "status": FINISHED, "partitions": reported(READ)},
    )

    def rows(name, columns, conditions):
        assert name == "audits"
        return pa.dataset.dataset(ledger).to_table(columns, filter=expression_of(conditions))

    last = AuditRow(3, FINISHED, "host", THEN, replaced_ranges=(ReplacedRange(0, 3, 5, 2),))
    readings = KnownReadings.of(cast(Lake, SimpleNamespace(rows=rows)), last, accept=True)
    assert list(readings.earlier(0)) == [(3, READ), (2, entries[1]), (1, entries[0])]
    assert list(readings.earlier(2)) == []
    assert (readings.replaced, readings.accept) == (last.replaced, True)


def reported(*entries):
    return [each._asdict() for each in entries]


def headers(**columns):
    """Headers of a batch of 3 records at 0 and of LOST, with some columns of LOST changed."""
    found = scan_batches(io.BytesIO(FIRST + LOST))
    for name, value in columns.items():
        getattr(found, name)[1] = value
    return found


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, True),
        ({"attributes": 0x40}, False),
        ({"leader_epoch": -1}, False),
        ({"magic": 1, "leader_epoch": -1}, True),
        ({"record_count": 4}, False),
        ({"last_offset": 8, "record_count": 4}, False),
    ],
    ids=["as written", "a delete horizon", "an old message", "still an old message", "a record went", "another end"],
)
def test_the_checksum_of_a_batch_that_the_cleaner_may_have_rewritten_does_not_count(columns, expected):
    assert is_untouched(headers(**columns), READ) is expected
