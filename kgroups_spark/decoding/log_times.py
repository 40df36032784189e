"""Which log times are plausible, and the time up to which a log reaches according to them.

Coordinators stamp their records with their own clock, so a log's newest time shows when it was last written. But one
record with a broken time (a flipped bit before the checksum was made, a broker whose clock was wrong) would move
everything that depends on it: `as_of`, expiry decisions, findings, delete.retention.ms. So a time counts only if
another time agrees with it. The rules apply to batches, because all of a batch is stamped at once:
1. A time outside the years 1970 to 9999 never counts.
2. A time more than a day ahead of the audit's clock does not count (a wrong time zone makes up to 14 hours). If
   nothing else counts and two batches within thirty days of each other are ahead, then the audit's clock is wrong, and
   they count.
3. The order of the log counts, too. Among the last sixteen batches of its partition, a batch is contradicted if those
   after it that are more than a day below it are at least as many as those that are not, itself included. The log ends
   at the newest time of these batches, of all partitions, that is not contradicted and passes rule 4. A time more than
   a day above that end does not count, because the log went on below it. Only a step back contradicts a time: neither
   a pause nor the correction of a clock by less than a day does.
4. A time passes if the audit's clock is within thirty days of it, or if the next older batch is. If not, the next
   older one is tried. If none passes, nothing contradicts the newest, and it counts: a log of one record, a log with a
   batch a month.
5. A time that counted in earlier audits continues to count, unless the batches after it contradict it by rule 3. It
   weighs as two batches, so that one record cannot undo it.

Equally wrong times are believed until as many batches follow them, at most eight. A wrong time of a partition's last
batch is also believed, if it passes rule 4, because it looks like a log that paused. So is one that is less than a day
ahead.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.durations import DAY_MS, UNITS_MS, format_duration
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.times import LAST_MS, format_utc

# The greatest difference between the clocks of the audit and a broker, and the greatest jump of a log without a second
# batch.
CLOCKS_DIFFER_MS = DAY_MS
LONGEST_JUMP_MS = 30 * DAY_MS
# Each range keeps its NEWEST newest batches, and as many last ones.
NEWEST = 16
# The weight of a time that an earlier audit believed, in batches.
KNOWN_WEIGHS = 2
# Clocks that differ by no more than this count as equal.
CLOCKS_AGREE_MS = UNITS_MS["m"]
# offsets.retention.check.interval.ms: expiry is no more exact than this.
CHECK_MS = 10 * UNITS_MS["m"]
# In place of an offset: the time is from the ledger, not from this reading.
NOT_READ = -1

# (ms, log offset) of the newest record of a batch that counts.
BatchTime = tuple[int, int]


@dataclass
class LogTimes:
    """The newest batches of one range by their log times, newest first, and the last ones in log order. All fields have
    types of JSON.

    `latest_ms`: later times are `ahead`. `impossible`: the first record whose time is outside TIMESTAMP's range, and
    the number of such records.
    """

    latest_ms: int = LAST_MS
    newest: list[BatchTime] = field(default_factory=list)
    last: list[BatchTime] = field(default_factory=list)
    ahead: list[BatchTime] = field(default_factory=list)
    ahead_records: int = 0
    impossible: BatchTime | None = None
    impossible_records: int = 0

    def add(self, records: RecordColumns) -> None:
        if not len(records):
            return
        time = records.timestamp
        if int(time.max()) > self.latest_ms:
            beyond = time > LAST_MS
            ahead = (time > self.latest_ms) & ~beyond
            self._add_impossible(records, beyond)
            self.ahead_records += int(ahead.sum())
            self.ahead = heapq.nlargest(NEWEST, self.ahead + _Batches(records, np.where(ahead, time, -1)).newest())
            time = np.where(time > self.latest_ms, -1, time)
        batches = _Batches(records, time)
        self.newest = heapq.nlargest(NEWEST, self.newest + batches.newest())
        self.last = (self.last + batches.last())[-NEWEST:]

    def _add_impossible(self, records: RecordColumns, beyond: NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(beyond)
        self.impossible_records += len(rows)
        if self.impossible is None and len(rows):
            self.impossible = int(records.timestamp[rows[0]]), int(records.offset[rows[0]])


def log_times_from_json(payload: dict[str, Any]) -> LogTimes:
    """The LogTimes from its `vars` after a trip through JSON, which has no tuples."""
    impossible = payload["impossible"]
    return LogTimes(
        **{
            **payload,
            "newest": [(ms, offset) for ms, offset in payload["newest"]],
            "last": [(ms, offset) for ms, offset in payload["last"]],
            "ahead": [(ms, offset) for ms, offset in payload["ahead"]],
            "impossible": None if impossible is None else (impossible[0], impossible[1]),
        }
    )


class _Batches:
    """The batches of these records with the newest of these times in each; times below 0 do not count.

    The batches of six records, `batch` 0 0 1 1 1 2, start at rows 0, 2 and 5; their newest times are the
    maxima of rows 0..1, 2..4 and 5.
    """

    def __init__(self, records: RecordColumns, time: NDArray[np.int64]) -> None:
        self._offset, self._time = records.offset, time
        self._starts = np.flatnonzero(np.diff(records.batch, prepend=-1))
        self._newest = np.maximum.reduceat(time, self._starts)

    def newest(self) -> list[BatchTime]:
        return self._times(np.argsort(self._newest, kind="stable")[-NEWEST:])

    def last(self) -> list[BatchTime]:
        return self._times(np.flatnonzero(self._newest >= 0)[-NEWEST:])

    def _times(self, which: NDArray[np.int64]) -> list[BatchTime]:
        found = []
        for batch in which[self._newest[which] >= 0].tolist():
            stop = self._starts[batch + 1] if batch + 1 < len(self._starts) else len(self._time)
            row = int(self._starts[batch]) + int(np.argmax(self._time[self._starts[batch] : stop]))
            found.append((int(self._time[row]), int(self._offset[row])))
        return found


def believed_until_ms(newest_ms: int | None, started_ms: int) -> int:
    """The time, in ms, above which log times count nowhere: `newest_ms`, the newest log time that counts for the last
    finished audit (None: none does), or a day after that audit began, if that is later.

    A record above both is ahead of the clock of the audit that read it. A wrong time that is not ahead is believed in
    queries of the history, even if the rules above rejected it: such queries show the time in the record.
    """
    ahead = started_ms + CLOCKS_DIFFER_MS
    return ahead if newest_ms is None else max(newest_ms, ahead)


class Newest(NamedTuple):
    """The newest time that counts, ms (None: none does), and notes on times that do not count, with the reason."""

    ms: int | None
    notes: tuple[str, ...] = ()


class Judged(NamedTuple):
    """The moment of an audit's decisions, ms, and notes on how the clocks were weighed."""

    ms: int
    notes: tuple[str, ...] = ()


