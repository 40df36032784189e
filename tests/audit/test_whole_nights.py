"""Whole nights in one process, from bytes to the lines on a screen: whatever a log holds, an audit ends, with its
tables, decisions, findings and ledger (R5). Generated logs, recordings, damaged ones, and findings that fail."""

from __future__ import annotations

import errno
import random
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from kgroups_spark import errors
from kgroups_spark.audit.result import Shortfall, unsettled_note
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.findings import finders
from kgroups_spark.findings.finding import KINDS
from kgroups_spark.lake.lake import Lake
from kgroups_spark.replay import range_decoder
from kgroups_spark.words import to_epoch_ms
from tests.findings.logs import DAY, HOUR, MINUTE, Log
from tests.logs.damaged_logs import damaged
from tests.logs.dense_logs import dense_log
from tests.logs.event_logs import EventLog
from tests.logs.in_words import Story
from tests.logs.log_files import of_one_leader, random_cuts, read_zip
from tests.nights.nights_here import (
    CLOCK_MS,
    LOOKING,
    How,
    audit,
    audit_nights,
    new_lake,
)
from tests.recorded_logs import CORPORA
from tests.records.build import batch
from tests.slow_messages import offsets_partition

GENERATED = Path(__file__).parents[1] / "coordinator" / "data" / "generated_logs.zip"
RELEASES = ("4.3", "4.0.0", "3.9", "2.3", "0.9")
MONTH = 30 * DAY


@cache
def logs():
    """By name: what Kafka's own classes wrote in any order, what brokers wrote, and small hand-made logs."""
    generated = {f"generated {name}": files for name, files in read_zip(GENERATED).items()}
    recorded = {f"recorded {name}": files for name, files in read_zip(CORPORA).items()}
    made = {f"dense {seed}": dense_log(seed) for seed in range(20)}
    generated = {name: of_one_leader(files) for name, files in generated.items()}
    return generated | recorded | made | {f"eventful {seed}": EventLog(seed).files for seed in range(10)}


def check(found):
    """Every record is in one table; the ledger holds moments; everything was looked for."""
    assert found.record_count() == found.records_read()
    assert found.newest.as_of is not None and found.newest.as_of <= datetime.fromtimestamp(
        CLOCK_MS / 1000 + 86_400, UTC
    )
    assert {each["finding"] for each in found.rows("findings")} <= KINDS.keys()
    assert next(found.nights[-1].lines()).startswith("audit ")
    return found


def test_mixed_commits_are_those_of_one_night():
    log = Log().commit("g", producer=7).end(7)
    before, whole = log.files, log.commit("g", times=2).commit("g", partition=1).files
    (found,) = [each for each in check(audit(whole, LOOKING)).found() if each["finding"] == "mixed_commits"]
    assert found["detail"].startswith(
        "t-0 of g was committed 1 time in transactions and 2 times outside them. The later"
    )
    nights = new_lake()
    for files in (before, whole):
        nights.night(files, LOOKING)
        assert [each for each in check(nights).found() if each["finding"] == "mixed_commits"] == []


def test_every_log_is_audited_to_the_end(chosen):
    """As of its newest time, and a month later, when everything that can be overdue is."""
    for name in chosen.some(sorted(logs()), 1):
        files, how = logs()[name], How(random.Random(name).choice(RELEASES), clock_ms=CLOCK_MS, findings=True)
        cuts = random_cuts(files, np.random.default_rng(len(name)), nights=2, ranges=1)
        found = check(audit_nights(files, cuts, how))
        first, second = (to_epoch_ms(each.audit.as_of) for each in found.nights)
        assert second >= first
        audit(files, replace(how, as_of=second + MONTH))


@pytest.mark.parametrize(("rounds", "short"), [(1, Shortfall()), (0, Shortfall(unsettled=(0,)))])
def test_a_log_that_is_cleaned_faster_than_it_can_be_read_is_a_shortfall(rounds, short, monkeypatch):
    """As if there had been as many rounds as there may be, and offsets were missing in the last one."""
    monkeypatch.setattr(range_decoder, "MOST_ROUNDS", rounds)
    batches = b"".join(batch(offset, [(b"k", b"v")]) for offset in (0, 7, 8))
    (summary,) = audit({f"__consumer_offsets-0/{0:020d}.log": batches}, LOOKING).nights
    assert summary.shortfall == short
    assert [line for line in summary.lines() if "faster than the audit could read" in line] == list(
        map("  {}".format, unsettled_note(short.unsettled))
    )


