"""The cleaner that tests clean logs with leaves what Kafka's leaves."""

from __future__ import annotations

import struct

from tests.chosen import Chosen
from tests.logs.cleaner import (
    DAY_MS,
    DELETE_HORIZON,
    NOW_MS,
    Files,
    GrowingLog,
    batches_of,
    clean,
    first_uncleanable_offset,
    records_of,
)
from tests.logs.dense_logs import CONTROL, TRANSACTIONAL, dense_log
from tests.logs.generated_logs import LOGS
from tests.logs.log_files import read_zip
from tests.records.build import KeyValue, batch, message
from tests.records.rows import read_all

FIRST, ACTIVE = "__consumer_offsets-0/00000000000000000000.log", "__consumer_offsets-0/00000000000000000100.log"


def segments(*batches: bytes, active: bytes = b"") -> dict[str, bytes]:
    return {FIRST: b"".join(batches), ACTIVE: active}


def transactional(offset: int, records: list[KeyValue], producer_id: int = 7, epoch: int = 0) -> bytes:
    return batch(offset, records, attributes=TRANSACTIONAL, producer_id=producer_id, producer_epoch=epoch)


def marker(offset: int, control_type: int, producer_id: int = 7, epoch: int = 0) -> bytes:
    record = struct.pack(">hh", 0, control_type), struct.pack(">hi", 0, 4)
    kind = TRANSACTIONAL | CONTROL
    return batch(offset, [record], attributes=kind, producer_id=producer_id, producer_epoch=epoch)


