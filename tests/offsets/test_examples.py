"""The worked examples of the package's docstrings, and the current tables of a log that a person can follow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kgroups_spark.coordinator.releases import release
from kgroups_spark.offsets import removals
from kgroups_spark.offsets.columns import ALONE, NEVER, Border, Places, SlotRange, number_slots, ranges_between
from kgroups_spark.offsets.expiry import NOWHERE, rows_among
from kgroups_spark.offsets.removals import remember
from kgroups_spark.offsets.replay import ALL_SLOTS, fold_range, other_records
from kgroups_spark.offsets.state import OffsetState
from kgroups_spark.replay import rows as replay_rows
from tests.coordinator.log_rows import ReplayRow
from tests.coordinator.records import Log, T, X, Y
from tests.logs.dense_logs import dense_log
from tests.nights.nights_here import How, audit
from tests.offsets.log_tables import history_of, replayed, table

# A record's fate at the end of the log, by what the package found of it.


FATES = (
    "committed",  # it is the committed offset
    "replaced",  # it was, until another one came
    "removed",  # it was, until a tombstone came
    "superseded",  # its COMMIT came, but a newer record had been committed
    "overwritten",  # a later value of its transaction took its place
    "aborted",
    "dropped",  # a tombstone took it while it was pending
    "pending",
    "unreadable",  # the release does not read such a value: its load fails
    "tombstone",
)
COMMITTED, REPLACED, REMOVED, SUPERSEDED, OVERWRITTEN, ABORTED, DROPPED, PENDING, UNREADABLE, TOMBSTONE = range(10)


def fates(folded):
    """For each record a number of FATES."""
    commits, pending, effects = folded.commits, folded.pending, folded.effects
    fate = np.full(len(commits), REPLACED)
    fate[~commits.is_readable] = UNREADABLE
    fate[commits.is_tombstone] = TOMBSTONE
    fate[pending.row] = np.select(
        [pending.dropped_at < NEVER, ~pending.is_last, pending.end == NEVER, ~pending.is_commit],
        [DROPPED, np.where(pending.is_commit | (pending.end == NEVER), OVERWRITTEN, ABORTED), PENDING, ABORTED],
        default=REPLACED,
    )
    is_value = ~commits.is_tombstone[effects.row]
    fate[effects.row[is_value & ~effects.takes_effect]] = SUPERSEDED
    removals = np.flatnonzero(~is_value & (effects.before >= 0))
    fate[effects.row[effects.before[removals]]] = REMOVED
    fate[effects.row[effects.is_final]] = COMMITTED
    return fate


def folded(log, version="4.3"):
    return fold_range(OffsetState.empty(), history_of(log.rows), release(version), SlotRange())


def fates_of(log, version="4.3"):
    """By log offset."""
    found = folded(log, version)
    by_offset = np.argsort(found.commits.log_offset)
    return [FATES[fate] for fate in fates(found)[by_offset]]


def array(*values):
    return np.array(values, np.int64)


def test_one_key_for_an_owner_and_a_place():
    places = Places.over(2, array(5, 9))
    assert places.keys(array(0, 1), array(9, 5)).tolist() == [4, 6]
    assert places.keys(array(0), array(NEVER)).tolist() == [places.span - 1]


def test_rows_are_found_among_others_and_a_null_is_not():
    wanted, among = pa.array([-1, None, 5, 5]), pa.array([5, -1, None])
    assert rows_among([wanted], [among]).tolist() == [1, NOWHERE, 0, 0]


def test_a_newer_plain_commit_outlives_an_older_one_of_a_transaction():
    """T19; the order of markers decides nothing (T20)."""
    both = Log().commit(5, producer=7).commit(6, producer=8).end(8, "committed").end(7, "committed")
    assert fates_of(both)[0] == "superseded"
    log = Log().commit(5).commit(9, producer=7).commit(6).end(7, "committed").tombstone()
    assert fates_of(log) == ["replaced", "superseded", "removed", "tombstone"]
    # 3.7 does not look which of the two records is newer.
    assert fates_of(log, "3.7-java") == ["replaced", "removed", "replaced", "tombstone"]
    effects = folded(log).effects
    assert effects.place.tolist() == [0, 2, 3, 4]
    assert effects.takes_effect.tolist() == [True, True, False, False]
    assert effects.before.tolist() == [-1, 0, 1, 1]


def test_outcomes_of_pending_values():
    """The later of two values of a transaction counts (T23)."""
    log = Log().commit(1, producer=7).commit(2, producer=7).end(7, "committed")
    log.commit(3, producer=7).tombstone().commit(4, producer=7)
    assert fates_of(log) == ["overwritten", "removed", "dropped", "tombstone", "pending"]
    pending = folded(log).pending
    assert pending.end.tolist() == [2, 2, NEVER, NEVER]
    assert pending.dropped_at.tolist() == [NEVER, NEVER, 4, NEVER]
    assert pending.is_last.tolist()[:2] == [False, True]
    assert fates_of(Log().commit(1, producer=7).end(7, "aborted")) == ["aborted"]


def test_releases_differ_where_kafka_does():
    """Scala's tombstone outside of the transaction leaves pending offsets (T21), Scala decides by the bit (T28), 4.1
    knows no old key with a value of version 1 (T2)."""
    log = Log().commit(1, producer=7).tombstone().end(7, "committed").commit(2, "u", producer_id=7)
    assert fates_of(log) == ["dropped", "tombstone", "pending"]
    assert fates_of(log, "3.9") == ["committed", "tombstone", "committed"]
    # Nor does one of the same producer without the bit; with it, it takes what its own transaction has pending (T22).
    log = Log().commit(1, producer=7).tombstone(producer_id=7).commit(2, "u", producer=7).tombstone("u", producer=7)
    assert fates_of(log.end(7, "committed"), "3.9") == ["committed", "tombstone", "dropped", "tombstone"]
    assert fates_of(Log().commit(1, record_type=0, value_version=1)) == ["unreadable"]
    assert fates_of(Log().commit(1, record_type=0, value_version=1), "4.0") == ["committed"]


def test_a_producer_that_a_tombstone_left_noted():
    """KAFKA-19164: the marker no longer finds the group, and the group is kept for ever."""
    log = Log("4.0.0").commit(1, producer=7).tombstone().end(7, "committed")
    assert replayed(log.rows, release("4.0.0")).state.noted.to_pylist() == [
        {"number": 0, "group_id": "g", "producer_id": 7}
    ]
    log.commit(1, producer=7).end(7, "committed")
    assert replayed(log.rows, release("4.0.0")).state.noted.to_pylist() == []


def test_removals_are_remembered_for_the_next_commit(monkeypatch):
    slot, place = array(4, 4, 4), array(3, 5, 9)
    found = remember((slot, place, np.array([True, False, False])), (array(4), array(6)))
    assert found.reports.tolist() == [True, False, True]
    assert found.restarts.tolist() == [0]
    assert found.at_the_end.tolist() == [2]
    monkeypatch.setattr(removals, "REMEMBERED", 1)
    forgotten = remember((array(1, 2), array(3, 4), np.array([True, True])), (array(1), array(6)))
    assert forgotten.restarts.tolist() == [-1]


def test_a_topic_that_comes_again_under_another_id():
    log = Log("4.4").commit(5, topic_id=X, value_version=4).commit(9, topic_id=X, value_version=4)
    log.commit(7, topic_id=X, value_version=4).commit(8, topic_id=Y, value_version=4).tombstone().commit(3)
    moves = replayed(log.rows, release("4.4")).moves.to_pylist()
    assert [(row["log_offset"], row["event"], row["offset_before"], row["offset_after"]) for row in moves] == [
        (2, "offset_rewound", 9, 7),
        (3, "topic_recreated", None, None),
        (5, "offset_restarted", 8, 3),
    ]


def test_a_groups_holdings_begin_at_the_records_that_changed_them():
    log = Log().commit(1, producer=7).end(7, "committed").commit(2, "u").tombstone().tombstone("u")
    for ranges in (ALL_SLOTS, ranges_between([Border("g", "u", 0)])):
        rows = replayed(log.rows, release("4.3"), ranges=ranges).holdings.to_pylist()
        assert [(row["since"], row["has_committed"], row["has_pending"]) for row in rows] == [
            (0, False, True),
            (1, True, False),
            (4, False, False),
        ]


def test_the_first_value_after_the_end_of_a_group_is_a_turn():
    log = Log().commit(1).commit(2).record(2, None).commit(3).commit(4, group="h")
    assert replayed(log.rows, release("4.3")).turns.column("log_offset").to_pylist() == [0, 3, 4]


def test_markers_are_completed_with_their_transactions():
    """One without data, or repeated, ends nothing (T26)."""
    log = Log().commit(1, producer=7).commit(2, group="h", producer=7)
    log.end(7, "committed").end(7, None).end(8, "aborted").end(7, "committed")
    transactions = replayed(log.rows, release("4.3")).transactions
    ended = replay_rows.ended_columns(transactions, history_of(log.rows).markers)
    assert [tuple(row.values()) for row in ended.to_pylist()] == [
        (0, 2, ["g", "h"]),
        (None, None, None),
        (None, 0, []),
        (None, 0, []),
    ]


def test_rows_of_the_current_tables():
    log = Log().commit(1, commit_timestamp=1 << 60).commit(2, "u", producer=7).commit(3, group="h", metadata="m")
    found = replayed(log.rows, release("4.3"))
    committed = replay_rows.committed_rows(found, [(0, "g")], audit_id=1).to_pylist()
    assert [(row["group_id"], row["committed_offset"], row["metadata"], row["is_orphan"]) for row in committed] == [
        ("g", 1, "", False),
        ("h", 3, "m", True),
    ]
    # The nearest time that a TIMESTAMP holds in the table, the record's own in the state.
    assert committed[0]["commit_timestamp"].year == 9999
    assert found.state.offsets.column("commit_timestamp").to_pylist()[0] == 1 << 60
    (pending,) = replay_rows.pending_rows(found, audit_id=1).to_pylist()
    assert (pending["producer_id"], pending["transaction_start_offset"], pending["producer_epoch"]) == (7, 1, 0)


def test_a_value_that_a_load_fails_at_is_in_quarantine_with_a_record_count_of_0():
    log = Log().commit(1, record_type=0, value_version=1).commit(2)
    (row,) = replay_rows.failure_rows(replayed(log.rows, release("4.3")), audit_id=1).to_pylist()
    assert (row["log_offset"], row["record_count"], row["reason"]) == (0, 0, "load_would_fail")
    assert (row["record_type"], row["record_name"], row["value_version"]) == (0, "LegacyOffsetCommit", 1)
    assert (row["group_id"], row["topic"], row["coordinator_fails"]) == ("g", "t", True)
    assert [row[name] for name in ("file", "file_position", "raw_key", "raw_value", "resolved_by")] == [None] * 5


def test_only_quarantined_records_with_a_producer_are_in_transactions():
    row = {"audit_id": 1, "offsets_partition": 0, "log_offset": 4, "record_count": 1, "reason": "truncated"}
    rows = [row | {"producer_id": 7}, row, row | {"producer_id": 7, "reason": "corrupt_batch"}]
    rows.append(row | {"producer_id": 7, "record_count": 0, "reason": "load_would_fail"})
    found = other_records(table("group_records", []), table("quarantine", rows))
    assert found.producer_id.tolist() == [7]


def test_a_transaction_takes_its_epoch_from_its_first_offset_commit():
    record = {"producer_id": 7, "is_transactional": True}
    first = ReplayRow(3, T, "group_record", record_type=2, group_id="g", **record)
    commit = Log().commit(1, producer=7, producer_epoch=5).rows[0]._replace(log_offset=9)
    (open_,) = replay_rows.open_transaction_rows(replayed([first, commit], release("4.3")), audit_id=1).to_pylist()
    assert (open_["transaction_start_offset"], open_["producer_epoch"], open_["offset_count"]) == (3, 5, 1)
    assert open_["group_ids"] == ["g"]


# How the transactions of offset commits ended, against the obvious: the producer's next COMMIT or ABORT in the log.


def ends(audited):
    """The outcome and the marker's offset of each commit, by its log offset; None for a commit that no marker ended."""
    markers = [row for row in audited.rows("transaction_markers") if row["outcome"] is not None]
    found = {}
    for row in audited.rows("offset_commits"):
        later = [
            (marker["outcome"], marker["log_offset"])
            for marker in markers
            if marker["producer_id"] == row["producer_id"] and marker["log_offset"] > row["log_offset"]
        ]
        found[row["log_offset"]] = later[0] if row["is_transactional"] and later else (None, None)
    return found


