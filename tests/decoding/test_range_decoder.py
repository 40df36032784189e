"""The ledger's facts of one range: how many records of which type and version, topics, where reading ended."""

from __future__ import annotations

import itertools
import struct
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from kgroups_spark.messages.coordinator_records import GroupRecordDecoder
from kgroups_spark.replay import history_rows
from kgroups_spark.replay.range_decoder import RangeDecoder
from kgroups_spark.replay.ranges import LogRange, RangeProgress, ReadContext
from kgroups_spark.sources.partition_log import SegmentPiece
from tests.logs.forgetful_logs import key
from tests.messages.vectors import ALL, KEY_OF_TYPE
from tests.nights.decoded import MemoryFile
from tests.records.build import KeyValue, batch

PATH = "__consumer_offsets-3/00000000000000000000.log"
# The golden vectors have the type and version of each value; each key comes as a tombstone, too.
VALUES = [vector for vector in ALL if vector["kind"] == "value"]
RECORDS: list[KeyValue] = [
    *((KEY_OF_TYPE[vector["type"]], bytes.fromhex(vector["hex"])) for vector in VALUES),
    *((key, None) for key in KEY_OF_TYPE.values()),
    (b"\0\x63", b"of no known type"),
]
SOUND = [batch(0, RECORDS[:20]), batch(20, RECORDS[20:], leader_epoch=5)]
DAMAGED = batch(len(RECORDS), [(b"k", b"v")] * 2, leader_epoch=5)[:-1] + b"?"
LAST = batch(len(RECORDS) + 2, RECORDS[:1], leader_epoch=6)


def read(*batches: bytes, **more: object) -> tuple[RangeProgress, Counter[str]]:
    """The progress of the range, and how many rows of each table it gave."""
    decoder, rows = decoder_of(*batches, **more), Counter[str]()
    for name, table in decoder.outputs():
        rows[name] += table.num_rows
    return decoder.progress, rows


def decoder_of(*batches: bytes, **more: object) -> RangeDecoder:
    log = b"".join(batches)
    log_range = LogRange(3, 0, 0, (SegmentPiece(PATH, 0, len(log)),))
    log_range = replace(log_range, **more)  # type: ignore[arg-type]
    return RangeDecoder([log_range], ReadContext(1, "4.3", lambda _: MemoryFile(log)), GroupRecordDecoder())


def test_records_are_counted_by_type_and_version_tombstones_apart() -> None:
    progress, rows = read(*SOUND)
    expected = Counter((vector["type"], vector["version"]) for vector in VALUES)
    assert progress.record_counts == expected + Counter((number, None) for number in KEY_OF_TYPE)
    assert progress.quarantined == {"unknown_record_type": 1}
    of_offsets = sum(1 for key, _ in RECORDS if key is not None and key[1] < 2)
    assert rows["offset_commits"] == of_offsets
    assert rows["group_records"] == len(RECORDS) - of_offsets - 1


def test_topics_are_those_of_offset_commits_and_of_group_records() -> None:
    values = [(key, value) for key, value in RECORDS if key is not None and value is not None]
    commits, others = ([record for record in values if record[0][1] in types] for types in ({1}, {4, 15}))
    t1, t2 = "ASNFZ4mrze8RIjNEVWZ3iA", "AAAAAAAAAAUAAAAAAAAABg"
    groups = batch(0, others, base_timestamp=7000)
    assert sorted(read(groups)[0].topics) == [(t2, "t2", 7000, "group_record"), (t1, "t1", 7000, "group_record")]
    # The earliest time counts.
    both = read(groups, batch(len(others), commits, base_timestamp=6000))[0]
    assert sorted(both.topics) == [(t2, "t2", 7000, "group_record"), (t1, "topic-a", 6000, "offset_commit")]


def test_a_range_ends_after_its_last_sound_batch() -> None:
    progress, _ = read(*SOUND, DAMAGED, LAST)
    end = len(RECORDS) + 3
    assert (progress.records, progress.next_offset, progress.missing) == (end, end, 0)
    assert (progress.last_batch_offset, progress.last_leader_epoch) == (end - 1, 6)
    assert progress.last_batch_crc == int.from_bytes(LAST[17:21], "big")
    assert progress.size_bytes == sum(map(len, (*SOUND, DAMAGED, LAST)))
    assert progress.quarantined == {"unknown_record_type": 1, "corrupt_batch": 1}


def test_missing_offsets_are_those_without_a_record() -> None:
    progress, _ = read(batch(0, RECORDS[:3], last_offset_delta=5), batch(9, RECORDS[:1]))
    assert (progress.records, progress.next_offset, progress.missing) == (4, 10, 6)
    assert read(batch(9, RECORDS[:1]), start_offset=9)[0].missing == 0


@pytest.mark.parametrize("name", ["record_counts", "quarantined", "topics", "large_records", "times_off"])
def test_a_range_that_is_read_again_counts_nowhere(name: str) -> None:
    progress, rows = read(*SOUND, is_reread=True)
    assert not getattr(progress, name)
    assert progress.records == len(RECORDS)
    assert rows["offset_commits"] > 0 and not rows["group_traffic"]


def test_commits_come_sorted_in_row_groups_whose_dictionaries_have_each_text_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history_rows, "ROWS_PER_GROUP", 16)
    slots = list(itertools.product("ba", ("t1", "t2"), range(10)))
    tombstones = [(key(1, group, topic) + struct.pack(">i", partition), None) for group, topic, partition in slots]
    lots = [rows for name, rows in decoder_of(batch(0, tombstones)).outputs() if name == "offset_commits"]
    assert [len(rows) for rows in lots] == [13, 13, 14]
    found = pa.concat_tables(lots).select(["group_id", "topic", "partition"]).to_pylist()
    assert [tuple(row.values()) for row in found] == sorted(slots)
    dictionaries = [
        rows.column(name).chunk(0).dictionary.to_pylist() for rows in lots for name in ("group_id", "topic")
    ]
    assert all(len(set(texts)) == len(texts) for texts in dictionaries)
