"""Damaged segments (R5, R1): an audit ends, damage is in quarantine, and every batch that is not damaged is there."""

from __future__ import annotations

import io
import itertools
import random
from functools import cache

import numpy as np
import pytest

from kgroups_spark.records.columns import BatchColumns
from kgroups_spark.records.segment import scan_batches
from tests.chosen import Chosen, one_of
from tests.logs.log_files import Files, read_zip, segments_of
from tests.nights.decoded import decode
from tests.nights.nights_here import Audited, How, audit
from tests.nights.replayed_logs import MemoryTables
from tests.nights.reported_tables import RECORD_TABLES, Reported
from tests.recorded_logs import CORPORA

# A partition of each log. Codecs of every kind, both message formats, transactions, group records of all types.
LOGS = {"classic-4.3": 1, "compacted-4.3": 1, "kip848-4.3": 2, "legacy-2.8-old-format": 0, "mixed-upgrade": 3}
SEEDS = range(6)
# Offsets and leader epochs of a batch are outside its checksum: damage there may pass for another offset.
COVERED_FROM = 16

each_log = pytest.mark.parametrize("corpus", one_of(*LOGS))
each_seed = pytest.mark.parametrize("seed", one_of(*SEEDS))


@pytest.fixture
def partition(corpus: str) -> int:
    return LOGS[corpus]


@cache
def files_of(corpus: str, partition: int) -> Files:
    files = read_zip(CORPORA)[corpus]
    return {path: files[path] for path in segments_of(files)[partition]}


def batches_of(data: bytes) -> BatchColumns:
    return scan_batches(io.BytesIO(data))


@cache
def whole_log(corpus: str, partition: int) -> set[int]:
    """The log offsets of the log without damage."""
    return offsets_reported(MemoryTables(decode(files_of(corpus, partition), "4.3").tables))


def offsets_reported(audited: Reported) -> set[int]:
    """Log offsets of all records that are in a table as themselves."""
    rows = (row for name in RECORD_TABLES for row in audited.rows(name) if row.get("reason") != "corrupt_batch")
    return {row["log_offset"] for row in rows}


def damaged_positions(audited: Audited) -> list[int]:
    return [row["file_position"] for row in audited.rows("quarantine") if row["reason"] == "corrupt_batch"]


def check(corpus: str, partition: int, path: str, data: bytes, touched: range) -> Audited:
    """Audits the log with one segment replaced; `touched`: bytes of the original that no longer are what they were."""
    files = files_of(corpus, partition)
    audited = audit({**files, path: data}, How("4.3"))
    assert audited.record_count() == audited.records_read()
    places = [row["log_offset"] for row in audited.rows("quarantine")]
    assert len(set(places)) == len(places)
    batches = batches_of(files[path])
    spoilt = (batches.position < touched.stop) & (batches.position + batches.size > touched.start)
    if spoilt[-2]:  # nothing confirms the offset of the last batch, which is held back
        spoilt[-1] = True
    lost = offsets_between(batches, spoilt)
    assert whole_log(corpus, partition) - lost <= offsets_reported(audited)
    return audited


def offsets_between(batches: BatchColumns, chosen: np.ndarray) -> set[int]:
    """Offsets that these batches can hold; the header of compressed legacy ones has only the last."""
    starts = np.append(0, batches.last_offset[:-1] + 1)[chosen].tolist()
    ends = (batches.last_offset[chosen] + 1).tolist()
    return {offset for start, end in zip(starts, ends, strict=True) for offset in range(start, end)}


def spot(data: bytes, rng: random.Random) -> tuple[int, int]:
    """A batch that has others after it, by its number, and a byte of it that its checksum covers."""
    batches = batches_of(data)
    number = rng.randrange(len(batches) - 3)
    size = int(batches.size[number])
    return number, int(batches.position[number]) + rng.randrange(COVERED_FROM + 1, size)


@each_log
@each_seed
@pytest.mark.parametrize("damage", ["a bit flipped", "overwritten", "removed", "inserted"])
def test_damage_costs_only_the_batches_that_it_touches(corpus: str, partition: int, damage: str, seed: int) -> None:
    rng = random.Random(seed)
    path, data = rng.choice(sorted(files_of(corpus, partition).items()))
    number, at = spot(data, rng)
    batches = batches_of(data)
    match damage:
        case "a bit flipped":
            size, now = 1, bytes([data[at] ^ 1 << rng.randrange(8)])
        case "overwritten":
            size = min(rng.choice([1, 30, 300, 3000]), len(data) - at)
            now = rng.choice([bytes(size), b"\xff" * size, rng.randbytes(size)])
            now = bytes(byte ^ 1 for byte in now) if data[at : at + size] == now else now
        case "removed":  # a sound batch stays after it
            size, now = min(rng.choice([1, 7, 100, 1000]), int(batches.position[-2]) - at), b""
        case _:
            size, now = 0, rng.randbytes(rng.choice([1, 20, 500]))
    audited = check(corpus, partition, path, data[:at] + now + data[at + size :], range(at, at + max(size, 1)))
    found, position = damaged_positions(audited), int(batches.position[number])
    assert found == [position] if damage == "a bit flipped" else position in found or at + size == len(data)


@each_log
def test_a_half_written_tail_is_not_damage(corpus: str, partition: int, chosen: Chosen) -> None:
    path = segments_of(files_of(corpus, partition))[partition][-1]
    data = files_of(corpus, partition)[path]
    last = batches_of(data)[-1:]
    for kept in chosen.some((1, 16, 40, int(last.size[0]) - 1), 2):
        end = int(last.position[0]) + kept
        audited = check(corpus, partition, path, data[:end], range(end, len(data)))
        assert damaged_positions(audited) == []


@each_log
def test_a_nonsense_header_field_costs_its_batch_and_at_most_its_neighbours(
    corpus: str, partition: int, chosen: Chosen
) -> None:
    path = segments_of(files_of(corpus, partition))[partition][0]
    data = files_of(corpus, partition)[path]
    batches = batches_of(data)
    number = len(batches) // 2
    start = int(batches.position[number])
    near = offsets_between(batches, np.abs(np.arange(len(batches)) - number) <= 1)
    whole = whole_log(corpus, partition)
    fields, fillers = ((0, 8), (8, 4), (12, 4), (16, 1), (17, 4)), (b"\0", b"\x7f", b"\xff")
    for (field, size), filler in chosen.some(itertools.product(fields, fillers), 2):
        broken = data[: start + field] + filler * size + data[start + field + size :]
        audited = audit({**files_of(corpus, partition), path: broken}, How("4.3"))
        assert audited.record_count() == audited.records_read()
        assert whole - near <= offsets_reported(audited), (field, filler)
