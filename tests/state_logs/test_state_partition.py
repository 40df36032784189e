"""One partition of the other logs, from bytes to rows: R1, R2, R3, R5 and R6, over recordings of brokers."""

from __future__ import annotations

import io
import random
from collections import Counter
from copy import deepcopy
from datetime import UTC, datetime

import pytest

from kgroups_spark.records.segment import scan_batches
from kgroups_spark.replay.ranges import not_corrected_notes
from kgroups_spark.replay.state_logs import Settings
from tests.nights.state_nights import StateNights, ends_of_batches
from tests.recorded_state_logs import segments
from tests.records.build import batch
from tests.share_coordinator import histories as shares
from tests.transaction_coordinator import histories as transactions

RECORDED = [
    ("share-4.3", "__share_group_state"),
    ("share-4.4", "__share_group_state"),
    ("transactions-4.4", "__transaction_state"),
    ("legacy-0.11", "__transaction_state"),
    ("scala-3.9-live", "__transaction_state"),
    ("compacted-4.3", "__transaction_state"),
]
SHARE, TRANSACTION = "__share_group_state", "__transaction_state"


def logs(recording, topic):
    return [(partition, data) for partition, data in segments(recording, topic).items()]


def audited(topic, partition, *nights, release="4.4"):
    found = StateNights(topic, release, partition)
    for log in nights:
        found.audit(log)
    return found


@pytest.mark.parametrize(("recording", "topic"), RECORDED)
def test_nights_cut_anywhere_give_the_rows_of_one_audit(recording, topic, chosen):
    for partition, log in logs(recording, topic):
        whole = audited(topic, partition, log)
        ends = ends_of_batches(log)
        for cut in chosen.some(ends[:-1], 1):
            two = audited(topic, partition, log[:cut], log)
            assert (two.now(), two.history(), two.state) == (whole.now(), whole.history(), whole.state), cut
        every = audited(topic, partition, *(log[:end] for end in chosen.some(ends, 4, always=ends[-1:])))
        assert (every.now(), every.history(), every.state) == (whole.now(), whole.history(), whole.state)


@pytest.mark.parametrize(("recording", "topic"), RECORDED)
def test_history_has_every_record_once_and_gives_the_current_tables_again(recording, topic):
    for partition, log in logs(recording, topic):
        nights = audited(topic, partition, log)
        batches = scan_batches(io.BytesIO(log))
        counts = Counter(row["log_offset"] for name, rows in nights.history().items() for row in rows if "value" in row)
        assert set(counts.values()) == {1} and counts.total() == int(batches.record_count.sum())
        assert nights.reads[0].progress[0].records == counts.total()
        before, state = nights.now(), nights.state
        nights.rebuild()
        assert (nights.now(), nights.state) == (before, state)


def of_transactions(offset, *ids_and_values):
    """A batch of values of transactional ids; None: tombstone."""
    records = [
        (transactions.key_bytes(name), None if value is None else transactions.value_bytes(value, 1))
        for name, value in ids_and_values
    ]
    return batch(offset, records)


ONGOING = transactions.value(1, [("orders", [0])])


def test_entries_gone_when_a_partition_is_read_again_stay_gone_in_a_rebuild():
    nights = StateNights(TRANSACTION)
    nights.audit(of_transactions(0, ("a", ONGOING), ("b", ONGOING)))
    # The tombstone of `a` came and was compacted away before the next night.
    log = of_transactions(1, ("b", ONGOING)) + of_transactions(5, ("c", ONGOING))
    nights.audit(log, again=True)
    ids = {row["transactional_id"] for row in nights.tables["transactional_ids"]}
    assert (ids, nights.reads[-1].gone) == ({"b", "c"}, 1)
    assert [row["log_offset"] for row in nights.tables["transaction_state_records"]] == [0, 1, 5]
    nights.audit(log + of_transactions(6, ("d", ONGOING)))
    before = nights.now()
    nights.rebuild()
    assert nights.now() == before
    assert {row["transactional_id"] for row in nights.tables["transactional_ids"]} == {"b", "c", "d"}
    # An id that comes back later is there again, in later nights, too.
    log += of_transactions(6, ("d", ONGOING)) + of_transactions(7, ("a", ONGOING))
    nights.audit(log)
    nights.audit(log + of_transactions(8, ("d", ONGOING)))
    assert {row["transactional_id"] for row in nights.tables["transactional_ids"]} == {"a", "b", "c", "d"}
    before = nights.now()
    nights.rebuild()
    assert nights.now() == before


