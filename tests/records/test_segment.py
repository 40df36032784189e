from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import lz4.frame
import numpy as np
import pytest

from kgroups_spark.records import batches as legacy
from kgroups_spark.records.columns import BatchColumns, RecordColumns
from kgroups_spark.records.segment import read_segment, scan_batches
from tests.records.build import batch, compress, message, record, wrapper
from tests.records.rows import read_all
from tests.slow_records import read_log

SEGMENTS = Path(__file__).parents[1] / "data" / "segments"
PATHS = sorted(SEGMENTS.rglob("*.log"))
LOGS = pytest.mark.parametrize("path", PATHS, ids=[str(p.relative_to(SEGMENTS)) for p in PATHS])


@LOGS
@pytest.mark.parametrize("chunk_bytes", [300, 5_000, 1 << 24])
def test_a_segment_of_a_real_broker_is_read_as_by_the_slow_twin(path, chunk_bytes):
    data = path.read_bytes()
    rows, corrupt, reader = read_all(data, chunk_bytes=chunk_bytes)
    assert rows == read_log(data)
    assert rows
    assert (corrupt, reader.stopped, reader.position) == ([], "end", len(data))


@LOGS
def test_reading_on_from_any_batch_gives_the_rest(path, chosen):
    data = path.read_bytes()
    whole = read_log(data)
    for position in chosen.some(scan_batches(io.BytesIO(data)).position.tolist(), 10):
        before, _, _ = read_all(data, end=position)
        after, _, _ = read_all(data, position=position)
        assert before + after == whole


