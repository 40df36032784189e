"""Which partitions are read again from their start, and which are not even examined."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kgroups_spark.audit.plan import DeleteRetention, PartitionPlan, plan_audit
from kgroups_spark.lake.ledger import FINISHED, RUNNING, AuditRow, PartitionProgress, Reading
from kgroups_spark.sources import segment_log
from kgroups_spark.words import to_epoch_ms
from tests.logs.segment_logs import segment_logs
from tests.records.build import batch

T0 = datetime(2026, 11, 20, 2, tzinfo=UTC)
HOUR, DAY_MS = timedelta(hours=1), 86_400_000
RECORDS = [(b"k", b"v")] * 3


def audit_row(
    audit_id: int, end_offset: int, *, records: int = 3, status: str = FINISHED, **columns: object
) -> AuditRow:
    """An audit of partition 0 a day after the one before; it read `records` of it."""
    progress = PartitionProgress(0, end_offset - records, end_offset, records=records)
    started_at = T0 + timedelta(days=audit_id)
    return AuditRow(audit_id, status, "host", started_at, partitions=(progress,), **columns)  # type: ignore[arg-type]


def reading(row: AuditRow) -> Reading:
    read = frozenset(each.offsets_partition for each in row.partitions or () if each.records or each.bytes)
    return Reading(row.started_at, row.newest_log_timestamp, read)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Offsets 0 to 2 in a segment of their own; 3 to 6 are gone; 7 to 9 are there."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(batch(0, RECORDS))
    (folder / f"{3:020}.log").write_bytes(batch(7, RECORDS))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 10\n")
    return tmp_path


def planned(
    log: Path,
    last: AuditRow,
    since: timedelta,
    *,
    earlier: tuple[AuditRow, ...] | None = None,
    full: bool = False,
) -> PartitionPlan:
    """The plan this long after the last audit; `earlier`: other rows of the ledger (None: it must not be read)."""

    def readings() -> Iterator[Reading]:
        assert earlier is not None
        rows = [row for row in earlier if row.status == FINISHED]
        yield from (reading(row) for row in sorted(rows, key=lambda row: -row.audit_id))

    now = to_epoch_ms(last.started_at + since)
    retention = DeleteRetention(DAY_MS, last, readings(), now)
    (partition,) = plan_audit(segment_logs([str(log)]), last, full=full, delete_retention=retention).partitions
    return partition


def test_missing_offsets_and_a_read_too_long_ago_are_reported(log: Path) -> None:
    partition = planned(log, audit_row(1, 3), 26 * HOUR)
    assert partition.why_read_again == (
        "partition 0 was read again from its start: last read 1d 2h ago, longer than delete.retention.ms (1d), "
        "and 4 of 7 offsets were gone"
    )
    assert partition.reread is not None
    assert (partition.reread.start_offset, partition.start_offset) == (0, 3)
    assert not planned(log, audit_row(1, 3), 24 * HOUR).read_again


def test_nothing_is_read_again_where_no_offset_is_missing(log: Path) -> None:
    (log / "__consumer_offsets-0" / f"{3:020}.log").write_bytes(batch(3, RECORDS))
    assert planned(log, audit_row(1, 3), 99 * HOUR).why_read_again is None
    assert planned(log, audit_row(1, 6), 99 * HOUR).why_read_again is None


def test_an_end_that_was_cleaned_away_is_missing_too(log: Path) -> None:
    folder = log / "__consumer_offsets-0"
    (folder / f"{3:020}.log").rename(folder / f"{9:020}.log")
    (folder / f"{9:020}.log").write_bytes(b"")
    partition = planned(log, audit_row(1, 3), 99 * HOUR)
    assert (partition.start_offset, partition.new) == (3, None)
    assert "and 6 of 6 offsets were gone" in (partition.why_read_again or "")


def test_a_deleted_start_of_the_log_is_missing_too(log: Path) -> None:
    (log / "__consumer_offsets-0" / f"{0:020}.log").unlink()
    partition = planned(log, audit_row(1, 2), 99 * HOUR)
    assert (partition.lost_from, partition.lost_to, partition.reread) == (2, 3, None)
    assert partition.read_again and "5 of 8 offsets" in (partition.why_read_again or "")


def test_log_timestamps_count_where_they_advanced_further_than_the_clock(log: Path) -> None:
    then = datetime.fromtimestamp(1, UTC)  # the batches' timestamps are at 1 s
    assert planned(log, audit_row(1, 3, newest_log_timestamp=then - timedelta(days=2)), HOUR).read_again
    assert not planned(log, audit_row(1, 3, newest_log_timestamp=then), HOUR).read_again


def test_the_last_read_is_by_the_audit_that_last_found_records(log: Path) -> None:
    idle = audit_row(3, 3, records=0)
    earlier = (audit_row(1, 3), audit_row(2, 3, records=0), audit_row(4, 3, status=RUNNING))
    why = planned(log, idle, HOUR, earlier=earlier).why_read_again
    assert why is not None and "last read 2d 1h ago" in why


def test_a_deleted_start_is_missing_even_if_other_gaps_are_known_only_by_reading(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_log.SegmentLog, "missing_from", lambda *_: None)
    undecided = planned(log, audit_row(1, 3), 99 * HOUR)
    assert (undecided.why_read_again, undecided.undecided is None) == (None, False)
    (log / "__consumer_offsets-0" / f"{0:020}.log").unlink()
    assert "and 1 of 8 offsets were gone" in (planned(log, audit_row(1, 2), 99 * HOUR).why_read_again or "")


def test_a_full_audit_needs_no_reason(log: Path) -> None:
    for since in (HOUR, 99 * HOUR):
        partition = planned(log, audit_row(1, 3), since, full=True)
        assert (partition.read_again, partition.why_read_again) == (True, None)
    assert planned(log, audit_row(1, 3), 99 * HOUR).why_read_again is not None
