"""The log times that count, and when an audit judges by them: rules as pure functions, then whole nights."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from kgroups_spark.decoding.log_times import (
    CHECK_MS,
    CLOCKS_DIFFER_MS,
    LONGEST_JUMP_MS,
    NEWEST,
    LogTimes,
    live_as_of,
    newest_plausible,
)
from kgroups_spark.decoding.range_progress import RangeProgress
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.records.segment import read_segment
from kgroups_spark.tasks.read_stage import progress_from_json, progress_to_json
from kgroups_spark.times import LAST_MS, to_epoch_ms
from tests.chosen import one_of, some_of
from tests.findings.logs import DAY, HOUR, MINUTE, Log
from tests.logs.log_files import borders, files_of_nights
from tests.nights.nights_here import CLOCK_MS, Audited, How, audit
from tests.nights.reported_tables import Row
from tests.records.build import batch, message, record

NOW = CLOCK_MS
YEAR_2040 = 2_208_988_800_000
OLD = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


def times_of(*batches: int, clock_ms: int = NOW, chunk_bytes: int = 1 << 20) -> LogTimes:
    """Log times of a range: for each of these times it has a batch of one record."""
    return read(
        b"".join(batch(i, [(b"k", b"v")], base_timestamp=ms) for i, ms in enumerate(batches)), clock_ms, chunk_bytes
    )


def read(log: bytes, clock_ms: int = NOW, chunk_bytes: int = 1 << 20) -> LogTimes:
    found = LogTimes(clock_ms + CLOCKS_DIFFER_MS)
    for item in read_segment(io.BytesIO(log), chunk_bytes=chunk_bytes):
        assert isinstance(item, RecordColumns)
        found.add(item)
    return found


def newest(*batches: int, clock_ms: int = NOW, known: tuple[int, ...] = ()) -> int | None:
    times = [(0, times_of(*batches, clock_ms=clock_ms))]
    return newest_plausible(times, clock_ms, dict(enumerate(known, 1))).ms


DAYS = [OLD + number * DAY for number in range(5)]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([], None),
        ([OLD], OLD),
        ([YEAR_2040], None),
        ([-1, -1], None),
        (DAYS, DAYS[-1]),
        ([*DAYS, YEAR_2040], DAYS[-1]),
        ([YEAR_2040, *DAYS], DAYS[-1]),
        ([*DAYS, YEAR_2040, YEAR_2040 + 1], DAYS[-1]),
        ([*DAYS, 2**61], DAYS[-1]),
        ([*DAYS, OLD + 300 * DAY], DAYS[-1]),
        ([*DAYS, OLD + 300 * DAY, OLD + 600 * DAY], DAYS[-1]),
        ([*DAYS, OLD + 300 * DAY, OLD + 300 * DAY + 1], OLD + 300 * DAY + 1),
        ([*DAYS, NOW - HOUR], NOW - HOUR),
        ([*DAYS, NOW + HOUR], NOW + HOUR),
        ([*DAYS, NOW + CLOCKS_DIFFER_MS + 1], DAYS[-1]),
        ([OLD, OLD + 31 * DAY, OLD + 62 * DAY], OLD + 62 * DAY),
        ([*DAYS, DAYS[-1] + 30 * DAY], DAYS[-1] + 30 * DAY),
        ([*DAYS, DAYS[-1] + 31 * DAY], DAYS[-1]),
        ([OLD, YEAR_2040], OLD),
        # The log continued below it.
        ([*DAYS, OLD + 24 * DAY, DAYS[-1] + HOUR], DAYS[-1] + HOUR),
        ([OLD + 20 * DAY, OLD], OLD),
        ([NOW - HOUR, *DAYS], DAYS[-1]),
        ([*DAYS, *[OLD + 24 * DAY] * 3, *DAYS[-3:]], DAYS[-1]),
        ([*DAYS, *[OLD + 24 * DAY] * 50, *[DAYS[-1]] * 8], DAYS[-1]),
        # Nothing contradicts it, or not enough does.
        ([*DAYS, OLD + 24 * DAY], OLD + 24 * DAY),
        ([*DAYS, OLD + 24 * DAY, OLD + 24 * DAY, DAYS[-1]], OLD + 24 * DAY),
        ([*DAYS, 0], DAYS[-1]),
        ([*DAYS, *[DAYS[-1]] * 12, 0, 0, 0], DAYS[-1]),
        # A clock that is corrected by hours.
        ([*DAYS, *[DAYS[-1] - 20 * HOUR] * 40], DAYS[-1]),
    ],
    ids=str,
)
def test_a_time_counts_if_something_agrees_with_it(batches: list[int], expected: int | None) -> None:
    assert newest(*batches) == expected


def test_a_slow_clock_is_reported_from_a_broken_time() -> None:
    """The machine's clock is in 2010. A log of many batches is right, one batch alone is not."""
    slow = 1_262_304_000_000
    found = newest_plausible([(0, times_of(*DAYS, YEAR_2040, clock_ms=slow))], slow)
    assert found.ms == DAYS[-1]
    assert "the whole log is ahead of this machine's clock (2010-01-01 00:00:00 UTC)" in found.notes[0]
    assert "offset 5 of partition 0 is stamped 2040-01-01 00:00:00 UTC" in found.notes[1]
    assert newest(OLD, clock_ms=slow) is None
    assert newest_plausible([], slow, {0: OLD, 1: OLD + DAY}).ms == OLD + DAY


