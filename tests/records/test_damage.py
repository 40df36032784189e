from __future__ import annotations

import io
import random
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgroups_spark.records import batches, damage, segment
from kgroups_spark.records.batches import MOST_RECORDS, MOST_SUMMED, Buffer, Checksums
from kgroups_spark.records.columns import CorruptBatch
from kgroups_spark.records.damage import in_order
from kgroups_spark.records.segment import Window, read_segment, scan_batches
from tests.chosen import examples, some_of
from tests.logs.damaged_logs import damaged
from tests.records.build import batch, message, varint, wrapper
from tests.records.rows import LOGS, NAMES, read_all, rows_of

EDGES = [[*scan_batches(io.BytesIO(log)).position.tolist(), len(log)] for log in LOGS]
Content = tuple[bytes | None, bytes | None, int]


def content(rows):
    """The fields of each record that a CRC covers. It does not cover the offset."""
    return [(row.key, row.value, row.timestamp) for row in rows]


def untouched(log, edges, start, stop):
    """The records of batches outside start .. stop and not beside it: no CRC covers a batch's position and offset, so a
    neighbour may be taken for the damage."""
    before = edges[max(bisect_right(edges, start) - 2, 0)]
    behind = edges[min(bisect_left(edges, stop) + 1, len(edges) - 1)]
    return content(read_all(log[:before])[0]) + content(read_all(log[behind:])[0])


def is_subsequence(part, whole):
    rest = iter(whole)
    return all(row in rest for row in part)


def check_reading(damaged, log, must_come, chunk_bytes=1 << 20):
    """Reading ends; every byte is accounted for once; no record comes that was not there; all that must come do."""
    reader = read_segment(io.BytesIO(damaged), chunk_bytes=chunk_bytes)
    rows = []
    spans = []
    for item in reader:
        if isinstance(item, CorruptBatch):
            spans.append((item.position, item.size))
            assert item.raw == damaged[item.position : item.position + item.size]
            assert item.detail
            assert item.record_count >= 0
        else:
            rows += rows_of(item)
            spans += zip(item.batches.position.tolist(), item.batches.size.tolist(), strict=True)
    assert [position for position, _ in spans] == [0, *np.cumsum([size for _, size in spans]).tolist()][:-1]
    assert sum(size for _, size in spans) == reader.position
    assert reader.stopped == "end" or reader.position < len(damaged)
    assert set(content(rows)) <= set(content(read_all(log)[0]))
    assert is_subsequence(must_come, content(rows))


Damage = Callable[[bytes, int, int, np.random.Generator], bytes]


def noise(log, start, stop, random):
    return log[:start] + random.bytes(stop - start) + log[stop:]


def zeros(log, start, stop, random):
    return log[:start] + bytes(stop - start) + log[stop:]


def hole(log, start, stop, random):
    return log[:start] + log[stop:]


def insertion(log, start, stop, random):
    return log[:start] + random.bytes(stop - start) + log[start:]


def without_swallowed(must_come, damaged, chunk_bytes):
    """Those that are not within damaged batches whose own lengths lead to a sound one."""
    starts = {}
    for c in read_all(damaged, chunk_bytes=chunk_bytes)[1]:
        if c.size == 12 + int.from_bytes(c.raw[8:12], signed=True):
            starts[c.position + c.size] = starts.pop(c.position, c.position)
    inside = [row for end, start in starts.items() for row in content(read_all(damaged[start + 1 : end])[0])]
    return [row for row in must_come if row not in inside]


PLACES = st.integers(0, len(LOGS) - 1).flatmap(lambda i: st.tuples(st.just(i), st.integers(0, len(LOGS[i]) - 1)))


@pytest.mark.parametrize("damage", [noise, zeros, hole, insertion], ids=lambda f: f.__name__)
@examples(6)
@given(
    place=PLACES,
    size=st.integers(1, 600),
    seed=st.integers(0, 2**32 - 1),
    chunk_bytes=st.sampled_from([2_000, 1 << 20]),
)
def test_batches_outside_the_damage_are_read(damage, place, size, seed, chunk_bytes):
    i, start = place
    log = LOGS[i]
    stop = min(start + size, len(log))
    damaged = damage(log, start, stop, np.random.default_rng(seed))
    must_come = untouched(log, EDGES[i], start, start + 1 if damage is insertion else stop)
    must_come = without_swallowed(must_come, damaged, chunk_bytes)
    check_reading(damaged, log, must_come, chunk_bytes)