def newest_plausible(
    times: Sequence[tuple[int, LogTimes]], clock_ms: int, known: Mapping[int, int] | None = None
) -> Newest:
    """The newest time that counts, from the ranges' `times`, each with its offsets partition, and from `known`.

    `known`: by offsets partition, the time that counted in earlier audits, ms. It is believed unless it is ahead of
    `clock_ms`, the audit's clock, or the batches after it contradict it.
    """
    latest, known = clock_ms + CLOCKS_DIFFER_MS, known or {}
    before = {partition: ms for partition, ms in known.items() if ms <= latest}
    ends = _ends(times, before)
    floor = max((ms for ms, _, offset in ends if offset == NOT_READ), default=None)
    ends = sorted((each for each in ends if floor is None or each[0] > floor), reverse=True)
    read = sorted(((ms, partition, offset) for partition, each in times for ms, offset in each.newest), reverse=True)
    ahead = sorted(
        [
            *((ms, partition, offset) for partition, each in times for ms, offset in each.ahead),
            *((ms, partition, NOT_READ) for partition, ms in known.items() if ms > latest),
        ],
        reverse=True,
    )
    notes = [_impossible_note(partition, each) for partition, each in times if each.impossible is not None]
    if not before and not ends and any(one[0] - other[0] <= LONGEST_JUMP_MS for one, other in pairwise(ahead)):
        ends, read, ahead = ahead, ahead, []
        notes.append(
            f"the whole log is ahead of this machine's clock ({format_utc(clock_ms)}), so the clock is taken to be "
            "wrong: as_of goes by the log"
        )
    end = _first_that_counts(ends, floor, clock_ms)
    newest = end if end is None else max([end, *(ms for ms, *_ in read if ms <= end + CLOCKS_DIFFER_MS)])
    rest = clock_ms if newest is None else newest
    notes += [
        _undone_note(partition, ms, rest) for partition, ms in before.items() if newest is not None and ms > newest
    ]
    odd = [each for each in read if newest is not None and each[0] > newest]
    if odd:
        notes.append(_ahead_note(odd[0], _others(len(odd), "time"), rest))
    ahead = [each for each in ahead if each[2] != NOT_READ]
    if ahead:
        notes.append(_ahead_note(ahead[0], _others(sum(each.ahead_records for _, each in times), "record"), rest))
    return Newest(newest, tuple(notes))


