"""A checkpoint of high watermarks that is older than the log: a folder that was copied, and its checkpoint was not."""

from __future__ import annotations

import struct

import pytest

from kgroups_spark.audit.options import AuditOptions
from kgroups_spark.audit.result import AuditSummary
from kgroups_spark.audit.run import run_audit
from tests.findings.logs import DAY, HOUR, MINUTE
from tests.nights.nights_here import CLOCK_MS, Audited, How, new_lake, patched, write_files
from tests.protocol.fake_delta import in_memory
from tests.records.build import batch
from tests.sources.checkpoints import TOPIC

OLD = CLOCK_MS - DAY


def commit(offset: int, ms: int) -> bytes:
    key = struct.pack(">h", 1) + b"\0\5group" + b"\0\5topic" + struct.pack(">i", 0)
    value = struct.pack(">hqi", 3, offset, -1) + b"\0\0" + struct.pack(">q", ms)
    return batch(offset, [(key, value)], base_timestamp=ms, max_timestamp=ms, leader_epoch=5)


def night(lake: Audited, committed: int, *times: int, topic: str = TOPIC) -> AuditSummary:
    """An audit of commits at these times, of which `committed` are below the high watermark."""
    log = lake.folder / "log"
    log.mkdir(exist_ok=True)
    data = b"".join(commit(offset, ms) for offset, ms in enumerate(times))
    write_files(log, {f"{topic}-0/{0:020}.log": data})
    (log / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} 0 {committed}\n")
    with in_memory(), patched(How(clock_ms=CLOCK_MS, findings=True)):
        done = run_audit(lake.session, AuditOptions(lake=lake.lake, segments=[str(log)], offsets_partitions=1))
    lake._ended(done)
    return done


@pytest.mark.parametrize(
    ("committed", "times", "is_stale"),
    [
        (2, (OLD, OLD + MINUTE, OLD + HOUR, OLD + HOUR + MINUTE + 1), True),
        (0, (OLD, OLD + HOUR), True),
        # A broker was idle for an hour, then wrote for a minute.
        (2, (OLD, OLD + MINUTE, OLD + HOUR, OLD + HOUR + MINUTE), False),
        (1, (OLD, OLD + HOUR), False),
        # The last one has no time, or one that does not count.
        (1, (OLD, OLD, -1), False),
        (1, (OLD, OLD, CLOCK_MS + 2 * DAY), False),
        (4, (OLD, OLD, OLD + HOUR, OLD + 2 * HOUR), False),
    ],
)
def test_a_checkpoint_that_hides_more_than_a_minute_is_a_shortfall(
    committed: int, times: tuple[int, ...], is_stale: bool
) -> None:
    lake = new_lake()
    done = night(lake, committed, *times)
    assert done.lacks_records == is_stale
    notes = [note for note in done.audit.notes or () if "at or above the high watermark" in note]
    assert len(notes) == (committed < len(times))
    assert any("it is older than the log of 1 partition (0)" in note for note in notes) == is_stale
    found = [row for row in lake.found() if row["finding"] == "stale_checkpoint"]
    assert [row["offsets_partition"] for row in found] == [0] * is_stale
    if is_stale:
        assert found[0]["detail"].startswith("2 offsets of offsets partition 0 were not read, 1")
    # With the file as it should be nothing is left to say.
    done = night(lake, len(times), *times)
    assert not done.lacks_records
    assert len(lake.rows("offset_commits")) == len(times)