@LOGS
def test_records_below_the_offset_asked_for_are_left_out(path):
    data = path.read_bytes()
    whole = read_log(data)
    for from_offset in {whole[0].offset, whole[len(whole) // 2].offset, whole[-1].offset, whole[-1].offset + 1}:
        rows, _, reader = read_all(data, from_offset=from_offset)
        assert rows == [row for row in whole if row.offset >= from_offset]
        assert reader.position == len(data)


@LOGS
@pytest.mark.parametrize("chunk_bytes", [300, 1 << 24])
def test_reading_stops_before_the_batch_that_ends_above_the_end_asked_for(path, chunk_bytes, chosen):
    """The position counts the bytes that were read: a ledger had none for a partition below its high watermark."""
    data = path.read_bytes()
    batches = scan_batches(io.BytesIO(data))
    for number in chosen.some(range(len(batches)), 5, always=(0,)):
        position = int(batches.position[number])
        rows, _, reader = read_all(data, end_offset=int(batches.last_offset[number]), chunk_bytes=chunk_bytes)
        assert rows == read_log(data[:position])
        assert (reader.stopped, reader.position) == ("end offset", position)


@LOGS
def test_scanned_headers_are_those_of_the_batches_read(path):
    data = path.read_bytes()
    parts = [part.batches for part in read_segment(io.BytesIO(data)) if isinstance(part, RecordColumns)]
    read, scanned = BatchColumns.concat(parts), scan_batches(io.BytesIO(data), chunk_bytes=2_000)
    known = ["last_offset", "leader_epoch", "magic", "crc", "attributes", "max_timestamp", "position", "size"]
    for name in [*known, "producer_id", "producer_epoch"]:
        assert getattr(scanned, name).tolist() == getattr(read, name).tolist(), name
    is_opened = (read.magic < 2) & (read.attributes & 7 != 0)
    assert scanned.base_offset[~is_opened].tolist() == read.base_offset[~is_opened].tolist()
    assert scanned.record_count[~is_opened].tolist() == read.record_count[~is_opened].tolist()


def test_the_next_offset_comes_from_the_header_where_the_last_records_are_compacted_away():  # T45
    log = batch(10, [(b"a", b"1")], last_offset_delta=7) + batch(18, [], last_offset_delta=4)
    rows, corrupt, _ = read_all(log)
    assert [(row.offset, row.batch) for row in rows] == [(10, (10, 17))]
    assert corrupt == []
    assert (scan_batches(io.BytesIO(log)).last_offset + 1).tolist() == [18, 23]


def test_an_empty_batch_comes_out_without_records():  # T27
    log = batch(5, [], attributes=0x30, producer_id=7, producer_epoch=1, last_offset_delta=0)
    (part,) = read_segment(io.BytesIO(log))
    assert isinstance(part, RecordColumns)
    assert (len(part), part.batches.is_control.tolist(), part.batches.last_offset.tolist()) == (0, [True], [5])


def test_log_append_time_gives_all_records_the_batch_time_whatever_their_own():
    body = record(0, b"a", b"1", timestamp_delta=5) + record(1, b"b", None, timestamp_delta=-3)
    appended = batch(0, [], body=body, count=2, last_offset_delta=1, attributes=0x08, max_timestamp=77)
    created = batch(2, [], body=body, count=2, last_offset_delta=1, base_timestamp=100)
    rows, _, _ = read_all(appended + created)
    assert [(row.timestamp, row.timestamp_type) for row in rows] == [(77, 1), (77, 1), (105, 0), (97, 0)]


def test_headers_of_records_are_passed_over():
    body = record(0, b"a", b"1", headers=2) + record(1, None, None, headers=1) + record(2, b"", b"")
    rows, corrupt, _ = read_all(batch(0, [], body=body, count=3, last_offset_delta=2))
    assert [(row.key, row.value) for row in rows] == [(b"a", b"1"), (None, None), (b"", b"")]
    assert corrupt == []


@pytest.mark.parametrize("codec", range(5))
def test_every_codec_and_magic_in_one_segment(codec):
    pairs = [(b"k%d" % i, b"v" * i) for i in range(40)]
    log = (
        batch(0, pairs, codec=codec)
        + message(40, b"old", None, magic=1)
        + batch(41, pairs)
        + batch(81, pairs, codec=codec)
    )
    rows, corrupt, _ = read_all(log, chunk_bytes=1_000)
    assert rows == read_log(log)
    assert [row.offset for row in rows] == list(range(121))
    assert corrupt == []


def test_a_small_file_needs_little_memory():
    log = batch(0, [(b"k", b"v")])
    tracemalloc.start()
    try:
        assert len(read_all(log, end=len(log))[0]) == 1
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_large_file_comes_in_chunks_as_large_as_asked_for():
    log = b"".join(batch(n, [(b"k", bytes(1_000))]) for n in range(1_000))
    for chunk_bytes, least in ((1 << 24, len(log)), (500_000, 400_000)):
        parts = [
            part for part in read_segment(io.BytesIO(log), chunk_bytes=chunk_bytes) if isinstance(part, RecordColumns)
        ]
        assert max(int(part.batches.size.sum()) for part in parts) >= least


def test_a_file_without_bytes_has_no_records():
    rows, corrupt, reader = read_all(b"")
    assert (rows, corrupt, reader.stopped, reader.position) == ([], [], "end", 0)


def test_data_is_padded_so_that_wide_reads_need_no_bounds_check():
    for part in read_segment(io.BytesIO(batch(0, [(b"k", b"v")]))):
        assert isinstance(part, RecordColumns)
        assert part.data.size >= part.value_start[0] + 32


def offsets(log):
    rows, corrupt, _ = read_all(log)
    assert corrupt == []
    assert rows == read_log(log)
    return [row.offset for row in rows]


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_inner_offsets_of_magic_1_are_relative_to_the_last_one(codec):  # T47
    inner = [message(i, b"k", b"%d" % i, magic=1) for i in range(3)]
    assert offsets(wrapper(42, inner, magic=1, codec=codec)) == [40, 41, 42]


def test_a_compacted_wrapper_keeps_its_gaps():
    inner = [message(i, b"k", b"v", magic=1) for i in (1, 4, 5)]
    assert offsets(wrapper(105, inner, magic=1)) == [101, 104, 105]


def test_inner_offsets_of_a_wrapper_with_offset_0_are_absolute():
    inner = [message(i, b"k", b"v", magic=1) for i in range(3)]
    log = wrapper(0, inner, magic=1) + message(3, b"k", b"v", magic=1)
    assert offsets(log) == [0, 1, 2, 3]


def test_lz4_in_magic_0_is_a_corrupt_batch():
    inner = lz4.frame.compress(message(7, b"k", b"v", magic=0), store_size=False)
    _, corrupt, _ = read_all(message(7, None, inner, magic=0, attributes=3))
    assert "codec 3 is unknown in magic 0 (0 none, 1 gzip, 2 snappy are known)" in corrupt[0].detail


def test_log_append_time_of_a_wrapper_is_that_of_its_messages():
    inner = [message(i, b"k", b"v", magic=1, timestamp=5) for i in range(2)]
    rows, _, _ = read_all(wrapper(1, inner, magic=1, attributes=8, timestamp=99))
    assert [(row.timestamp, row.timestamp_type) for row in rows] == [(99, 1), (99, 1)]


def test_no_more_messages_are_opened_at_once_than_memory_holds(monkeypatch):
    wrappers = [wrapper(3 * i + 2, [message(j, b"k", b"v", magic=1) for j in range(3)], magic=1) for i in range(5)]
    log = np.frombuffer(b"".join(wrappers), np.uint8)
    edges = np.cumsum([0, *map(len, wrappers)])
    headers = scan_batches(io.BytesIO(b"".join(wrappers)))
    opened = len(message(0, b"k", b"v", magic=1)) * 3
    for most, count in ((1, 1), (opened, 1), (opened + 1, 2), (5 * opened, 5), (1 << 20, 5)):
        monkeypatch.setattr(legacy, "OPENED_BYTES", most)
        found, taken = legacy.decode_legacy(log, edges, headers)
        assert (found.offset.tolist(), taken) == (list(range(3 * count)), count)
        assert offsets(b"".join(wrappers)) == list(range(15))


def bad(inner, *, magic=1, codec=1):
    value = inner if inner is None else compress(codec, inner)
    return message(9, None, value, magic=magic, attributes=codec)


@pytest.mark.parametrize(
    ("log", "detail"),
    [
        (bad(None), "a value of -1 bytes"),
        (bad(b""), "holds 0 messages"),
        (bad(message(0, b"k", b"v", magic=1) + b"\0" * 20), "holds 1 messages"),
        (bad(message(0, b"k", b"v", magic=1, attributes=1)), "not one uncompressed message"),
        (bad(batch(0, [(b"k", b"v")])), "not one uncompressed message"),
        (bad(message(1, b"k", b"v", magic=1) + message(0, b"k", b"v", magic=1)), "offsets of records leave or repeat"),
        (bad(message(10, b"k", b"v", magic=0), magic=0), "offsets of records leave or repeat"),
        (message(9, b"k", b"v", magic=1, attributes=4), "codec 4 is unknown in magic 1"),
        (message(9, b"k", b"junk", magic=1, attributes=1), "do not decompress as codec 1"),
    ],
)
def test_an_unsound_message_is_corrupt_and_its_neighbours_are_read(log, detail):
    rows, corrupt, _ = read_all(message(3, b"a", b"b", magic=1) + log + message(12, b"c", b"d", magic=1))
    assert [row.offset for row in rows] == [3, 12]
    assert [(c.position, c.size, c.record_count) for c in corrupt] == [(36, len(log), 1)]
    assert detail in corrupt[0].detail