def test_a_damaged_log_that_is_read_again_changes_nothing():
    """Older values of an id must not come back, nor an id go, because a batch cannot be read."""
    first = of_transactions(0, ("a", transactions.value(0)), ("b", ONGOING))
    newer = of_transactions(2, ("a", ONGOING), ("c", ONGOING))
    nights = audited(TRANSACTION, 1, first + newer)
    before = nights.now()
    nights.audit(first + newer[:-1] + bytes([newer[-1] ^ 1]), again=True)
    assert (nights.now(), nights.reads[-1].gone) == (before, 0)
    assert not_corrected_notes(nights.reads[-1].progress) == [
        "partition 1 was not corrected: the log that was read again is damaged in 1 place"
    ]
    nights.rebuild()
    assert nights.now() == before


def test_a_cleaned_log_that_is_read_again_gives_its_own_ids_and_later_nights_and_rebuilds_keep_them(chosen):
    for seed in chosen.some(range(100), 5):
        rng, version = random.Random(seed), "0.11" if seed % 3 else "4.4"  # 0.11 fails at values of version 1
        new = [(n, name, value) for n, (name, _, value) in enumerate(transactions.history(seed))]
        nights, log = StateNights(TRANSACTION, version), []
        while new:
            log, new = log + new[:5], new[5:]
            left = cleaned(log, rng) if rng.random() < 0.6 else log
            log, again = left, left != log
            data = b"".join(batch(n, [(transactions.key_bytes(name), value)]) for n, name, value in log)
            nights.audit(data, again=again)
            if again:
                assert nights.now() == audited(TRANSACTION, 1, data, release=version).now(), seed
            before = nights.now()
            rebuilt = deepcopy(nights)
            rebuilt.rebuild()
            assert rebuilt.now() == before, seed


def cleaned(log, rng):
    """The records that the cleaner leaves below a random one, some tombstones among them, and those after it."""
    dirty, newest = rng.randrange(len(log)), {name: n for n, name, _ in log}
    left = [each for each in log[:dirty] if newest[each[1]] == each[0] and (each[2] is not None or rng.random() < 0.5)]
    return left + log[dirty:]


def of_shares(offset, *records):
    return batch(offset, [(shares.key_bytes(record), shares.value_bytes(record)) for record in records])


def test_a_share_log_that_begins_after_the_records_read_is_replayed_without_the_old_state():
    first, second = (shares.Record(0, *key, shares.snapshot(start=3)) for key in shares.KEYS[:2])
    nights = StateNights(SHARE)
    nights.audit(of_shares(0, first, second))
    # DeleteRecords took both snapshots, the tombstone of the first, and left a newer snapshot of the second.
    newer = shares.Record(0, *shares.KEYS[1], shares.snapshot(start=9, epoch=1))
    nights.audit(of_shares(7, newer), starts_again=True)
    assert [row["start_offset"] for row in nights.tables["share_partitions"]] == [9]
    # A night without records of it leaves it as it is.
    other = shares.Record(0, *shares.KEYS[2], shares.snapshot(start=1))
    nights.audit(of_shares(7, newer) + of_shares(8, other))
    assert sorted(row["start_offset"] for row in nights.tables["share_partitions"]) == [1, 9]
    before, state = nights.now(), nights.state
    nights.rebuild()
    assert (nights.now(), nights.state) == (before, state)