def test_times_known_to_earlier_audits_still_count() -> None:
    assert newest(known=(OLD, OLD + 100 * DAY)) == OLD + 100 * DAY
    assert newest(OLD + 101 * DAY, known=(OLD, OLD + 100 * DAY)) == OLD + 101 * DAY
    assert newest(OLD + 300 * DAY, known=(OLD, OLD + 100 * DAY)) == OLD + 100 * DAY
    assert newest(OLD, known=(YEAR_2040,)) == OLD
    assert newest(known=(YEAR_2040,)) is None


def test_a_known_time_is_given_up_where_the_log_goes_on_below_it() -> None:
    """Partition 0 ended at a wrong time, which an audit believed."""
    far = OLD + 20 * DAY
    known = {0: far, 1: OLD}
    assert newest_plausible([(1, times_of(OLD + HOUR, OLD + HOUR))], NOW, known).ms == far
    assert newest_plausible([(0, times_of(OLD + HOUR))], NOW, known).ms == far
    found = newest_plausible([(0, times_of(OLD + HOUR, OLD + 2 * HOUR))], NOW, known)
    assert found == (
        OLD + 2 * HOUR,
        (
            "an earlier audit went by 2023-12-04 22:13:20 UTC in partition 0, but the log went on 19d 22h below it: "
            "as_of does not go by it any more",
        ),
    )


def times_of_ranges(rng: random.Random, stamps: list[int]) -> list[LogTimes]:
    """The times of a partition that several tasks read, each some batches of it."""
    cuts = sorted(rng.sample(range(len(stamps) + 1), min(3, len(stamps))))
    found = []
    for start, stop in pairwise([0, *cuts, len(stamps)]):
        log = b"".join(batch(i, [(b"k", b"v")], base_timestamp=stamps[i]) for i in range(start, stop))
        found.append(read(log, chunk_bytes=700))
    return rng.sample(found, len(found))


def newest_by_twin(partitions: list[list[int]]) -> int | None:
    """The rules over whole logs, word by word; every time is at most a day after NOW."""
    ends = []
    for stamps in partitions:
        last = stamps[-16:]
        for at, ms in enumerate(last):
            below = [each for each in last[at + 1 :] if each < ms - DAY]
            beside = [each for each in last if each >= ms - DAY]
            if len(below) < len(beside):
                ends.append(ms)
    ends.sort(reverse=True)
    for ms, older in zip(ends, [*ends[1:], None], strict=True):
        if abs(NOW - ms) <= 30 * DAY or (older is not None and ms - older <= 30 * DAY):
            break
    else:
        ms = max(ends, default=-1)
    return max((each for stamps in partitions for each in stamps if each <= ms + DAY), default=None)


@pytest.mark.parametrize("seed", some_of(4, *range(40)))
def test_the_rules_equal_their_twin_whichever_task_reads_a_range(seed: int) -> None:
    rng = random.Random(seed)
    partitions = []
    for _ in range(rng.randrange(1, 4)):
        stamps, ms = [], OLD + rng.randrange(DAY)
        for _ in range(rng.randrange(40)):
            ms += rng.choice([0, 1, MINUTE, HOUR, DAY, 40 * DAY]) if rng.random() < 0.3 else 0
            odd = rng.choice([-20 * DAY, -2 * HOUR, 2 * HOUR, 20 * DAY, 300 * DAY]) if rng.random() < 0.1 else 0
            stamps.append(ms + odd)
        partitions.append(stamps)
    times = [(number, each) for number, stamps in enumerate(partitions) for each in times_of_ranges(rng, stamps)]
    assert newest_plausible(times, NOW).ms == newest_by_twin(partitions)


