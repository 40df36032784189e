"""The cleaner has removed tombstones and markers before they were read. Then a partition is read again from its start:
its current tables and its versions agree with the log, and a rebuild gives the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kgroups_spark.coordinator import group_snapshots
from kgroups_spark.coordinator.state_entries import STATE_FORMAT
from kgroups_spark.replay import shard
from kgroups_spark.replay.corrections import corrections_of
from kgroups_spark.sources.segment_log import SegmentLog
from kgroups_spark.tables.definitions import REREAD
from kgroups_spark.tables.schemas import arrow_schema
from tests.chosen import one_of
from tests.logs.cleaner import GrowingLog
from tests.logs.forgetful_logs import forgetful_log, forgetful_night
from tests.logs.generated_logs import LOGS
from tests.logs.log_files import read_zip
from tests.nights.cleaned_nights import NEVER_MS, Nights, random_night
from tests.nights.forgetful_nights import (
    assert_as_the_log_is,
    assert_rebuild_says_the_same,
    assert_versions_say_what_is,
    correction_of,
    corrections,
    members_now,
    three_nights,
)
from tests.nights.nights_here import how_of

RELEASES = ("4.3", "4.0.0", "3.9", "2.8")


@pytest.mark.in_turn("forgetful logs")
@pytest.mark.parametrize("release", one_of(*RELEASES))
def test_reading_a_forgetful_log_again_corrects_the_saved_state(release, chosen):
    corrected: Counter[tuple[str, bool]] = Counter()
    for seed in chosen.some(range(8), 1):
        log, nights = GrowingLog(forgetful_log(seed)), Nights(how_of(release))
        for left in range(5 if chosen.every else 3, 0, -1):
            forgetful_night(log, left)
            nights.audit(log.files, full=left % 2 == 1)
            if left % 2 == 1:
                assert_as_the_log_is(nights, log.files)
            assert_versions_say_what_is(nights.audited)
        assert_rebuild_says_the_same(nights.audited, nights.how)
        assert nights.audited.record_count() == nights.audited.records_read()  # R1
        corrected.update((c.entry_type, c.is_gone) for c in map(correction_of, corrections(nights.audited)))
    # One log may need no correction.
    kinds = {("group", False), ("group", True), ("producer", True)}
    if chosen.every:
        assert corrected.keys() >= kinds | ({("noted", True)} if release == "4.0.0" else set())


@pytest.mark.in_turn("read again in any night")
@pytest.mark.parametrize("release", one_of(*RELEASES))
def test_a_lake_equals_its_log_whichever_night_reads_it_again(release, monkeypatch, chosen):
    monkeypatch.setattr(group_snapshots, "BLOCK_AT_BYTES", 1)
    monkeypatch.setattr(shard, "RECORDS_AT_ONCE", 1)
    found = read_zip(LOGS)
    for seed, name in chosen.some(enumerate(sorted(found)[RELEASES.index(release) :: 13]), 1):
        rng, log, nights = (np.random.default_rng(seed), GrowingLog(found[name]), Nights(how_of(release)))
        last = 1 if chosen.every else 3
        for left in range(5, last - 1, -1):
            random_night(log, rng, left)
            if rng.random() < 0.8:
                log.clean(drop_tombstones=True)
            again = bool(rng.random() < 0.5) or left == last
            nights.audit(log.files, full=again)
            if again:
                assert_as_the_log_is(nights, log.files)
            assert_versions_say_what_is(nights.audited)
        assert_rebuild_says_the_same(nights.audited, nights.how)


def test_damage_in_a_log_read_again_corrects_nothing_and_is_not_quarantined():
    log, nights = GrowingLog(forgetful_log(1)), Nights(how_of())
    for left in range(5, 0, -1):
        forgetful_night(log, left)
        if left > 1:
            nights.audit(log.files)
    path, carried = min(log.files), members_now(nights.audited)
    data = bytearray(log.files[path])
    data[80] ^= 1
    how = replace(nights.how, full=True, delete_retention_ms=NEVER_MS)
    row = nights.audited.night({**log.files, path: bytes(data)}, how).audit
    (partition,) = row.partitions or ()
    assert partition.records_reread and row.quarantined == {}
    assert nights.audited.rows("quarantine") == corrections(nights.audited) == []
    assert members_now(nights.audited) >= carried != set()
    assert [note for note in row.notes or () if "the log that was read again is damaged in 1 place" in note]


def test_a_partition_without_a_new_record_is_not_corrected_and_a_note_says_so():
    log, nights, said = GrowingLog(forgetful_log(1)), Nights(how_of()), []
    for left, is_idle in ((3, False), (2, True), (2, False)):
        if not is_idle:
            forgetful_night(log, left)
        row = nights.audit(log.files, full=left < 3)
        said.append([note for note in row.notes or () if "not corrected" in note])
    assert said == [[], ["partition 0 was read again, but has no new record: not corrected"], []]


def test_records_before_the_logs_start_are_gone_when_it_is_read_again():
    """The first segments were deleted before they were read (`lost_from`): no record is before the new ones."""
    log, nights = GrowingLog(forgetful_log(3)), Nights(how_of())
    for left in (3, 2, 1):
        log.append(0, log.left(0) // left)
        log.roll(0)
        if left == 3:
            nights.audit(log.files)
    rest = dict(sorted(log.files.items())[2:])
    (partition,) = nights.audit(rest, delete_retention_ms=1).partitions or ()
    assert partition.lost_from is not None and partition.records_reread == 0
    assert corrections(nights.audited) != []
    assert_as_the_log_is(nights, rest)
    assert_versions_say_what_is(nights.audited)
    assert_rebuild_says_the_same(nights.audited, nights.how)


# A partition read again from its start: what its notes say, and which corrections are replayed.
@pytest.mark.parametrize("decided", one_of("while planning", "while reading"))
def test_a_log_is_read_again_and_notes_say_what_was_corrected(monkeypatch, decided):
    if decided == "while reading":  # as of a live log
        monkeypatch.setattr(SegmentLog, "missing_from", lambda self, offset: None)
    first, second, third = three_nights()
    nights = Nights(how_of())
    nights.audit(first)
    row = nights.audit(second, delete_retention_ms=1)
    assert_as_the_log_is(nights, second)
    assert [p.records_reread > 0 for p in row.partitions or ()] == [True, True]
    notes = row.notes or ()
    assert any("partition 0 was read again from its start: last read" in note for note in notes)
    corrected = "was corrected: compaction removed records before we read them"
    assert f"partition 0 {corrected}: 2 groups gone (c, m); 1 group changed (b)" in notes
    assert f"partition 1 {corrected}: 2 groups changed (c, n); 1 transaction ended" in notes
    last = nights.audit(third)
    assert not any(p.records_reread for p in last.partitions or ())
    assert not any("corrected" in note for note in last.notes or ())
    assert {row["payload"] is None for row in corrections(nights.audited)} == {True, False}
    assert_rebuild_says_the_same(nights.audited, nights.how)


def test_only_corrections_of_the_state_are_replayed_the_newest_of_each_entry():
    def row(audit_id, entry_type, group_id, payload, **other):
        fields = {"log_offset": 9, "state_format": STATE_FORMAT, "release_version": "4.3", "rules_version": 1, **other}
        names = ("audit_id", "offsets_partition", "reason", "entry_type", "group_id", "payload")
        return {**dict(zip(names, (audit_id, 0, REREAD, entry_type, group_id, payload), strict=True)), **fields}

    made = [
        row(2, "group", "a", "old"),
        row(3, "group", "a", "new"),
        row(3, "group", "a", "later", log_offset=10),
        row(3, "producer", None, '{"producer_id": 1}'),
        row(2, "producer", None, '{"producer_id": 2}'),
        row(3, "noted", "a", None, state_format=0),
        row(3, "group", "b", "unreadable by now", state_format=0),
    ]
    table = pa.Table.from_pylist(made, schema=arrow_schema("checkpoints"))
    found = {(each.log_offset, *correction) for each in corrections_of(table) for correction in each.corrections}
    assert found == {
        (9, "group", "a", "new"),
        (10, "group", "a", "later"),
        (9, "producer", None, '{"producer_id": 1}'),
        (9, "producer", None, '{"producer_id": 2}'),
        (9, "noted", "a", None),
    }
