"""The cost of damage, counted in work and not in time; and the report of it, which does not depend on how a file is
read."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest

from kgroups_spark.records import batches, damage, segment
from kgroups_spark.records.batches import MOST_RECORDS, MOST_SUMMED, Buffer, Checksums
from kgroups_spark.records.columns import CorruptBatch
from kgroups_spark.records.segment import Window, read_segment
from tests.chosen import some_of
from tests.logs.damaged_logs import damaged
from tests.records.build import batch, message, wrapper
from tests.records.damaged_logs import LOGS
from tests.records.rows import read_all, rows_of


def headers_in_each_other(size: int) -> bytes:
    """Headers that each claim all that follows."""
    return b"".join(claim(1000 + at, size - at) + b"xyz" for at in range(0, size - 64, 64))


def messages_in_each_other(size: int) -> bytes:
    """The same in the old format."""
    out = b""
    for at in range(0, size - 64, 64):
        left = size - at - 12
        out += (struct.pack(">qiIbbii", 1000 + at, left, 1, 0, 0, -1, left - 14)).ljust(64, b"\x7f")
    return out


def sound_ones_in_a_damaged_one(size: int) -> bytes:
    """Small batches that do not reach the end of the damaged one around them."""
    inner = b"".join(batch(100 + i, [], last_offset_delta=0) for i in range(size // 61)) + b"\1" * 5
    outer = bytearray(batch(11, [(b"k", inner)]))
    outer[70] ^= 1
    return batch(10, [(b"k", b"v")]) + outer + b"".join(batch(10**7 + i, [(b"k", b"v")]) for i in range(20))


def sound_ones_between_claims_of_all_the_rest(size: int) -> bytes:
    out, number = b"", 0
    while len(out) < size:
        out += batch(number, [(b"k", b"v")]) + claim(number + 1, max(size - len(out), 100))
        number += 1
    return out


def sound_ones_inside_a_chain_of_damaged_ones(size: int) -> bytes:
    """The chain of lengths leads past the sound ones, and back into the chain after each of them."""
    out, number = b"", 0
    while len(out) < size:
        sound = batch(number, [(b"k", b"v")])
        filler = struct.pack(">qiib", 0, 47, 0, 2) + b"\1" * 42
        out += claim(number, 61 + 19 + len(sound) + len(filler), attributes=-1) + b"\xff" * 19 + sound + filler
        number += 1
    return out


def claim(offset: int, size: int, attributes: int = 0) -> bytes:
    """A header without its batch and with a wrong checksum."""
    return struct.pack(">qiibIhiqqqhii", offset, size - 12, 0, 2, 0, attributes, 0, 0, 0, -1, -1, -1, 1)


HOSTILE = [
    headers_in_each_other,
    messages_in_each_other,
    sound_ones_in_a_damaged_one,
    sound_ones_between_claims_of_all_the_rest,
    sound_ones_inside_a_chain_of_damaged_ones,
]


@contextmanager
def counted_work(work: dict[str, int]) -> Iterator[None]:
    """Bytes searched, headers walked over, bytes moved and given to a new buffer."""
    plausible, walk, fill = damage._plausible, segment.walk, Window._fill

    def searching(data: np.ndarray, low: int, high: int, above: int) -> list[int]:
        work["searched"] = work.get("searched", 0) + high - low
        return plausible(data, low, high, above)

    def walking(buffer: memoryview, filled: int, start: int = 0) -> tuple[np.ndarray, bool]:
        edges, may_go_on = walk(buffer, filled, start)
        work["walked"] = work.get("walked", 0) + len(edges)
        return edges, may_go_on

    def moving(self: Window, source: np.ndarray) -> None:
        work["moved"] = work.get("moved", 0) + self.filled
        fill(self, source)

    with (
        mock.patch.object(damage, "_plausible", searching),
        mock.patch.object(segment, "walk", walking),
        mock.patch.object(Window, "_fill", moving),
    ):
        yield


def work_of(log: bytes) -> dict[str, int]:
    work: dict[str, int] = {}
    with counted_work(work):
        reader = read_segment(io.BytesIO(log))
        for _ in reader:
            pass
    return {**work, "summed": reader._scan._sums.summed}


@pytest.mark.parametrize("make", some_of(2, *HOSTILE), ids=lambda make: make.__name__)
def test_damage_costs_a_bounded_number_of_steps_for_each_byte(make: Callable[[int], bytes]) -> None:
    small, large = make(1 << 15), make(1 << 17)
    work, more = work_of(small), work_of(large)
    growth = len(large) / len(small)
    for what, steps in more.items():
        assert steps <= 150 * len(large), what
        assert steps <= 1.5 * growth * work.get(what, 0) + (1 << 17), (what, work, more)


def test_zeros_of_a_preallocated_file_cost_no_step_for_each_byte() -> None:
    log = batch(0, [(b"k", b"v")]) + bytes(1 << 20)
    with mock.patch.object(damage, "unaligned", side_effect=AssertionError):
        reader = read_segment(io.BytesIO(log))
        assert (len(list(reader)), reader.stopped) == (1, "zeros")


def test_a_sum_of_a_large_claim_is_refused_after_too_many_bytes() -> None:
    data = batch(0, [(b"k", bytes(5000))])
    sums = Checksums(Buffer(memoryview(data)))
    crc = int.from_bytes(data[17:21], "big")
    assert [sums.of(0, len(data)) for _ in range(MOST_SUMMED + 1)] == [crc] * MOST_SUMMED + [-1]
    why = damage.diagnose(memoryview(data), 0, len(data), -1, sums)
    assert why == f"{len(data)} bytes claim to be a batch, in a file in which too many claims overlap"
    small = batch(0, [(b"k", b"v")])
    few = Checksums(Buffer(memoryview(small)))
    assert len({few.of(0, len(small)) for _ in range(2 * MOST_SUMMED)} - {-1}) == 1


def reported(log: bytes, chunk_bytes: int) -> list[object]:
    reader = read_segment(io.BytesIO(log), chunk_bytes=chunk_bytes)
    items: list[object] = []
    for item in reader:
        items += [item] if isinstance(item, CorruptBatch) else rows_of(item)
    return [*items, reader.stopped, reader.position]


def spoilt(rng: random.Random) -> bytes:
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
def test_the_report_of_damage_does_not_depend_on_the_chunks(seed: int) -> None:
    log = spoilt(random.Random(seed))
    whole = reported(log, 1 << 20)
    for chunk_bytes in (256, 700, 5000):
        assert reported(log, chunk_bytes) == whole


# Records of one batch.


def test_records_of_one_batch_are_handed_on_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "RECORDS_AT_ONCE", 7)
    log = (
        batch(0, [(b"k", b"%d" % i) for i in range(50)]) + batch(50, [], last_offset_delta=3) + batch(54, [(b"l", b"")])
    )
    sizes = [len(item.offset) for item in read_segment(io.BytesIO(log)) if not isinstance(item, CorruptBatch)]
    assert max(sizes) == 7 and sum(sizes) == 51
    assert [row.offset for row in read_all(log)[0]] == [*range(50), 54]


def test_large_values_of_one_batch_are_handed_on_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoded, a large value may cost a hundred times its bytes. Small values count nothing."""
    monkeypatch.setattr(segment, "LARGE_VALUE", 100)
    monkeypatch.setattr(segment, "LARGE_BYTES_AT_ONCE", 500)
    log = batch(0, [(b"k", bytes(101 if i % 2 else 100)) for i in range(40)], codec=4)
    pieces = [item.offset.tolist() for item in read_segment(io.BytesIO(log)) if not isinstance(item, CorruptBatch)]
    assert [offset for piece in pieces for offset in piece] == [*range(40)]
    assert 4 <= len(pieces) <= 5 and max(sum(offset % 2 for offset in piece) for piece in pieces) <= 5
    small = batch(0, [(b"k", bytes(100))] * 40)
    assert len([*read_segment(io.BytesIO(small))]) == 1


def test_a_batch_that_claims_more_records_than_any_coordinator_writes_is_not_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = MOST_RECORDS + 1
    bomb = batch(1, [], body=b"anything", codec=4, count=count, last_offset_delta=count - 1)
    monkeypatch.setattr(batches, "decompress", lambda *_: pytest.fail("it was opened"))
    rows, corrupt, _ = read_all(batch(0, [(b"a", b"1")]) + bomb + batch(count + 9, [(b"b", b"2")]))
    assert ([row.key for row in rows], [each.record_count for each in corrupt]) == ([b"a", b"b"], [count])
    assert (
        corrupt[0].detail
        == f"the header claims {count} records, more than the 499327 that a coordinator ever writes at once"
    )


def test_a_compressed_message_of_the_old_format_with_too_many_records_is_corrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kgroups_spark.records.batches.MOST_RECORDS", 3)
    log = wrapper(5, [message(i, b"k", b"v", magic=1) for i in range(4)], magic=1)
    rows, corrupt, _ = read_all(log + message(6, b"k", b"v", magic=1))
    assert ([row.offset for row in rows], len(corrupt)) == ([6], 1)
