"""However a log is cut into nights, ranges and chunks, however it is reduced: the same tables come out."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

from kgroups_spark.lake import parts
from kgroups_spark.records import segment
from kgroups_spark.replay import groups, history_rows, shard, stored_history
from kgroups_spark.replay.stored_history import TaskShards
from tests.chosen import one_of
from tests.logs.cleaner import GrowingLog
from tests.logs.dense_logs import dense_log
from tests.logs.generated_logs import LOGS
from tests.logs.log_files import of_one_leader, random_cuts, read_zip, segments_of
from tests.logs.night_logs import RELEASES, logs, reported
from tests.logs.old_formats import in_old_format
from tests.nights.cleaned_nights import Nights, random_night
from tests.nights.nights_here import audit, audit_nights, how_of
from tests.nights.replayed_logs import replayed
from tests.nights.reported_tables import CURRENT


@cache
def referee(release, log):
    """The whole log at once, without a lake."""
    return replayed(logs(release)[log], how_of(release))


def differing(files, whole, audited):
    ours, theirs = reported(whole, files), reported(audited, audited.files)
    return [name for name in ours if ours[name] != theirs[name]]


@pytest.mark.in_turn("tiny chunks")
@pytest.mark.parametrize("release", one_of(*RELEASES))
def test_tiny_chunks_change_nothing(release, chosen):
    for seed, log in chosen.some(enumerate(logs(release)), 1):
        files, how = logs(release)[log], how_of(release, 256 << seed % 3)
        assert differing(files, referee(release, log), audit(files, how)) == [], (log, how)


@pytest.mark.parametrize("release", one_of(*RELEASES))
def test_large_shards_change_nothing(release, chosen, monkeypatch):
    """Each is larger than what is read, folded and written at once."""
    readers = TaskShards.readers
    monkeypatch.setattr(TaskShards, "readers", lambda tasks, shards: readers(tasks._replace(at_once=11), shards))
    rows_at_once = {"COMMITS_AT_ONCE": stored_history, "RECORDS_AT_ONCE": segment, "ROWS_PER_GROUP": parts}
    for name, room in [*rows_at_once.items(), *(("ROWS_AT_ONCE", room) for room in (shard, groups, history_rows))]:
        monkeypatch.setattr(room, name, 5)
    for seed, log in chosen.some(enumerate(logs(release)), 1):
        files, rng = logs(release)[log], np.random.default_rng(seed)
        audited = audit_nights(files, random_cuts(files, rng, 2, 1), how_of(release))
        whole = replayed(files, how_of(release))
        assert [name for name in differing(files, whole, audited) if name != "offset_commits"] == [], (log, seed)


@pytest.mark.in_turn("nights and ranges")
@pytest.mark.parametrize("release", one_of(*RELEASES))
def test_nights_and_ranges_add_up_to_one_audit_of_the_whole(release, chosen):
    """But for an outcome, which is unknown if the marker is in another range."""
    unknown = 0
    for seed, log in chosen.some(enumerate(logs(release)), 1):
        files, rng = logs(release)[log], np.random.default_rng(seed)
        nights, ranges = int(rng.integers(2, 5 if chosen.every else 4)), int(rng.integers(1, 4))
        cuts = random_cuts(files, rng, nights, ranges)
        audited = audit_nights(files, cuts, how_of(release, 512))
        assert differing(files, referee(release, log), audited) == [], (log, seed)
        for partition in segments_of(files):  # R1
            assert audited.record_count(partition) == audited.records_read(partition)
        whole = referee(release, log).rows("offset_commits")
        for before, after in zip(whole, audited.rows("offset_commits"), strict=True):
            said = after["outcome"], after["marker_offset"]
            assert said in ((before["outcome"], before["marker_offset"]), (None, None)), log
            unknown += said != (before["outcome"], before["marker_offset"])
    assert not chosen.every or unknown > 10


@pytest.mark.in_turn("dense logs in nights")
@pytest.mark.parametrize("release", one_of(*RELEASES))
def test_cuts_change_nothing_in_dense_logs_either(release, chosen):
    for seed in chosen.some(range(12), 1):
        files, rng = dense_log(seed), np.random.default_rng(seed)
        how = how_of(release, int(rng.choice([256, 512, 4096])))
        whole = replayed(files, how)
        assert differing(files, whole, audit(files, how)) == [], (seed, how)
        cuts = random_cuts(files, rng, int(rng.integers(1, 4)), int(rng.integers(1, 4)))
        audited = audit_nights(files, cuts, how)
        assert differing(files, whole, audited) == [], (seed, how)
        assert audited.record_count() == audited.records_read()


@pytest.mark.in_turn("old formats in nights")
def test_cuts_change_nothing_in_logs_of_message_formats_0_and_1(chosen):
    """But where an audit ends between the tombstones of one clean-up: their batch is not known."""
    for seed, magic in chosen.some(itertools.product(range(12), (0, 1)), 1):
        rng = np.random.default_rng(seed)
        files, how = in_old_format(dense_log(seed), magic, rng), how_of("2.8", 512)
        whole = replayed(files, how)
        assert differing(files, whole, audit(files, how)) == [], (seed, magic)
        cuts = random_cuts(files, rng, int(rng.integers(2, 4)), int(rng.integers(1, 4)))
        assert differing(files, whole, audit_nights(files, cuts, how)) == [], (seed, magic)


# Nights over a log that grows, rolls and is cleaned in between equal one audit of everything written.
CLEANED_RELEASES = ("4.3", "4.0.0", "3.9")


def written(files):
    """All of the log, never cleaned."""
    log = GrowingLog(files)
    for partition in log.partitions:
        log.append(partition, log.left(partition))
    return log.files


def some_logs(release, profiles, share):
    """A seed, a name and a log: a share of the generated logs of these profiles, different ones for each release."""
    found = read_zip(LOGS)
    names = [name for name in sorted(found) if name.startswith(profiles)]
    for seed, name in enumerate(names[CLEANED_RELEASES.index(release) :: share]):
        yield seed, name, of_one_leader(found[name])


def nights_of(log, seed, how, clean_share, chosen, *, before):
    """Four nights, in a soak ten; the cleaner runs in some of them, before or after the audit has read the log."""
    rng, nights = np.random.default_rng(seed), Nights(how)
    for left in range(10 if chosen.every else 4, 0, -1):
        random_night(log, rng, left)
        if before and rng.random() < clean_share:
            log.clean()
        nights.audit(log.files)
        if not before and rng.random() < clean_share:
            log.clean(drop_tombstones=bool(rng.random() < 0.5))
    return nights


def without_places(audited):
    """Everything that must not depend on cuts, nor on how the log was rolled into segments."""
    tables = reported(audited, audited.files)
    for row in tables["quarantine"]:
        del row["file"], row["file_position"]
    return tables


def now(audited):
    """The current tables without `state_since`, which is known only from records that were read."""
    tables = {name: audited.rows(name) for name in CURRENT}
    for row in tables["groups"]:
        del row["state_since"]
    return tables


def assert_holds_all_it_saw(nights):
    """Every record that a night found is in the tables that together are the log, once."""
    history = nights.history()
    assert history.keys() == nights.seen
    assert set(history.values()) == {1}


@pytest.mark.in_turn("cleaned after a read")
@pytest.mark.parametrize("release", one_of(*CLEANED_RELEASES))
def test_cleaning_records_after_they_were_read_changes_nothing(release, chosen):
    logs = list(some_logs(release, ("",), 12)) + [(seed, f"dense {seed}", dense_log(seed, 40)) for seed in range(4)]
    shrunk = 0
    for number in chosen.some(range(len(logs)), 1):
        seed, name, files = logs[number]
        log = GrowingLog(files)
        nights = nights_of(log, seed, how_of(release), 0.6, chosen, before=False)
        whole = written(files)
        assert without_places(nights.audited) == without_places(audit(whole, how_of(release))), (name, seed)
        assert_holds_all_it_saw(nights)
        shrunk += size(log.files) < size(whole)
    assert shrunk > len(logs) // 2 or not chosen.every


@pytest.mark.in_turn("cleaned before a read")
@pytest.mark.parametrize("release", one_of(*CLEANED_RELEASES))
def test_records_cleaned_before_they_were_read_leave_the_same_current_tables(release, chosen):
    """The cleaner keeps tombstones and markers here. It takes only records that were overwritten or aborted."""
    missed = 0
    logs = list(some_logs(release, ("wellformed", "compacted"), 5))
    for number in chosen.some(range(len(logs)), 1):
        seed, name, files = logs[number]
        nights = nights_of(GrowingLog(files), seed, how_of(release), 0.9, chosen, before=True)
        whole = audit(written(files), how_of(release))
        assert now(nights.audited) == now(whole), (name, seed)
        assert_holds_all_it_saw(nights)
        missed += whole.record_count() > nights.audited.record_count()
    assert missed or not chosen.every


def size(files):
    return sum(map(len, files.values()))