def test_garbage_is_quarantined_with_its_bytes_and_the_rest_is_read():
    sound = of_transactions(0, ("a", ONGOING))
    unknown = batch(1, [(b"\0\x09\0\0", b"x"), (None, b"y"), (transactions.key_bytes("b"), b"\0\x07")])
    torn = bytearray(of_transactions(4, ("c", ONGOING)))
    torn[-1] ^= 1
    log = sound + unknown + bytes(torn) + of_transactions(5, ("d", ONGOING))
    nights = StateNights(TRANSACTION)
    nights.audit(log)
    rows = nights.tables["state_quarantine"]
    assert [(row["log_offset"], row["reason"], row["coordinator_fails"]) for row in rows] == [
        (1, "unknown_record_type", False),
        (2, "null_key", True),
        (3, "unknown_value_version", False),
        (4, "corrupt_batch", True),
    ]
    assert [row["raw_key"] for row in rows] == [b"\0\x09\0\0", None, transactions.key_bytes("b"), None]
    assert [row["file_position"] for row in rows] == [*[len(sound)] * 3, len(sound + unknown)]
    assert rows[2]["transactional_id"] == "b" and rows[3]["raw_value"] == bytes(torn)
    assert {row["log"] for row in rows} == {TRANSACTION}
    assert [row["transactional_id"] for row in nights.tables["transactional_ids"]] == ["a", "d"]
    assert nights.reads[0].progress[0].quarantined.total() == 4


LIMITS = [
    # The settings of an audit, then the attempts left of records of groups `g` and `café` that were delivered 5 times,
    # and why others were given up.
    (Settings(), (None, None), (None, None)),
    (Settings(5), (0, 0), ("attempts_used_up", "attempts_used_up")),
    (Settings(5, None, {"g": 10}), (5, 0), ("rejected_or_gap", "attempts_used_up")),
    (Settings(12, None, {"g": None}), (None, 7), (None, "rejected_or_gap")),  # nobody may see it
    (Settings(4, None, {}), (0, 0), ("attempts_used_up", "attempts_used_up")),
]


def test_a_record_at_which_a_load_fails_is_in_history_and_named_in_quarantine():
    log = of_transactions(0, ("a", ONGOING), ("a", transactions.value(9, [])))
    nights = StateNights(TRANSACTION)
    nights.audit(log)
    assert [row["log_offset"] for row in nights.tables["transaction_state_records"]] == [0, 1]
    (row,) = nights.tables["state_quarantine"]
    assert (row["log_offset"], row["reason"], row["record_count"]) == (1, "load_would_fail", 0)
    assert row["detail"] == "Unknown transaction state id 9"
    assert [row["log_offset"] for row in nights.tables["transactional_ids"]] == [0]


def test_a_groups_own_delivery_limit_counts_before_the_clusters_and_an_unknown_one_is_null():
    batches = [shares.batch(0, 3, 0, 5), shares.batch(4, 5, 3, 5), shares.batch(6, 6, 4, 5)]
    records = [shares.Record(0, *key, shares.snapshot(batches)) for key in shares.KEYS[1:]]
    nights, log = StateNights(SHARE), of_shares(0, *records)
    for settings, attempts, archived in LIMITS:
        for run in (lambda: nights.audit(log), nights.rebuild):
            nights.settings = settings
            run()
            rows = {(row["group_id"], row["delivery_state"]): row for row in nights.tables["share_batches"]}
            of_state = {state: [rows[group, state] for group in ("g", "café")] for state in ("available", "archived")}
            assert tuple(row["attempts_left"] for row in of_state["available"]) == attempts
            assert tuple(row["archived_as"] for row in of_state["archived"]) == archived
            given_up = [rows[group, "archiving"] for group in ("g", "café")]  # 4.4, for a dead-letter queue
            assert [(row["attempts_left"], row["archived_as"]) for row in given_up] == [(None, a) for a in archived]


def test_an_unused_id_goes_after_the_clusters_expiration_or_kafkas_default():
    log = of_transactions(0, ("a", transactions.value(0, [])))
    for settings, seconds in ((Settings(transactional_id_expiration_ms=500), 1.5), (Settings(), 1 + 7 * 86_400)):
        nights = StateNights(TRANSACTION, settings=settings)
        for run in (lambda nights: nights.audit(log), StateNights.rebuild):
            run(nights)
            due = datetime.fromtimestamp(seconds, UTC)
            assert [row["expires_at"] for row in nights.tables["transactional_ids"]] == [due]