def _ends(times: Sequence[tuple[int, LogTimes]], known: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """The last batches of each partition and its known time, without those that are contradicted."""
    last: dict[int, list[BatchTime]] = {partition: [] for partition in known}
    for partition, each in times:
        last.setdefault(partition, []).extend(each.last)
    found = []
    for partition, batches in last.items():
        in_order = sorted(batches, key=itemgetter(1))[-NEWEST:]
        if partition in known:
            in_order = [(known[partition], NOT_READ)] * KNOWN_WEIGHS + in_order
        stamps = [ms for ms, _ in in_order]
        counting = [each for at, each in enumerate(in_order) if not _is_contradicted(stamps, at)]
        found += [(ms, partition, offset) for ms, offset in counting]
    return found


def _is_contradicted(stamps: Sequence[int], at: int) -> bool:
    """Whether the later times that are more than a day below this one are at least as many as all times that are not,
    itself included."""
    lowest = stamps[at] - CLOCKS_DIFFER_MS
    return sum(ms < lowest for ms in stamps[at + 1 :]) >= sum(ms >= lowest for ms in stamps)


def _first_that_counts(newer: list[tuple[int, int, int]], floor: int | None, clock_ms: int) -> int | None:
    """The first of these times, newest first, that is near the clock or the next older one; otherwise the floor, or the
    newest if there is no floor."""
    older = [ms for ms, *_ in newer[1:]] + [floor]
    for (ms, *_), below in zip(newer, older, strict=False):
        if abs(clock_ms - ms) <= LONGEST_JUMP_MS or (below is not None and ms - below <= LONGEST_JUMP_MS):
            return ms
    return newer[0][0] if newer and floor is None else floor


def live_as_of(clock_ms: int, newest_ms: int | None, appended_ms: int | None, before_ms: int | None) -> Judged:
    """The moment of a live audit's decisions, ms. A broker's answers do not contain its time; its records do.

    `clock_ms`: this machine's clock when the log ends were requested. `newest_ms`: the newest plausible time in the
    log. `appended_ms`: the newest time of the records appended since then; None: there are none. `before_ms`: as_of of
    the previous audit.

    The result is never before `newest_ms`, and never before `before_ms` unless that is more than a day ahead of the
    clock. It is not after `appended_ms`, because that was stamped later. An idle cluster gives no time: then this
    machine's clock is believed, with a note if the log's newest time is more than ten minutes old.
    """
    newest = clock_ms if newest_ms is None else newest_ms
    as_of, note = max(clock_ms, newest), None
    if newest > clock_ms + CLOCKS_AGREE_MS:
        note = (
            f"this machine's clock is behind the brokers': the newest record is {format_duration(newest - clock_ms)} "
            "ahead of it, and as_of is that record's time"
        )
    elif appended_ms is None and clock_ms - newest > CHECK_MS:
        note = (
            "as_of is this machine's clock, which nothing confirms: the newest record is "
            f"{format_duration(clock_ms - newest)} old, and none came while this audit was reading"
        )
    elif appended_ms is not None and appended_ms < clock_ms:
        as_of = max(newest, appended_ms)
        if clock_ms - as_of > CLOCKS_AGREE_MS:
            note = (
                f"this machine's clock is {format_duration(clock_ms - as_of)} ahead of the brokers': a record that "
                f"came while this audit was reading is stamped {format_utc(appended_ms)}; as_of goes by the brokers"
            )
    notes = [] if note is None else [note]
    if before_ms is not None and as_of < before_ms <= clock_ms + CLOCKS_DIFFER_MS:
        notes.append(
            f"as_of stays at {format_utc(before_ms)}, that of the audit before: by the clocks it is {format_utc(as_of)}"
        )
        as_of = before_ms
    return Judged(as_of, tuple(notes))


def _impossible_note(partition: int, times: LogTimes) -> str:
    assert times.impossible is not None
    ms, offset = times.impossible
    others = _others(times.impossible_records, "record")
    return (
        f"the record at offset {offset} of partition {partition}{others} is stamped {ms} ms, which is after the "
        "year 9999: no time goes by it"
    )


def _ahead_note(odd: tuple[int, int, int], others: str, rest: int) -> str:
    ms, partition, offset = odd
    return (
        f"the record at offset {offset} of partition {partition}{others} is stamped {format_utc(ms)}, "
        f"{format_duration(ms - rest)} ahead of the rest of the log: as_of does not go by it"
    )


def _undone_note(partition: int, ms: int, rest: int) -> str:
    return (
        f"an earlier audit went by {format_utc(ms)} in partition {partition}, but the log went on "
        f"{format_duration(ms - rest)} below it: as_of does not go by it any more"
    )


def _others(count: int, what: str) -> str:
    return f" (one of {count:,} such {what}s)" if count > 1 else ""
