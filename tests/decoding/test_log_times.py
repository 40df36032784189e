"""The log times that count, and when an audit judges by them: rules as pure functions, then whole nights."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, datetime

import pytest

from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import read_segment
from kgroups_spark.replay.ranges import (
    CHECK_MS,
    CLOCKS_DIFFER_MS,
    LogTimes,
    RangeProgress,
    ahead_notes,
    live_as_of,
    newest_time,
)
from kgroups_spark.replay.stages import progress_from_json, progress_to_json
from kgroups_spark.words import to_epoch_ms
from tests.chosen import one_of, some_of
from tests.findings.logs import DAY, HOUR, MINUTE, Log
from tests.logs.log_files import borders, files_of_nights
from tests.nights.nights_here import CLOCK_MS, How, audit
from tests.records.build import batch, message, record

NOW = CLOCK_MS
YEAR_2040 = 2_208_988_800_000
OLD = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


def times_of(*batches, clock_ms=NOW, chunk_bytes=1 << 20):
    """Log times of a range: for each of these times it has a batch of one record."""
    return read(
        b"".join(batch(i, [(b"k", b"v")], base_timestamp=ms) for i, ms in enumerate(batches)), clock_ms, chunk_bytes
    )


def read(log, clock_ms=NOW, chunk_bytes=1 << 20):
    found = LogTimes(clock_ms + CLOCKS_DIFFER_MS)
    for item in read_segment(io.BytesIO(log), chunk_bytes=chunk_bytes):
        assert isinstance(item, RecordColumns)
        found.add(item)
    return found


def newest(*batches, clock_ms=NOW, known=()):
    return newest_time([times_of(*batches, clock_ms=clock_ms)], known)


DAYS = [OLD + number * DAY for number in range(5)]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([], None),
        ([OLD], OLD),
        ([0], 0),
        ([-1, -1], None),
        ([-2], None),
        ([YEAR_2040], None),
        (DAYS, DAYS[-1]),
        ([*DAYS, YEAR_2040], DAYS[-1]),
        ([YEAR_2040, *DAYS], DAYS[-1]),
        ([*DAYS, 2**61], DAYS[-1]),
        # A broker that was off for months, and a step back of a clock.
        ([*DAYS, OLD + 300 * DAY], OLD + 300 * DAY),
        ([OLD + 20 * DAY, OLD], OLD + 20 * DAY),
        ([*DAYS, NOW + CLOCKS_DIFFER_MS], NOW + CLOCKS_DIFFER_MS),
        ([*DAYS, NOW + CLOCKS_DIFFER_MS + 1], DAYS[-1]),
    ],
    ids=str,
)
def test_a_time_counts_from_1970_until_a_day_after_the_clock(batches, expected):
    assert newest(*batches) == expected


def test_times_known_to_earlier_audits_still_count():
    assert newest(known=(OLD, OLD + 100 * DAY)) == OLD + 100 * DAY
    assert newest(OLD + 101 * DAY, known=(OLD,)) == OLD + 101 * DAY
    assert newest(OLD, known=(OLD + DAY,)) == OLD + DAY


def test_the_latest_record_that_does_not_count_is_named():
    clock = "more than a day ahead of this machine's clock (2026-11-22 00:00:00 UTC)"
    one = [(3, times_of(*DAYS)), (7, times_of(OLD, YEAR_2040))]
    assert ahead_notes(one, NOW, DAYS[-1], None) == [
        f"the record at offset 1 of partition 7 is stamped 2040-01-01 00:00:00 UTC, {clock}: its time does not count"
    ]
    assert ahead_notes([*one, (8, times_of(2**61))], NOW, DAYS[-1], None) == [
        f"the record at offset 0 of partition 8 (one of 2 such records) is stamped {2**61} ms, which is after the year "
        f"9999, {clock}: its time does not count"
    ]
    assert not ahead_notes([(3, times_of(*DAYS, NOW + CLOCKS_DIFFER_MS, -1))], NOW, NOW + CLOCKS_DIFFER_MS, None)


def test_a_clock_that_is_far_behind_is_named():
    slow = 1_262_304_000_000
    note = (
        "all log times are more than a day ahead of this machine's clock (2010-01-01 00:00:00 UTC), so none counts: "
        "set the clock, or give --as-of"
    )
    assert ahead_notes([(0, times_of(*DAYS, clock_ms=slow))], slow, None, None) == [note]
    # Nothing new was read.
    assert ahead_notes([], slow, None, OLD) == [note]
    # A log without times, and an empty one.
    assert ahead_notes([(0, times_of(-1))], slow, None, None) == []
    assert ahead_notes([], slow, None, None) == []


def test_records_of_a_batch_with_plausible_times_count():
    body = b"".join(record(i, b"k", b"v", delta) for i, delta in enumerate((5, YEAR_2040 - OLD, 2**61, 7)))
    found = read(batch(9, [], body=body, count=4, last_offset_delta=3, base_timestamp=OLD))
    assert (found.newest_ms, found.ahead_ms, found.ahead_offset, found.ahead_records) == (OLD + 7, OLD + 2**61, 11, 2)
    old_formats = read(message(0, b"k", b"v", magic=0) + message(1, b"k", b"v", magic=1, timestamp=OLD))
    assert (old_formats.newest_ms, old_formats.ahead_records) == (OLD, 0)


@pytest.mark.parametrize("seed", one_of(*range(5)))
def test_the_times_do_not_depend_on_chunks_and_survive_the_way_to_the_driver(seed):
    rng = random.Random(seed)
    stamps = [rng.choice([rng.randrange(NOW), YEAR_2040 + rng.randrange(DAY), -1, 2**60]) for _ in range(300)]
    found = times_of(*stamps, chunk_bytes=700)
    assert found == times_of(*stamps)
    assert found.newest_ms == max(ms for ms in stamps if 0 <= ms <= NOW)
    assert (found.ahead_ms, found.ahead_offset) == (2**60, stamps.index(2**60))
    assert found.ahead_records == sum(ms >= YEAR_2040 for ms in stamps)
    progress = RangeProgress(0, 0, 0, 0, log_times=found)
    assert progress_from_json(json.loads(json.dumps(progress_to_json(progress)))) == progress


# A live log.


@pytest.mark.parametrize(
    ("newest_ms", "appended", "before", "expected", "said"),
    [
        (NOW - 1000, NOW + 500, None, NOW, None),
        (NOW - 1000, None, None, NOW, None),
        (NOW - CHECK_MS - 1, None, None, NOW, "which nothing confirms: the newest record is 10m old"),
        (NOW - HOUR, NOW + 500, None, NOW, None),
        (None, None, None, NOW, None),
        # The clock is an hour ahead: what came meanwhile is stamped an hour ago.
        (NOW - HOUR - 3000, NOW - HOUR + 200, None, NOW - HOUR + 200, "clock is 59m 59s ahead of the brokers'"),
        # It is an hour behind: records that were read are after it.
        (NOW + HOUR, NOW + HOUR + 200, None, NOW + HOUR, "clock is behind the brokers': the newest record is 1h ahead"),
        (NOW + 2000, None, None, NOW + 2000, None),
        (NOW - 1000, NOW + 500, NOW + HOUR, NOW + HOUR, "as_of stays at"),
        (NOW - 1000, NOW + 500, YEAR_2040, NOW, None),
        (NOW - 1000, NOW + 500, NOW, NOW, None),
    ],
)
def test_a_live_audit_judges_by_the_brokers_clocks_as_far_as_they_show(newest_ms, appended, before, expected, said):
    judged, notes = live_as_of(NOW, newest_ms, appended, before)
    assert judged == expected
    assert (said in notes[0]) if said else not notes


@pytest.mark.parametrize("seed", some_of(5, *range(20)))
def test_as_of_never_goes_back_nor_before_what_was_read(seed):
    """Clocks of clients that are up to half a day wrong, one after the other, beside a broker that is right."""
    rng, now, before = random.Random(seed), NOW, None
    for _ in range(50):
        now += rng.choice([MINUTE, HOUR, DAY])
        clock, idle = now + rng.choice([-1, 0, 1]) * rng.randrange(DAY // 2), rng.random() < 0.5
        newest_ms = now - (rng.randrange(DAY) if idle else rng.randrange(1000))
        judged, _ = live_as_of(clock, newest_ms, None if idle else now + 50, before)
        assert judged >= newest_ms
        assert before is None or judged >= before or before > clock + CLOCKS_DIFFER_MS
        if not idle:
            assert judged <= max(now + 50, before or 0)
        before = judged


# Whole nights.


AT_NOW = How(clock_ms=NOW)


def as_of_ms(audited):
    assert audited.newest.as_of is not None
    return to_epoch_ms(audited.newest.as_of)


def test_a_broker_that_was_off_for_months_is_judged_by_its_newest_record():
    """A public folder of 2026: one batch was written after 252 days in which the broker was off."""
    log = Log(now=OLD).commit("g").later(252 * DAY).commit("h")
    audited = audit(log.files, AT_NOW)
    assert (as_of_ms(audited), audited.newest.notes) == (OLD + 252 * DAY, ())
    decisions = {row["group_id"]: row["decision"] for row in audited.table("offset_expiry").to_pylist()}
    assert decisions == {"g": "expire", "h": "keep"}


def test_a_record_of_2040_expires_nothing_and_the_next_night_goes_on():
    log = Log(now=OLD).commit("g").later(YEAR_2040 - OLD).commit("h").later(OLD + HOUR - YEAR_2040).commit("i")
    places = borders(log.files, 0)
    first, second = files_of_nights(log.files, {0: [[places[2]], [places[-1]]]})
    audited = audit(first, AT_NOW)
    assert (as_of_ms(audited), audited.table("offset_expiry")["decision"].to_pylist()) == (OLD, ["keep", "keep"])
    assert [note for note in audited.newest.notes or () if "2040" in note]
    audited.night(second, AT_NOW)
    assert (as_of_ms(audited), audited.newest.notes) == (OLD + HOUR, ())
    assert audited.newest.partitions is not None
    assert audited.newest.partitions[0].newest_log_timestamp == datetime.fromtimestamp((OLD + HOUR) / 1000, UTC)
