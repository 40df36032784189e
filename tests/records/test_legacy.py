from __future__ import annotations

import io

import lz4.frame
import numpy as np
import pytest

from kgroups_spark.records import batches as legacy
from kgroups_spark.records.segment import scan_batches
from tests.records.build import batch, compress, message, wrapper
from tests.records.rows import read_all
from tests.slow_records import read_log


def offsets(log: bytes) -> list[int]:
    rows, corrupt, _ = read_all(log)
    assert corrupt == []
    assert rows == read_log(log)
    return [row.offset for row in rows]


@pytest.mark.parametrize("codec", [1, 2, 3])
def test_inner_offsets_of_magic_1_are_relative_to_the_last_one(codec: int) -> None:  # T47
    inner = [message(i, b"k", b"%d" % i, magic=1) for i in range(3)]
    assert offsets(wrapper(42, inner, magic=1, codec=codec)) == [40, 41, 42]


def test_a_compacted_wrapper_keeps_its_gaps() -> None:
    inner = [message(i, b"k", b"v", magic=1) for i in (1, 4, 5)]
    assert offsets(wrapper(105, inner, magic=1)) == [101, 104, 105]


def test_inner_offsets_of_a_wrapper_with_offset_0_are_absolute() -> None:
    inner = [message(i, b"k", b"v", magic=1) for i in range(3)]
    log = wrapper(0, inner, magic=1) + message(3, b"k", b"v", magic=1)
    assert offsets(log) == [0, 1, 2, 3]


@pytest.mark.parametrize("codec", [1, 2])
def test_inner_offsets_of_magic_0_are_absolute(codec: int) -> None:
    inner = [message(i, b"k", None, magic=0) for i in (40, 42)]
    assert offsets(wrapper(42, inner, magic=0, codec=codec)) == [40, 42]


def test_lz4_in_magic_0_is_a_corrupt_batch() -> None:
    inner = lz4.frame.compress(message(7, b"k", b"v", magic=0), store_size=False)
    _, corrupt, _ = read_all(message(7, None, inner, magic=0, attributes=3))
    assert "codec 3 is unknown in magic 0 (0 none, 1 gzip, 2 snappy are known)" in corrupt[0].detail


def test_log_append_time_of_a_wrapper_is_that_of_its_messages() -> None:
    inner = [message(i, b"k", b"v", magic=1, timestamp=5) for i in range(2)]
    rows, _, _ = read_all(wrapper(1, inner, magic=1, attributes=8, timestamp=99))
    assert [(row.timestamp, row.timestamp_type) for row in rows] == [(99, 1), (99, 1)]


def test_no_more_messages_are_opened_at_once_than_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_messages_of_all_formats_in_one_segment() -> None:
    log = message(0, b"a", b"0", magic=0) + message(1, None, None, magic=1) + message(2, b"", b"", magic=0)
    log += wrapper(4, [message(i, b"w", b"v", magic=1) for i in range(2)], magic=1) + batch(5, [(b"n", b"1")])
    log += message(6, b"late", None, magic=1)
    assert offsets(log) == list(range(7))


def bad(inner: bytes | None, *, magic: int = 1, codec: int = 1) -> bytes:
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
def test_an_unsound_message_is_corrupt_and_its_neighbours_are_read(log: bytes, detail: str) -> None:
    rows, corrupt, _ = read_all(message(3, b"a", b"b", magic=1) + log + message(12, b"c", b"d", magic=1))
    assert [row.offset for row in rows] == [3, 12]
    assert [(c.position, c.size, c.record_count) for c in corrupt] == [(36, len(log), 1)]
    assert detail in corrupt[0].detail