@pytest.mark.parametrize("i", range(len(LOGS)), ids=NAMES)
def test_each_byte_of_an_offset_flipped_costs_one_batch_at_most(i, chosen):
    # No CRC covers an offset. Where two offsets are in the wrong order, the reader may drop the sound one of the two
    # batches: 10 30 20 40 was 10 15 20 40 or 10 30 35 40.
    edges = EDGES[i][:7]
    log = LOGS[i][: edges[-1]]
    for at in chosen.some([start + byte for start in edges[:-1] for byte in range(8)], 12):
        damaged = bytearray(log)
        damaged[at] ^= 0x81
        check_reading(bytes(damaged), log, [])
        assert len(read_all(bytes(damaged))[1]) <= 1


def test_a_zero_filled_tail_ends_quietly():  # T48
    log = batch(0, [(b"a", b"1")])
    for size in (1, 16, 61, 5_000):
        rows, corrupt, reader = read_all(log + bytes(size), chunk_bytes=1_000)
        assert (len(rows), corrupt, reader.stopped, reader.position) == (1, [], "zeros", len(log))


@pytest.mark.parametrize("written", [1, 8, 10, 12, 17, 40, 61, 70, -12, -3, -2])
@pytest.mark.parametrize("zeros", [0, 16, 300])
def test_a_torn_batch_waits_with_or_without_zeros_after_it(written, zeros):
    log, torn = batch(0, [(b"a", b"1")]), batch(300, [(b"b", b"a value")], leader_epoch=5)[:written]
    rows, corrupt, reader = read_all(log + torn + bytes(zeros))
    assert (len(rows), corrupt, reader.position) == (1, [], len(log))
    assert reader.stopped in ("partial batch", "zeros")


def test_noise_at_the_end_is_reported():
    log = batch(0, [(b"a", b"1")])
    rows, corrupt, reader = read_all(log + b"\xff" * 300)
    assert (len(rows), reader.stopped, reader.position) == (1, "end", len(log) + 300)
    assert [(c.position, c.size, c.base_offset, c.record_count) for c in corrupt] == [(len(log), 300, None, 1)]
    assert "length of -1 bytes" in corrupt[0].detail


LONG = [batch(i, [(b"key", b"value %d" % i)]) for i in range(20)]


def damaged_log(i, at, value):
    parts = [bytearray(part) for part in LONG]
    parts[i][at : at + len(value)] = value
    return b"".join(parts)


def read_damaged(log):
    rows, corrupt, _ = read_all(log)
    return [row.offset for row in rows], corrupt


@pytest.mark.parametrize("length", [0, 13, -1, 14, 60, 70, 500, 1_000_000, 2**31 - 1])
def test_a_broken_length_costs_one_batch(length):
    offsets, corrupt = read_damaged(damaged_log(7, 8, length.to_bytes(4, "big", signed=True)))
    assert offsets == [i for i in range(20) if i != 7]
    assert [(c.position, c.size) for c in corrupt] == [(sum(map(len, LONG[:7])), len(LONG[7]))]


def test_batches_that_a_damaged_length_swallows_are_one_corrupt_batch_with_their_bytes():
    swallowing = sum(map(len, LONG[7:10])) - 12
    damaged = damaged_log(7, 8, swallowing.to_bytes(4, "big"))
    offsets, corrupt = read_damaged(damaged)
    assert offsets == [i for i in range(20) if i not in (7, 8, 9)]
    assert [c.raw for c in corrupt] == [damaged[sum(map(len, LONG[:7])) : sum(map(len, LONG[:10]))]]


@pytest.mark.parametrize("offset", [-1, 0, 6, 2**40])
@pytest.mark.parametrize("i", [1, 7, 18])
def test_an_offset_out_of_order_costs_one_batch(i, offset):
    if i == 7 or offset != 6:  # the sixth may follow the first
        offsets, corrupt = read_damaged(damaged_log(i, 0, offset.to_bytes(8, "big", signed=True)))
        assert offsets == [j for j in range(20) if j != i]
        assert [c.detail for c in corrupt] == [c.detail for c in corrupt if "out of order" in c.detail]
        assert len(corrupt) == 1


def test_an_unknown_magic_is_named():
    offsets, corrupt = read_damaged(damaged_log(7, 16, b"\x03"))
    assert offsets == [i for i in range(20) if i != 7]
    assert corrupt[0].detail == "magic 3 is unknown (0, 1 and 2 are known)"