def left(files: Files) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of the data that is left."""
    return [(r.offset, r.key, r.value) for _, r in records_of(files) if not r.is_control]


def headers(files: Files) -> list[tuple[int, int, int]]:
    """First and last offset and record count of the batches that are left."""
    return [(b.base_offset, b.last_offset, len(b.records())) for path in sorted(files) for b in batches_of(files[path])]


def test_the_last_record_of_a_key_stays_and_the_active_segment_as_it_is() -> None:
    a, b = (b"k", b"1"), (b"k", b"2")
    files = segments(batch(0, [a, (b"l", b"1")]), batch(2, [b, b]), active=batch(100, [a]) + batch(101, [b]))
    cleaned = clean(files)
    assert left(cleaned) == [(1, b"l", b"1"), (3, b"k", b"2"), (100, *a), (101, *b)]
    assert headers(cleaned)[:2] == [(0, 1, 1), (2, 3, 1)]
    assert cleaned[ACTIVE] == files[ACTIVE]


def test_nothing_is_cleaned_from_the_given_offset_on() -> None:
    files = segments(batch(0, [(b"k", b"1")]), batch(1, [(b"k", b"2")]), batch(2, [(b"k", b"3")]), batch(3, []))
    assert [offset for offset, *_ in left(clean(files, up_to={0: 2}))] == [1, 2]
    assert clean(files, up_to={0: 0}) == files


def test_a_tombstone_stays_for_delete_retention_and_its_time_is_after_the_horizon() -> None:
    gone = batch(1, [(b"k", None)])
    files = segments(batch(0, [(b"k", b"1")]), gone, batch(2, [(b"l", b"2")]))
    once = clean(files)
    assert left(once) == [(1, b"k", None), (2, b"l", b"2")]
    tombstone = batches_of(once[FIRST])[0]
    assert tombstone.attributes & DELETE_HORIZON and tombstone.base_timestamp == NOW_MS + DAY_MS
    assert [r.timestamp for _, r in records_of(once)] == [1000, 1000]
    assert clean(once, now=NOW_MS + DAY_MS - 1) == once
    assert left(clean(once, now=NOW_MS + DAY_MS)) == [(2, b"l", b"2")]
    assert left(clean(files, drop_tombstones=True)) == [(2, b"l", b"2")]


def test_aborted_records_go_and_hide_nothing() -> None:
    files = segments(batch(0, [(b"k", b"1")]), transactional(1, [(b"k", b"2")]), marker(2, 0), batch(3, [(b"l", b"")]))
    assert left(clean(files)) == [(0, b"k", b"1"), (3, b"l", b"")]
    assert headers(clean(files)) == [(0, 0, 1), (1, 1, 0), (2, 2, 1), (3, 3, 1)]  # the producer's state, its marker
    assert headers(clean(files, drop_tombstones=True)) == [(0, 0, 1), (3, 3, 1)]


def test_a_marker_stays_while_a_batch_of_its_transaction_does() -> None:
    files = segments(transactional(0, [(b"k", b"1")]), marker(1, 1), batch(2, [(b"l", b"")]))
    assert headers(clean(files, drop_tombstones=True)) == [(0, 0, 1), (1, 1, 1), (2, 2, 1)]
    hidden = segments(transactional(0, [(b"k", b"1")]), marker(1, 1), batch(2, [(b"k", b"2")]))
    assert headers(clean(hidden)) == [(0, 0, 0), (1, 1, 1), (2, 2, 1)]
    assert headers(clean(hidden, drop_tombstones=True)) == [(2, 2, 1)]


def test_the_last_batch_of_a_producer_and_of_the_round_stay_without_records() -> None:
    files = segments(
        batch(0, [(b"k", b"1")], producer_id=7, producer_epoch=0),
        batch(1, [(b"k", b"2")], producer_id=7, producer_epoch=0),
        batch(2, [(b"k", b"3")]),
        transactional(3, [(b"k", b"4")], 8),
        marker(4, 0, 8, epoch=1),
    )
    assert headers(clean(files)) == [(1, 1, 0), (2, 2, 1), (4, 4, 1)]  # the marker raised its producer's epoch
    assert headers(clean(files, drop_tombstones=True)) == [(2, 2, 1), (4, 4, 0)]


def test_an_open_transaction_holds_back_the_cleaner() -> None:
    files = segments(batch(0, [(b"k", b"1")]), batch(1, [(b"k", b"2")]), transactional(2, [(b"m", b"")]))
    files[FIRST] += batch(3, [(b"l", b"1")]) + batch(4, [(b"l", b"2")])
    assert first_uncleanable_offset(files) == 2
    assert [offset for offset, *_ in left(clean(files))] == [1, 2, 3, 4]
    closed = files | {ACTIVE: marker(100, 1)}
    assert [offset for offset, *_ in left(clean(closed))] == [1, 2, 4]


def test_old_messages_become_batches() -> None:
    old = message(0, b"k", b"1", magic=0) + message(1, b"l", b"1", magic=1, timestamp=5)
    cleaned = batches_of(clean(segments(old, batch(2, [(b"k", b"2")])))[FIRST])
    assert [(b.magic, b.base_offset, b.leader_epoch, b.max_timestamp) for b in cleaned] == [
        (2, 1, -1, 5),
        (2, 2, 3, 2000),
    ]


def test_segments_become_one_and_a_cleaned_log_is_a_sound_log(chosen: Chosen) -> None:
    logs = [dense_log(seed) for seed in range(30)] + list(read_zip(LOGS).values())
    shrunk = 0
    for number in chosen.some(range(len(logs)), 16):
        files = logs[number]
        log = GrowingLog(files)
        for partition in log.partitions:
            log.append(partition, log.left(partition) * 2 // 3)
            log.roll(partition)
            log.append(partition, log.left(partition))
        for drop_tombstones in (False, True):
            cleaned = clean(log.files, drop_tombstones=drop_tombstones)
            assert sorted(cleaned) == sorted(log.files)
            assert set(left(cleaned)) <= set(left(log.files))
            shrunk += sum(map(len, cleaned.values())) < sum(map(len, log.files.values()))
            for data in cleaned.values():
                rows, corrupt, _ = read_all(data)
                assert not corrupt and [r.offset for r in rows] == [
                    r.offset for b in batches_of(data) for r in b.records()
                ]
    assert shrunk > (100 if chosen.every else 8)


def test_a_log_grows_as_it_was_written() -> None:
    files = dense_log(1)
    log = GrowingLog(files)
    while log.left(0):
        log.append(0, 4)
        log.roll(0)
    assert b"".join(log.files[path] for path in sorted(log.files)) == b"".join(files.values())
    assert len(log.files) == 9