@pytest.mark.parametrize("chunk_bytes", [256, 1024, None])
def test_a_commit_has_the_outcome_of_its_producers_next_marker_in_the_range(chunk_bytes, chosen):
    known = 0
    for seed in chosen.some(range(20), 1):
        audited = audit(dense_log(seed, 60), How(chunk_bytes=chunk_bytes))
        reported = {row["log_offset"]: (row["outcome"], row["marker_offset"]) for row in audited.rows("offset_commits")}
        assert reported == ends(audited), seed
        known += sum(outcome is not None for outcome, _ in reported.values())
    assert known > (300 if chosen.every else 0)


def test_slots_are_numbered_by_group_topic_and_partition():
    group_id, topic = (pa.array(texts).dictionary_encode() for texts in (["g", "g", "g", "a"], ["t"] * 4))
    keys = {"group_id": group_id, "topic": topic, "partition": pa.array([1, 1, 0, 0], pa.int32())}
    slot, slots = number_slots(pa.table(keys | {"log_offset": [0] * len(keys["topic"])}), ALONE)
    assert slot.tolist() == [2, 2, 1, 0]
    assert slots.groups.take(pa.array(slots.group)).to_pylist() == ["a", "g", "g"]
    assert slots.partition.tolist() == [0, 0, 1]