def test_offsets_and_count_of_a_damaged_batch_come_from_its_header():
    log = batch(0, [(b"a", b"1")] * 3) + batch(3, [(b"b", b"2")] * 4) + batch(7, [(b"c", b"3")])
    damaged = bytearray(log)
    damaged[len(batch(0, [(b"a", b"1")] * 3)) + 70] ^= 1
    _, corrupt = read_damaged(bytes(damaged))
    assert [(c.base_offset, c.last_offset, c.record_count) for c in corrupt] == [(3, 6, 4)]


def test_corrupt_batches_below_the_offset_asked_for_are_left_out():
    log = damaged_log(7, 65, b"xx")
    assert [len(read_all(log, from_offset=offset)[1]) for offset in (0, 7, 8)] == [1, 1, 0]


def test_a_batch_stored_in_a_record_is_never_read_as_one():
    hidden = batch(5, [(b"forged", b"record")])
    carrier = bytearray(batch(3, [(b"k", hidden), (b"l", b"v")]))
    carrier[70] ^= 1
    offsets, corrupt = read_damaged(LONG[0] + bytes(carrier) + batch(9, [(b"a", b"1")]))
    assert offsets == [0, 9]
    assert len(corrupt) == 1


@pytest.mark.parametrize(
    ("bad", "detail"),
    [
        (batch(5, [(b"k", b"v")], count=2, last_offset_delta=1), "claims 2 records, more than 9 bytes can hold"),
        (batch(5, [(b"k", b"v")], count=-1), "the header claims -1 records"),
        (batch(5, [(b"k", b"v")], count=2**31 - 1), "the header claims 2147483647 records"),
        (batch(5, [(b"k", b"v")], count=0), "not exactly the 0 records"),
        (batch(5, [], body=b"\x0e\0\0\0\x01\x01\0\xff", count=1), "not exactly the 1 records"),
        (batch(5, [], body=b"\xff" * 50, count=3, last_offset_delta=2), "not exactly the 3 records"),
        (batch(5, [], body=b"\x80" * 200, count=20, last_offset_delta=2), "not exactly the 20 records"),
        (batch(5, [], body=b"\x0c\0\0\0\x7e\x01\0", count=1), "not exactly the 1 records"),
        (batch(5, [], body=b"\x0c\0\0\0\x01\x01\x02", count=1), "not exactly the 1 records"),
        (batch(5, [], body=varint(-(2**31)) + bytes(30), count=2, last_offset_delta=1), "not exactly the 2 records"),
        (batch(5, [(b"k", b"v")] * 3, last_offset_delta=1), "offsets of records leave"),
        (batch(5, [(b"k", b"v")], attributes=6), "codec 6 is unknown"),
        (batch(5, [], body=b"junk", count=1, attributes=4), "do not decompress as codec 4"),
    ],
)
def test_a_batch_with_the_right_crc_and_unsound_records_is_corrupt(bad, detail):
    many = b"".join(batch(i, [(b"m", b"n")]) for i in range(10, 40))  # enough for lock-step
    for log in (LONG[0] + bad + message(8, b"o", b"p", magic=1), LONG[0] + bad + many):
        rows, corrupt, _ = read_all(log)
        assert len(corrupt) == 1
        assert (corrupt[0].position, corrupt[0].raw) == (len(LONG[0]), bad)
        assert detail in corrupt[0].detail
        assert len(rows) == (2 if len(log) < 500 else 31)


def test_reading_a_log_of_damaged_batches_alone_ends():
    log = bytearray(b"".join(batch(i, [(b"k", b"v")]) for i in range(500)))
    size = len(batch(0, [(b"k", b"v")]))
    log[65::size] = b"\xee" * 500
    for chunk_bytes in (1 << 20, 5_000):  # the file in one window, and in many
        rows, corrupt, _ = read_all(bytes(log), chunk_bytes=chunk_bytes)
        assert (rows, [c.base_offset for c in corrupt]) == ([], list(range(500)))


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ([0, 1, 2, 3], [True, True, True, True]),
        ([0, 9, 2, 3], [True, False, True, True]),
        ([7, 1, 2, 3], [False, True, True, True]),
        ([4, 5, 1, 6], [True, True, False, True]),
        ([4, 5, 6, 6], [True, True, True, False]),
        ([3, 5, 5, 6], [True, False, True, True]),
        ([3, 4, 4, 6], [True, True, False, True]),
    ],
)
def test_the_batch_that_is_out_of_order_is_dropped(first, expected):
    offsets = np.array(first, np.int64)
    assert in_order(offsets, offsets, -1).tolist() == expected


