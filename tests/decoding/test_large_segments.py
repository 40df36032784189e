"""Segments of more than 2 and 4 GiB: positions in a file do not fit into 32 bits. A file with a hole costs no disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.messages.coordinator_records import GroupRecordDecoder
from kgroups_spark.records.segment import scan_batches
from kgroups_spark.replay.range_decoder import RangeDecoder
from kgroups_spark.replay.ranges import LogRange, RangeProgress, ReadContext, cut
from kgroups_spark.sources.files import open_file
from kgroups_spark.sources.partition_log import SegmentFile, SegmentPiece
from tests.logs.planned_batches import commits
from tests.records.build import batch

SOUND = [batch(number, commits(1)) for number in range(40)]
DAMAGED = 20  # the batch at this offset
LOG = b"".join(data[:-1] + b"?" if number == DAMAGED else data for number, data in enumerate(SOUND))
HALF = len(b"".join(SOUND[:DAMAGED]))


def segment_at(folder: Path, position: int) -> Path:
    """A segment file whose batches begin at this position."""
    path = folder / "00000000000000000000.log"
    with path.open("wb") as file:
        file.seek(position)
        file.write(LOG)
    return path


def read(path: Path, position: int) -> tuple[RangeProgress, dict[str, list[dict[str, Any]]]]:
    """The range's progress, and its rows by table."""
    piece = SegmentPiece(str(path), position, position + len(LOG))
    reading = RangeDecoder(
        [LogRange(0, 0, 0, (piece,))], ReadContext(1, "4.3", open_file, chunk_bytes=512), GroupRecordDecoder()
    )
    rows: dict[str, list[dict[str, Any]]] = {}
    for name, table in reading.outputs():
        rows.setdefault(name, []).extend(table.to_pylist())
    return reading.progress, rows


# The damaged batch and those after it begin on either side of the border.
@pytest.mark.parametrize("position", [2**31 - HALF, 2**31 - HALF - 1, 2**32 - HALF, 2**32 - HALF - 1, 5 * 2**30])
def test_a_segment_is_read_the_same_wherever_its_batches_are(tmp_path: Path, position: int) -> None:
    expected, expected_rows = read(segment_at(tmp_path, 0), 0)
    assert (expected.records, expected.quarantined) == (40, {"corrupt_batch": 1})
    path = segment_at(tmp_path, position)
    found, rows = read(path, position)
    [corrupt] = rows["quarantine"]
    assert corrupt["file_position"] == position + HALF
    assert found.damage == [(path.name, position + HALF)]
    corrupt["file_position"] = HALF
    assert rows == expected_rows
    assert (found.next_offset, found.size_bytes, found.last_batch_crc) == (40, len(LOG), expected.last_batch_crc)
    with path.open("rb") as file:
        assert scan_batches(file, position=position).position[-1] == position + len(LOG) - len(SOUND[-1])


def test_a_range_of_large_segments_is_cut_by_their_bytes() -> None:
    sizes = [3 * 2**30, 5 * 2**30, 2**31]
    segments = [SegmentFile(f"{number:020}.log", number, size) for number, size in enumerate(sizes)]
    pieces = tuple(SegmentPiece(each.path, 0, each.size, each) for each in segments)
    ranges = cut([LogRange(0, 0, 0, pieces)], 8)
    assert [each.size_bytes for each in ranges] == sizes
