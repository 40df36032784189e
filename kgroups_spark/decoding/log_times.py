"""Which log times are plausible, and up to when a log reaches by them.

Coordinators stamp their records with their own clock, so a log's newest time says when it was last written. But one
record with a broken time (a flipped bit before the checksum was made, a broker whose clock ran wrong) would move
everything that goes by it: `as_of`, expiry decisions, findings, delete.retention.ms. So a time counts only if something
agrees with it. By batches, because one batch is stamped at once:

1. A time outside the years 1970 to 9999 never counts.
2. A time more than a day ahead of the audit's clock does not count (a wrong time zone makes up to 14 hours). If
   nothing else counts and two batches within thirty days of each other lie ahead, then it is the audit's clock that
   is wrong, and they count.
3. The newest time left counts if the audit's clock is within thirty days of it, or if the next older batch is. If
   not, it does not count and the next older one is asked. A time that counted in earlier audits goes on to count. Where
   nothing did, and no two batches are within thirty days of each other, nothing speaks against the newest, and it
   counts: a log of one record, a log of a batch a month.

Two batches that are wrong alike and not ahead of the clock are believed: nothing tells them from a log that paused. So
is a time that is less than a day ahead.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kgroups_spark.durations import UNITS_MS, format_duration
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.tables.rows import LAST_MS
from kgroups_spark.times import format_time_for_people

# How far the audit's clock and a broker's may differ, and how far a log may jump without another batch beside it.
CLOCKS_DIFFER_MS = UNITS_MS["d"]
LONGEST_JUMP_MS = 30 * UNITS_MS["d"]
# Each range remembers so many batches.
NEWEST = 16
# Clocks that differ by no more than this are taken for the same.
CLOCKS_AGREE_MS = UNITS_MS["m"]
# offsets.retention.check.interval.ms: no expiry is finer.
CHECK_MS = 10 * UNITS_MS["m"]
# In place of a partition and an offset: the time is in the ledger, and was not read now.
NOT_READ = -1

# (ms, log offset) of the newest record of a batch that counts.
BatchTime = tuple[int, int]


@dataclass
class LogTimes:
    """The newest batches of one range by their log times, newest first. All fields are what JSON can hold.

    `latest_ms`: later times are `ahead`. `impossible`: the first record whose time no TIMESTAMP can hold, and how many
    such records there are.
    """

    latest_ms: int = LAST_MS
    newest: list[BatchTime] = field(default_factory=list)
    ahead: list[BatchTime] = field(default_factory=list)
    ahead_records: int = 0
    impossible: BatchTime | None = None
    impossible_records: int = 0

    def add(self, records: RecordColumns) -> None:
        """The records of a chunk."""
        if not len(records):
            return
        time = records.timestamp
        latest = int(time.max())
        if latest > self.latest_ms:
            beyond = time > LAST_MS
            ahead = (time > self.latest_ms) & ~beyond
            self._add_impossible(records, beyond)
            self.ahead_records += int(ahead.sum())
            self.ahead = _newest(self.ahead, records, np.where(ahead, time, -1))
            time = np.where(time > self.latest_ms, -1, time)
            latest = int(time.max())
        if latest >= 0 and (len(self.newest) < NEWEST or latest > self.newest[-1][0]):
            self.newest = _newest(self.newest, records, time)

    def _add_impossible(self, records: RecordColumns, beyond: NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(beyond)
        self.impossible_records += len(rows)
        if self.impossible is None and len(rows):
            self.impossible = int(records.timestamp[rows[0]]), int(records.offset[rows[0]])


def log_times_from_json(payload: dict[str, Any]) -> LogTimes:
    """The inverse of `vars`, after JSON, which knows no tuples."""
    impossible = payload["impossible"]
    return LogTimes(
        **{
            **payload,
            "newest": [(ms, offset) for ms, offset in payload["newest"]],
            "ahead": [(ms, offset) for ms, offset in payload["ahead"]],
            "impossible": None if impossible is None else (impossible[0], impossible[1]),
        }
    )


def _newest(known: list[BatchTime], records: RecordColumns, time: NDArray[np.int64]) -> list[BatchTime]:
    """The newest batches of those known and of these records; times below 0 do not count.

    The batches of six records, `batch` 0 0 1 1 1 2, start at rows 0, 2 and 5; their newest times are the
    maxima of rows 0..1, 2..4 and 5.
    """
    starts = np.flatnonzero(np.diff(records.batch, prepend=-1))
    newest = np.maximum.reduceat(time, starts)
    found = list(known)
    for batch in np.argsort(newest, kind="stable")[-NEWEST:].tolist():
        if newest[batch] >= 0:
            stop = starts[batch + 1] if batch + 1 < len(starts) else len(time)
            row = int(starts[batch]) + int(np.argmax(time[starts[batch] : stop]))
            found.append((int(time[row]), int(records.offset[row])))
    return heapq.nlargest(NEWEST, found)


def believed_until_ms(newest_ms: int | None, started_ms: int) -> int:
    """Log times above this one count nowhere: `newest_ms`, the newest log time that counts for the last finished audit
    (None: none does), or a day after that audit began, if that is later.

    A record that is above both lies ahead of the clock by which it was read. A wrong time that is not ahead is
    believed where history is asked, also one that did not count above: whoever looks back finds what the record says.
    """
    ahead = started_ms + CLOCKS_DIFFER_MS
    return ahead if newest_ms is None else max(newest_ms, ahead)


class Newest(NamedTuple):
    """The newest time that counts, ms (None: none does), and notes on what does not count and why."""

    ms: int | None
    notes: tuple[str, ...] = ()


class Judged(NamedTuple):
    """When an audit judges, ms, and notes on how the clocks were weighed."""

    ms: int
    notes: tuple[str, ...] = ()


def newest_plausible(times: Sequence[tuple[int, LogTimes]], clock_ms: int, known: Collection[int] = ()) -> Newest:
    """The newest time that counts, of the ranges' `times`, each with its offsets partition, and of `known` ones.

    `known`: what counted in earlier audits, ms; it is believed unless it is ahead of `clock_ms`, the audit's clock.
    """
    latest = clock_ms + CLOCKS_DIFFER_MS
    floor = max((ms for ms in known if ms <= latest), default=None)
    read = [(ms, partition, offset) for partition, each in times for ms, offset in each.newest]
    newer = sorted((each for each in read if floor is None or each[0] > floor), reverse=True)
    ahead = sorted(
        [
            *((ms, partition, offset) for partition, each in times for ms, offset in each.ahead),
            *((ms, NOT_READ, NOT_READ) for ms in known if ms > latest),
        ],
        reverse=True,
    )
    notes = [_impossible_note(partition, each) for partition, each in times if each.impossible is not None]
    if floor is None and not newer and any(one[0] - other[0] <= LONGEST_JUMP_MS for one, other in pairwise(ahead)):
        newer, ahead = ahead, []
        notes.append(
            f"the whole log is ahead of this machine's clock ({_utc(clock_ms)}), so the clock is taken to be wrong: "
            "as_of goes by the log"
        )
    newest = _first_that_counts(newer, floor, clock_ms)
    rest = clock_ms if newest is None else newest
    alone = [each for each in newer if newest is not None and each[0] > newest]
    if alone:
        notes.append(_ahead_note(alone[0], _others(len(alone), "time"), rest))
    ahead = [each for each in ahead if each[1] != NOT_READ]
    if ahead:
        notes.append(_ahead_note(ahead[0], _others(sum(each.ahead_records for _, each in times), "record"), rest))
    return Newest(newest, tuple(notes))


def _first_that_counts(newer: list[tuple[int, int, int]], floor: int | None, clock_ms: int) -> int | None:
    """The first of these times, newest first, that is near to the clock or to the next older one; else the floor, else
    the newest."""
    older = [ms for ms, *_ in newer[1:]] + [floor]
    for (ms, *_), below in zip(newer, older, strict=False):
        if abs(clock_ms - ms) <= LONGEST_JUMP_MS or (below is not None and ms - below <= LONGEST_JUMP_MS):
            return ms
    return newer[0][0] if newer and floor is None else floor


def live_as_of(clock_ms: int, newest_ms: int | None, appended_ms: int | None, before_ms: int | None) -> Judged:
    """When a live audit judges, ms. A broker's answers do not say what time it is; its records do.

    `clock_ms`: this machine's clock when the log ends were asked for. `newest_ms`: the newest plausible time in the
    log. `appended_ms`: the newest time of what was appended since then; None: nothing was. `before_ms`: as_of of the
    audit before.

    The answer is never before `newest_ms`, and never before `before_ms` unless that is more than a day ahead of the
    clock. It is not after `appended_ms`, for that was stamped later. An idle cluster says nothing: then this machine's
    clock is believed, with a note where the log's newest time is more than ten minutes old.
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
                f"came while this audit was reading is stamped {_utc(appended_ms)}; as_of goes by the brokers"
            )
    notes = [] if note is None else [note]
    if before_ms is not None and as_of < before_ms <= clock_ms + CLOCKS_DIFFER_MS:
        notes.append(f"as_of stays at {_utc(before_ms)}, that of the audit before: by the clocks it is {_utc(as_of)}")
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
        f"the record at offset {offset} of partition {partition}{others} is stamped {_utc(ms)}, "
        f"{format_duration(ms - rest)} ahead of the rest of the log: as_of does not go by it"
    )


def _others(count: int, what: str) -> str:
    return f" (one of {count:,} such {what}s)" if count > 1 else ""


def _utc(ms: int) -> str:
    return f"{format_time_for_people(ms)} UTC"