def test_no_flip_in_a_log_without_gaps_costs_a_sound_batch():
    sound = np.arange(3, 60, 3)
    for odd in range(len(sound) - 2):
        for bit in range(8):
            first = sound.copy()
            first[odd] ^= 1 << bit
            stays = in_order(first, first + 2, 2)
            assert np.flatnonzero(~stays).tolist() == [odd], (odd, bit)


# The cost of damage, counted in work and not in time; and the report of it, which does not depend on how a file is
# read.


def headers_in_each_other(size):
    """Headers that each claim all that follows."""
    return b"".join(claim(1000 + at, size - at) + b"xyz" for at in range(0, size - 64, 64))


def sound_ones_in_a_damaged_one(size):
    """Small batches that do not reach the end of the damaged one around them."""
    inner = b"".join(batch(100 + i, [], last_offset_delta=0) for i in range(size // 61)) + b"\1" * 5
    outer = bytearray(batch(11, [(b"k", inner)]))
    outer[70] ^= 1
    return batch(10, [(b"k", b"v")]) + outer + b"".join(batch(10**7 + i, [(b"k", b"v")]) for i in range(20))


def sound_ones_between_claims_of_all_the_rest(size):
    out, number = b"", 0
    while len(out) < size:
        out += batch(number, [(b"k", b"v")]) + claim(number + 1, max(size - len(out), 100))
        number += 1
    return out


def claim(offset, size, attributes=0):
    """A header without its batch and with a wrong checksum."""
    return struct.pack(">qiibIhiqqqhii", offset, size - 12, 0, 2, 0, attributes, 0, 0, 0, -1, -1, -1, 1)


@contextmanager
def counted_work(work):
    """Bytes searched, headers walked over, bytes moved and given to a new buffer."""
    plausible, walk, fill = damage._plausible, segment.walk, Window._fill

    def searching(data, low, high, above):
        work["searched"] = work.get("searched", 0) + high - low
        return plausible(data, low, high, above)

    def walking(buffer, filled, start=0):
        edges, may_go_on = walk(buffer, filled, start)
        work["walked"] = work.get("walked", 0) + len(edges)
        return edges, may_go_on

    def moving(self, source):
        work["moved"] = work.get("moved", 0) + self.filled
        fill(self, source)

    with (
        mock.patch.object(damage, "_plausible", searching),
        mock.patch.object(segment, "walk", walking),
        mock.patch.object(Window, "_fill", moving),
    ):
        yield


def work_of(log):
    work = {}
    with counted_work(work):
        reader = read_segment(io.BytesIO(log))
        for _ in reader:
            pass
    return {**work, "summed": reader._scan._sums.summed}


@pytest.mark.parametrize(
    "make",
    [headers_in_each_other, sound_ones_in_a_damaged_one, sound_ones_between_claims_of_all_the_rest],
    ids=lambda make: make.__name__,
)
def test_damage_costs_a_bounded_number_of_steps_for_each_byte(make):
    small, large = make(1 << 15), make(1 << 17)
    work, more = work_of(small), work_of(large)
    growth = len(large) / len(small)
    for what, steps in more.items():
        assert steps <= 150 * len(large), what
        assert steps <= 1.5 * growth * work.get(what, 0) + (1 << 17), (what, work, more)


def test_zeros_of_a_preallocated_file_cost_no_step_for_each_byte():
    log = batch(0, [(b"k", b"v")]) + bytes(1 << 20)
    with mock.patch.object(damage, "unaligned", side_effect=AssertionError):
        reader = read_segment(io.BytesIO(log))
        assert (len(list(reader)), reader.stopped) == (1, "zeros")


def test_a_sum_of_a_large_claim_is_refused_after_too_many_bytes():
    data = batch(0, [(b"k", bytes(5000))])
    sums = Checksums(Buffer(memoryview(data)))
    crc = int.from_bytes(data[17:21], "big")
    assert [sums.of(0, len(data)) for _ in range(MOST_SUMMED + 1)] == [crc] * MOST_SUMMED + [-1]
    why = damage.diagnose(memoryview(data), 0, len(data), -1, sums)
    assert why == f"{len(data)} bytes claim to be a batch, in a file in which too many claims overlap"
    small = batch(0, [(b"k", b"v")])
    few = Checksums(Buffer(memoryview(small)))
    assert len({few.of(0, len(small)) for _ in range(2 * MOST_SUMMED)} - {-1}) == 1


def reported(log, chunk_bytes):
    reader = read_segment(io.BytesIO(log), chunk_bytes=chunk_bytes)
    items = []
    for item in reader:
        items += [item] if isinstance(item, CorruptBatch) else rows_of(item)
    return [*items, reader.stopped, reader.position]


def spoilt(rng):
    """Recorded or made batches with damage that the reader reports."""
    if rng.random() < 0.5:
        log = rng.choice(LOGS)
        data = bytearray(log[: rng.choice([2000, 9000])])
    else:
        made = [
            batch(
                3 * i,
                [(b"k", bytes(rng.choice([1, 90, 700])))],
                codec=rng.choice([0, 0, 0, 5]),
                count=rng.choice([1, 1, 1, -1, 2**31 - 1]),
                last_offset_delta=rng.choice([0, 2]),
            )
            for i in range(30)
        ]
        data = bytearray(b"".join(made))
    data += bytes(rng.choice([0, 0, 1, 60, 61, 2000]))
    for _ in range(rng.choice([1, 2, 3])):
        data = bytearray(damaged({"": bytes(data)}, rng)[""])
    return bytes(data)


@pytest.mark.parametrize("seed", some_of(10, *range(150)))
def test_the_report_of_damage_does_not_depend_on_the_chunks(seed):
    log = spoilt(random.Random(seed))
    whole = reported(log, 1 << 20)
    for chunk_bytes in (256, 700, 5000):
        assert reported(log, chunk_bytes) == whole


# Records of one batch.


def test_records_of_one_batch_are_handed_on_in_pieces(monkeypatch):
    monkeypatch.setattr(segment, "RECORDS_AT_ONCE", 7)
    log = (
        batch(0, [(b"k", b"%d" % i) for i in range(50)]) + batch(50, [], last_offset_delta=3) + batch(54, [(b"l", b"")])
    )
    sizes = [len(item.offset) for item in read_segment(io.BytesIO(log)) if not isinstance(item, CorruptBatch)]
    assert max(sizes) == 7 and sum(sizes) == 51
    assert [row.offset for row in read_all(log)[0]] == [*range(50), 54]


def test_large_values_of_one_batch_are_handed_on_in_pieces(monkeypatch):
    """Decoded, a large value may cost a hundred times its bytes. Small values count nothing."""
    monkeypatch.setattr(segment, "LARGE_VALUE", 100)
    monkeypatch.setattr(segment, "LARGE_BYTES_AT_ONCE", 500)
    log = batch(0, [(b"k", bytes(101 if i % 2 else 100)) for i in range(40)], codec=4)
    pieces = [item.offset.tolist() for item in read_segment(io.BytesIO(log)) if not isinstance(item, CorruptBatch)]
    assert [offset for piece in pieces for offset in piece] == [*range(40)]
    assert 4 <= len(pieces) <= 5 and max(sum(offset % 2 for offset in piece) for piece in pieces) <= 5
    small = batch(0, [(b"k", bytes(100))] * 40)
    assert len([*read_segment(io.BytesIO(small))]) == 1


def test_a_batch_that_claims_more_records_than_any_coordinator_writes_is_not_opened(monkeypatch):
    count = MOST_RECORDS + 1
    bomb = batch(1, [], body=b"anything", codec=4, count=count, last_offset_delta=count - 1)
    monkeypatch.setattr(batches, "decompress", lambda *_: pytest.fail("it was opened"))
    rows, corrupt, _ = read_all(batch(0, [(b"a", b"1")]) + bomb + batch(count + 9, [(b"b", b"2")]))
    assert ([row.key for row in rows], [each.record_count for each in corrupt]) == ([b"a", b"b"], [count])
    assert (
        corrupt[0].detail
        == f"the header claims {count} records, more than the 499327 that a coordinator ever writes at once"
    )


def test_a_compressed_message_of_the_old_format_with_too_many_records_is_corrupt(monkeypatch):
    monkeypatch.setattr("kgroups_spark.records.batches.MOST_RECORDS", 3)
    log = wrapper(5, [message(i, b"k", b"v", magic=1) for i in range(4)], magic=1)
    rows, corrupt, _ = read_all(log + message(6, b"k", b"v", magic=1))
    assert ([row.offset for row in rows], len(corrupt)) == ([6], 1)