@pytest.mark.parametrize("seed", some_of(4, *range(40)))
def test_one_broken_time_changes_nothing(seed: int) -> None:
    """Partitions whose leaders' clocks differ by hours; some pause. One batch that is not its partition's last is
    stamped too late, or any one too early."""
    rng = random.Random(seed)
    partitions: list[list[int]] = [[] for _ in range(rng.randrange(1, 4))]
    ms = OLD
    for _ in range(rng.randrange(20, 100)):
        ms += rng.choice([MINUTE, HOUR, 20 * HOUR])
        rng.choice(partitions).append(ms + rng.randrange(-2 * HOUR, 2 * HOUR))
    expected = max(each for stamps in partitions for each in stamps)
    sound = [(number, times_of(*stamps)) for number, stamps in enumerate(partitions)]
    assert newest_plausible(sound, NOW).ms == expected
    broken = rng.choice([stamps for stamps in partitions if stamps])
    if rng.random() < 0.5:
        broken.insert(rng.randrange(len(broken)), rng.randrange(expected + DAY + 1, NOW))
    else:
        broken.insert(rng.randrange(len(broken) + 1), rng.choice([0, expected - 400 * DAY]))
    times = [(number, each) for number, stamps in enumerate(partitions) for each in times_of_ranges(rng, stamps)]
    assert newest_plausible(times, NOW).ms == expected


def test_the_record_that_does_not_count_is_named() -> None:
    times = [(3, times_of(*DAYS, OLD + 300 * DAY)), (7, times_of(OLD, YEAR_2040, YEAR_2040)), (8, times_of(2**61))]
    assert newest_plausible(times, NOW).notes == (
        f"the record at offset 0 of partition 8 is stamped {2**61} ms, which is after the year 9999: no time goes "
        "by it",
        "the record at offset 5 of partition 3 is stamped 2024-09-09 22:13:20 UTC, 296d ahead of the rest of the log: "
        "as_of does not go by it",
        "the record at offset 2 of partition 7 (one of 2 such records) is stamped 2040-01-01 00:00:00 UTC, 5887d 1h "
        "ahead of the rest of the log: as_of does not go by it",
    )


def test_records_of_a_batch_with_plausible_times_count() -> None:
    body = b"".join(record(i, b"k", b"v", delta) for i, delta in enumerate((5, YEAR_2040 - OLD, 2**61, 7)))
    found = read(batch(9, [], body=body, count=4, last_offset_delta=3, base_timestamp=OLD))
    assert (found.newest, found.ahead, found.impossible) == ([(OLD + 7, 12)], [(YEAR_2040, 10)], (OLD + 2**61, 11))
    assert read(message(0, b"k", b"v", magic=0) + message(1, b"k", b"v", magic=1, timestamp=OLD)).newest == [(OLD, 1)]


@pytest.mark.parametrize("seed", one_of(*range(5)))
def test_the_newest_batches_do_not_depend_on_chunks_and_survive_the_way_to_the_driver(seed: int) -> None:
    rng = random.Random(seed)
    stamps = [rng.choice([rng.randrange(NOW), YEAR_2040 + rng.randrange(DAY), -1, 2**60]) for _ in range(300)]
    found = times_of(*stamps, chunk_bytes=700)
    assert found == times_of(*stamps)
    sound = [(ms, at) for at, ms in enumerate(stamps) if 0 <= ms <= NOW]
    assert found.newest == sorted(sound)[::-1][:NEWEST]
    assert found.last == sound[-NEWEST:]
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
        (NOW - 1000, NOW + 500, NOW - HOUR, NOW, None),
    ],
)
def test_a_live_audit_judges_by_the_brokers_clocks_as_far_as_they_show(
    newest_ms: int | None, appended: int | None, before: int | None, expected: int, said: str | None
) -> None:
    judged = live_as_of(NOW, newest_ms, appended, before)
    assert judged.ms == expected
    assert (said in judged.notes[0]) if said else not judged.notes


