"""Which log times count, and the moment of an audit's decisions according to them.

Coordinators stamp their records with their own clock, so a log's newest time shows when it was last written. A log time
counts if it lies between 1970 and a day after the clock of the audit's machine (a wrong time zone makes up to 14
hours). So one record stamped 2040 moves nothing that depends on the newest time: `as_of`, expiry decisions, findings,
delete.retention.ms. A wrong time that is not ahead of the clock cannot be distinguished from a log that paused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kgroups_spark.lake.ledger import AuditRow
from kgroups_spark.records.columns import RecordColumns
from kgroups_spark.words import DAY_MS, LAST_MS, UNITS_MS, format_duration, format_utc, to_epoch_ms

# The greatest difference between the clocks of the audit and a broker.
CLOCKS_DIFFER_MS = DAY_MS
# Clocks that differ by no more than this count as equal.
CLOCKS_AGREE_MS = UNITS_MS["m"]
# offsets.retention.check.interval.ms: expiry is no more exact than this.
CHECK_MS = 10 * UNITS_MS["m"]


@dataclass
class LogTimes:
    """The newest log time of one range that counts, and the times ahead of the clock. All fields have types of JSON.

    `latest_ms`: later times do not count. `newest_ms` None: no time counts. `ahead_ms`, `ahead_offset`: the latest time
    that does not count, and its record's log offset; `ahead_records`: the number of records with such times.
    """

    latest_ms: int = LAST_MS
    newest_ms: int | None = None
    ahead_ms: int = -1
    ahead_offset: int = -1
    ahead_records: int = 0

    def add(self, records: RecordColumns) -> None:
        if not len(records):
            return
        time = records.timestamp
        if int(time.max()) > self.latest_ms:
            last = int(time.argmax())
            if int(time[last]) > self.ahead_ms:
                self.ahead_ms, self.ahead_offset = int(time[last]), int(records.offset[last])
            self.ahead_records += int((time > self.latest_ms).sum())
            time = time[time <= self.latest_ms]
        newest = int(time.max(initial=-1))
        if newest >= 0:
            self.newest_ms = max(newest, self.newest_ms or 0)


class Judged(NamedTuple):
    """The moment of an audit's decisions, ms, and notes on how the clocks were weighed."""

    ms: int
    notes: tuple[str, ...] = ()


def newest_time(times: Iterable[LogTimes], known: Iterable[int] = ()) -> int | None:
    """The newest time that counts, ms: of the ranges' `times` and of those that earlier audits knew (`known`); None:
    none does."""
    return max([*(each.newest_ms for each in times if each.newest_ms is not None), *known], default=None)


def ahead_notes(
    times: Sequence[tuple[int, LogTimes]], clock_ms: int, newest_ms: int | None, before_ms: int | None
) -> list[str]:
    """A note on the records that are ahead of `clock_ms`, the audit's clock: the latest of them, and their number.

    `times`: those of the ranges, with their offsets partitions. `newest_ms`: the newest time that counts, None: none
    does. `before_ms`: the one of the audit before, None: there was none.
    """
    ahead = [(each.ahead_ms, partition, each.ahead_offset) for partition, each in times if each.ahead_records]
    clock = f"more than a day ahead of this machine's clock ({format_utc(clock_ms)})"
    if newest_ms is None and (ahead or before_ms is not None):
        return [f"all log times are {clock}, so none counts: set the clock, or give --as-of"]
    if not ahead:
        return []
    ms, partition, offset = max(ahead)
    count = sum(each.ahead_records for _, each in times)
    others = f" (one of {count:,} such records)" if count > 1 else ""
    stamp = format_utc(ms) if ms <= LAST_MS else f"{ms} ms, which is after the year 9999"
    return [
        f"the record at offset {offset} of partition {partition}{others} is stamped {stamp}, {clock}: its time does "
        "not count"
    ]


def live_as_of(clock_ms: int, newest_ms: int | None, appended_ms: int | None, before_ms: int | None) -> Judged:
    """The moment of a live audit's decisions, ms. A broker's answers do not contain its time; its records do.

    `clock_ms`: this machine's clock when the log ends were requested. `newest_ms`: the newest time in the log that
    counts. `appended_ms`: the newest time of the records appended since then; None: there are none. `before_ms`: as_of
    of the previous audit.

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


# The newest log times in the ledger that count (replay/log_times.py).


def believed_until(audit: AuditRow) -> int:
    """The epoch ms above which log times count nowhere after that audit."""
    newest = audit.newest_log_timestamp or audit.started_at
    return max(to_epoch_ms(newest), to_epoch_ms(audit.started_at) + CLOCKS_DIFFER_MS)


def known_times(audit: AuditRow | None, clock_ms: int) -> dict[int, int]:
    """The newest log time (epoch ms) of each offsets partition in the ledger, without times ahead of the clock: they
    would make all of history old."""
    partitions = (audit.partitions or ()) if audit else ()
    known = {p.offsets_partition: to_epoch_ms(p.newest_log_timestamp) for p in partitions if p.newest_log_timestamp}
    return {number: ms for number, ms in known.items() if ms <= clock_ms + CLOCKS_DIFFER_MS}