def test_damaged_logs_are_audited_to_the_end(chosen):
    names = sorted(logs())
    for seed in chosen.some(range(200), 1):
        rng = random.Random(seed)
        files = damaged(logs()[rng.choice(names)], rng)
        check(audit(files, How(rng.choice(RELEASES), rng.choice([None, 1000]), clock_ms=CLOCK_MS, findings=True)))


def test_a_failing_finder_costs_only_its_own_finding(monkeypatch):
    def broken(name, *how):
        if name == "commit_storm":
            raise ZeroDivisionError("a name of the log")
        return found_by_sql(name, *how)

    found_by_sql = finders.found_by_sql
    log = Story("stable a=t:0, x assigned t:1").log
    sound = audit(log.files, LOOKING).found()
    assert {each["finding"] for each in sound} == {"target_for_unknown_member"}
    monkeypatch.setattr(finders, "found_by_sql", broken)
    with pytest.raises(ZeroDivisionError):
        audit(log.files, LOOKING)
    monkeypatch.setattr(errors, "SURVIVED", (Exception,))
    with_failure = audit(log.files, LOOKING)
    assert with_failure.found() == sound
    (note,) = [each for each in with_failure.newest.notes or () if "commit_storm" in each]
    assert note.startswith("looking for commit_storm failed (ZeroDivisionError at test_whole_nights.py:")
    assert "name of the log" not in note


@pytest.mark.parametrize("error", [OSError(errno.EROFS, "Read-only file system", "a name"), KgroupsError("no lake")])
def test_a_fault_of_the_machine_is_not_a_defect_of_kgroups(error, monkeypatch):
    monkeypatch.setattr(errors, "SURVIVED", (Exception,))

    def fail():
        raise error

    reason = "Read-only file system" if isinstance(error, OSError) else "no lake"
    assert errors.attempt("tidying", fail) == (None, f"tidying failed: {reason}; the rest of the audit counts")


def test_removed_groups_still_count_for_the_number_of_offsets_partitions():
    """The one that is left fits several numbers: a night with nothing new of the others must not forget what they
    reported."""
    names = [name for name in (f"{n * n}-{n}" for n in range(2_000)) if offsets_partition(name, 50) == 37][:8]
    log, found = Log(offsets_partition=37), new_lake()
    for name in names:
        log.classic(name)
    for name in names[1:]:
        log.gone(2, name)
    for _ in range(2):
        found.night(log.files, LOOKING)
        assert [(row["group_id"], row["is_misplaced"]) for row in found.rows("groups")] == [(names[0], False)]
        log.classic(names[0])


def test_a_lake_that_has_lost_its_ledger_is_not_taken_for_a_new_one():
    files = dense_log(1, 5)
    audited = audit(files, LOOKING)
    logs = audited.session.store.logs
    del logs[next(path for path in logs if path.endswith("/audits"))]
    with pytest.raises(
        UsageError, match="has lost its table audits, which cannot be rebuilt: restore it, or name a new"
    ):
        audited.night(files, LOOKING)


def test_a_lake_that_another_audit_creates_at_the_same_time_has_not_lost_its_ledger():
    files = dense_log(1, 5)
    audited = audit(files, LOOKING)
    exists = iter([False])  # the other one creates it, and adds rows, after this look
    with mock.patch.object(Lake, "exists", lambda lake: next(exists, True)):
        audited.night(files, LOOKING)
    assert [night.audit.audit_id for night in audited.nights] == [1, 2]


# A checkpoint of high watermarks that is older than the log: a folder that was copied, and its checkpoint was not.
OLD = CLOCK_MS - DAY


def night(lake, committed, *times):
    """An audit of commits at these times, of which `committed` are below the high watermark."""
    log = Log()
    for log.now in times:
        log.commit("g")
    checkpoint = {"replication-offset-checkpoint": f"0\n1\n__consumer_offsets 0 {committed}\n".encode()}
    how = How(offsets_partitions=1, clock_ms=CLOCK_MS, findings=True)
    return lake.night({**log.files, **checkpoint}, how)


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
def test_a_checkpoint_that_hides_more_than_a_minute_is_a_shortfall(committed, times, is_stale):
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