@pytest.mark.parametrize("seed", some_of(5, *range(20)))
def test_as_of_never_goes_back_nor_before_what_was_read(seed: int) -> None:
    """Clocks of clients that are up to half a day wrong, one after the other, beside a broker that is right."""
    rng, now, before = random.Random(seed), NOW, None
    for _ in range(50):
        now += rng.choice([MINUTE, HOUR, DAY])
        clock, idle = now + rng.choice([-1, 0, 1]) * rng.randrange(DAY // 2), rng.random() < 0.5
        newest_ms = now - (rng.randrange(DAY) if idle else rng.randrange(1000))
        judged = live_as_of(clock, newest_ms, None if idle else now + 50, before).ms
        assert judged >= newest_ms
        assert before is None or judged >= before or before > clock + CLOCKS_DIFFER_MS
        if not idle:
            assert judged <= max(now + 50, before or 0)
        before = judged


# Whole nights.


AT_NOW = How(clock_ms=NOW)


def as_of_ms(audited: Audited) -> int:
    assert audited.newest.as_of is not None
    return to_epoch_ms(audited.newest.as_of)


def test_a_record_twenty_days_ahead_of_those_after_it_expires_nothing() -> None:
    log = Log(now=OLD).commit("g").later(20 * DAY).commit("h").later(HOUR - 20 * DAY).commit("i")
    places = borders(log.files, 0)
    until_it, _ = files_of_nights(log.files, {0: [[places[2]], [places[-1]]]})
    audited = audit(log.files, AT_NOW)
    assert (as_of_ms(audited), set(audited.table("offset_expiry")["decision"].to_pylist())) == (OLD + HOUR, {"keep"})
    assert audited.newest.notes == (
        "the record at offset 1 of partition 0 is stamped 2023-12-04 22:13:20 UTC, 19d 23h ahead of the rest of the "
        "log: as_of does not go by it",
    )
    assert as_of_ms(audit(log.files, replace(AT_NOW, as_of=NOW))) == NOW
    # Nothing contradicts it as long as it is the last one.
    audited = audit(until_it, AT_NOW)
    assert as_of_ms(audited) == OLD + 20 * DAY
    log.later(HOUR).commit("i")
    audited.night(log.files, AT_NOW)
    assert as_of_ms(audited) == OLD + 2 * HOUR
    assert any("an earlier audit went by 2023-12-04" in note for note in audited.newest.notes or ())


def test_a_record_after_the_year_9999_fails_no_audit() -> None:
    log = Log(now=OLD).commit("g").later(2**61 - OLD).commit("h")
    first = audit(log.files, AT_NOW)
    assert (as_of_ms(first), first.newest.newest_log_timestamp) == (OLD, datetime.fromtimestamp(OLD / 1000, UTC))
    assert any("offset 1 of partition 0 is stamped" in note for note in first.newest.notes or ())
    assert any("offset 1 of partition 0" in line for line in first.nights[-1].lines())
    assert as_of_ms(audit(log.files, replace(AT_NOW, as_of=NOW))) == NOW


@pytest.mark.parametrize("last_year", [253_402_300_799_999, 253_402_300_800_000])
def test_the_last_year_is_ahead_like_any_other(last_year: int) -> None:
    log = Log(now=OLD).commit("g").later(last_year - OLD).commit("h")
    assert as_of_ms(audit(log.files, AT_NOW)) == OLD


def test_a_record_of_2040_expires_nothing_and_the_next_night_goes_on() -> None:
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


def test_a_lake_that_was_judged_as_of_2040_recovers() -> None:
    """With the ledgers that earlier versions left."""
    log = Log(now=OLD).commit("g").later(HOUR).commit("h")
    places = borders(log.files, 0)
    first, second = files_of_nights(log.files, {0: [[places[1]], [places[-1]]]})
    spoilt = audit(first, AT_NOW)
    far = datetime.fromtimestamp(YEAR_2040 / 1000, UTC)
    spoilt.rewrite_ledger(lambda row: _as_of(row, far))
    spoilt.night(second, AT_NOW)
    assert as_of_ms(spoilt) == OLD + HOUR


def _as_of(row: Row, far: datetime) -> Row:
    """A row of a finished audit that judged by that time."""
    if row["as_of"] is None:
        return row
    partitions = [{**each, "newest_log_timestamp": far} for each in row["partitions"]]
    return {**row, "as_of": far, "newest_log_timestamp": far, "partitions": partitions}


def test_partitions_have_no_time_after_the_newest_time_of_the_log() -> None:
    sound, broken = (
        Log(0, OLD).commit("g").later(HOUR).commit("g"),
        Log(1, OLD).commit("h").later(300 * DAY).commit("h"),
    )
    found = audit({**sound.files, **broken.files}, AT_NOW)
    assert found.newest.partitions is not None
    assert [each.newest_log_timestamp for each in found.newest.partitions] == [
        datetime.fromtimestamp((OLD + HOUR) / 1000, UTC),
        datetime.fromtimestamp(OLD / 1000, UTC),
    ]
    assert LONGEST_JUMP_MS < 300 * DAY < NOW + CLOCKS_DIFFER_MS <= LAST_MS
