"""The ledger's facts of one range: how many records of which type and version, topics, where reading ended."""

from __future__ import annotations

import itertools
import random
import struct
from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kgroups_spark.errors import KgroupsError, NotReadable
from kgroups_spark.messages.coordinator_records import GroupRecordDecoder
from kgroups_spark.records.columns import CorruptBatch
from kgroups_spark.replay import history_rows, range_decoder
from kgroups_spark.replay.counts import HOUR_MS, MOST_PARTITIONS, TopicNames, fitting_partition_counts
from kgroups_spark.replay.history_rows import decodable
from kgroups_spark.replay.range_decoder import RangeDecoder, decoded_again, readings
from kgroups_spark.replay.ranges import LogRange, RangeProgress, RangeReader, ReadContext
from kgroups_spark.sources.partition_log import SegmentPiece
from kgroups_spark.words import to_epoch_ms
from tests.lake.table_rows import rows_of
from tests.logs.damaged_logs import damaged
from tests.logs.dense_logs import dense_log
from tests.logs.forgetful_logs import key
from tests.logs.planned_batches import commits
from tests.messages.vectors import ALL, KEY_OF_TYPE
from tests.nights.decoded import MemoryFile, whole_ranges
from tests.records.build import batch

PATH = "__consumer_offsets-3/00000000000000000000.log"
# The golden vectors have the type and version of each value; each key comes as a tombstone, too.
VALUES = [vector for vector in ALL if vector["kind"] == "value"]
RECORDS = [
    *((KEY_OF_TYPE[vector["type"]], bytes.fromhex(vector["hex"])) for vector in VALUES),
    *((key, None) for key in KEY_OF_TYPE.values()),
    (b"\0\x63", b"of no known type"),
]
SOUND = [batch(0, RECORDS[:20]), batch(20, RECORDS[20:], leader_epoch=5)]
DAMAGED = batch(len(RECORDS), [(b"k", b"v")] * 2, leader_epoch=5)[:-1] + b"?"
LAST = batch(len(RECORDS) + 2, RECORDS[:1], leader_epoch=6)


def read(*batches, **more):
    """The progress of the range, and how many rows of each table it gave."""
    decoder, rows = decoder_of(*batches, **more), Counter[str]()
    for name, table in decoder.outputs():
        rows[name] += table.num_rows
    return decoder.progress, rows


def decoder_of(*batches, **more):
    log = b"".join(batches)
    log_range = LogRange(3, 0, 0, (SegmentPiece(PATH, 0, len(log)),))
    log_range = log_range._replace(**more)  # type: ignore[arg-type]
    return RangeDecoder([log_range], ReadContext(1, "4.3", lambda _: MemoryFile(log)), GroupRecordDecoder())


def test_records_are_counted_by_type_and_version_tombstones_apart():
    progress, rows = read(*SOUND)
    expected = Counter((vector["type"], vector["version"]) for vector in VALUES)
    assert progress.record_counts == expected + Counter((number, None) for number in KEY_OF_TYPE)
    assert progress.quarantined == {"unknown_record_type": 1}
    of_offsets = sum(1 for key, _ in RECORDS if key is not None and key[1] < 2)
    assert rows["offset_commits"] == of_offsets
    assert rows["group_records"] == len(RECORDS) - of_offsets - 1


def test_topics_are_those_of_offset_commits_and_of_group_records():
    values = [(key, value) for key, value in RECORDS if key is not None and value is not None]
    commits, others = ([record for record in values if record[0][1] in types] for types in ({1}, {4, 15}))
    t1, t2 = "ASNFZ4mrze8RIjNEVWZ3iA", "AAAAAAAAAAUAAAAAAAAABg"
    groups = batch(0, others, base_timestamp=7000)
    assert sorted(read(groups)[0].topics) == [(t2, "t2", 7000, "group_record"), (t1, "t1", 7000, "group_record")]
    # The earliest time counts.
    later, last = (batch(len(others) + at, commits, base_timestamp=6000 + at) for at in (0, len(commits)))
    both = read(groups, later, last)[0]
    assert sorted(both.topics) == [(t2, "t2", 7000, "group_record"), (t1, "topic-a", 6000, "offset_commit")]


def test_records_are_counted_by_group_and_hour():
    """A tombstone in a transaction is a tombstone. Records without a time have no hour."""
    hour = datetime(2026, 11, 16, 6, tzinfo=UTC)
    begun, ended = to_epoch_ms(hour), to_epoch_ms(hour) + HOUR_MS - 1
    ((_, value),) = commits(1)
    of_a, of_b = ((key(1, group, "t") + bytes(4)) for group in "ab")
    decoder = decoder_of(
        batch(0, [(of_a, value), (of_a, None), (of_b, value)], base_timestamp=begun),
        batch(3, [(of_a, value), (of_a, None)], base_timestamp=ended, attributes=0x10, producer_id=7, producer_epoch=0),
        batch(5, [(of_a, value), (key(2, "a"), None)], base_timestamp=-1),
        batch(7, [(key(2, "b"), None)], base_timestamp=begun),
    )
    traffic = [
        tuple(row.values())[2:]
        for name, rows in decoder.outputs()
        if name == "group_traffic"
        for row in rows.to_pylist()
    ]
    commit, tombstone, of_group = len(of_a) + len(value), len(of_a), len(key(2, "a"))
    assert sorted(traffic, key=str) == [
        ("a", None, 1, 0, 0, 1, commit + of_group),
        ("a", hour, 2, 2, 1, 0, 2 * commit + 2 * tombstone),
        ("b", hour, 1, 0, 0, 1, commit + of_group),
    ]


def test_a_sighting_of_a_topic_with_a_time_is_earlier_than_one_without():
    for times in ((-1, 40), (40, -1)):
        names = TopicNames()
        for time in times:
            names.add("A", "orders", time, "offset_commit")
        names.merge([("B", "clicks", None, "group_record")])
        assert names.rows() == [("A", "orders", 40, "offset_commit"), ("B", "clicks", None, "group_record")]


def test_numbers_that_a_partition_would_not_be_in_do_not_fit():
    assert fitting_partition_counts(["a"], 47) == [50]  # its hash is 97: 97 % 50 is 47
    assert fitting_partition_counts(["a"], 97) == list(range(98, MOST_PARTITIONS + 1))
    # A hash without an absolute value.
    assert fitting_partition_counts(["polygenelubricants"], 0) == list(range(1, MOST_PARTITIONS + 1))


def test_a_range_ends_after_its_last_sound_batch():
    progress, _ = read(*SOUND, DAMAGED, LAST)
    end = len(RECORDS) + 3
    assert (progress.records, progress.next_offset, progress.missing) == (end, end, 0)
    assert (progress.last_batch_offset, progress.last_leader_epoch) == (end - 1, 6)
    assert progress.last_batch_crc == int.from_bytes(LAST[17:21], "big")
    assert progress.size_bytes == sum(map(len, (*SOUND, DAMAGED, LAST)))
    assert progress.quarantined == {"unknown_record_type": 1, "corrupt_batch": 1}


def test_each_damage_has_a_log_offset_of_its_own():
    reader = RangeReader(LogRange(3, 0, 5, ()), ReadContext(1, "4.3", MemoryFile), "t", RangeProgress(3, 0, 5, 5))
    damage = [CorruptBatch(0, 1, offset, None, 1, "", b"") for offset in (None, 7, 7, 8)]
    assert [reader.place_of(each, None) for each in damage] == [5, 7, 8, 9]


def test_missing_offsets_are_those_without_a_record():
    progress, _ = read(batch(0, RECORDS[:3], last_offset_delta=5), batch(9, RECORDS[:1]))
    assert (progress.records, progress.next_offset, progress.missing) == (4, 10, 6)
    assert read(batch(9, RECORDS[:1]), start_offset=9)[0].missing == 0


@pytest.mark.parametrize("name", ["record_counts", "quarantined", "topics", "large_records", "times_off"])
def test_a_range_that_is_read_again_counts_nowhere(name):
    progress, rows = read(*SOUND, is_reread=True)
    assert not getattr(progress, name)
    assert progress.records == len(RECORDS)
    assert rows["offset_commits"] > 0 and not rows["group_traffic"]


def test_commits_come_sorted_in_row_groups_whose_dictionaries_have_each_text_once(monkeypatch):
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


def test_row_groups_of_all_lots_begin_with_the_same_groups(monkeypatch):
    monkeypatch.setattr(history_rows, "ROWS_AT_ONCE", 40)
    monkeypatch.setattr(history_rows, "LOT_BYTES", 1)
    groups = [f"g{number:02}" for number in range(64)]
    rng = random.Random(4)
    keys = {group: key(1, group, "t") + bytes(4) for group in groups}
    batches = [batch(at, [(keys[group], None) for group in rng.sample(groups, 50)]) for at in range(0, 400, 50)]
    log = b"".join(batches)
    log_range = LogRange(3, 0, 0, (SegmentPiece(PATH, 0, len(log)),))
    context = ReadContext(1, "4.3", lambda _: MemoryFile(log), chunk_bytes=len(batches[0]))
    outputs = RangeDecoder([log_range], context, GroupRecordDecoder()).outputs()
    spans = [pc.min_max(rows["group_id"].cast("string")).values() for name, rows in outputs if name == "offset_commits"]
    lows = sorted((low.as_py(), high.as_py()) for low, high in spans)
    assert len(lows) == 3 * history_rows.MOST_ROW_GROUPS
    apart = [after for before, after in itertools.pairwise(lows) if before[1] < after[0]]
    assert len(apart) == history_rows.MOST_ROW_GROUPS - 1


# Small ranges of several offsets partitions, decoded together, give the rows and facts that each gives alone.
Rows = Counter[str]
# Facts that are collected from all ranges and belong to no partition.
OF_ALL = ("topics",)


def decoded(files, ranges, release):
    """The rows as text; offset_commits of one part of the log are in order."""

    def opened(path):
        if path not in files:
            raise NotReadable(path)
        return MemoryFile(files[path])

    decoder, found = RangeDecoder(ranges, ReadContext(1, release, opened), GroupRecordDecoder()), Rows()
    for name, rows in decoder.outputs():
        plain = (pa.table(rows) if isinstance(rows, pa.RecordBatch) else rows).to_pylist()
        if name == "offset_commits":
            order = [
                [row[n] for n in ("offsets_partition", "group_id", "topic", "partition", "log_offset")] for row in plain
            ]
            assert order == sorted(order)
        found.update(f"{name} {row}" for row in plain)
    return found, decoder.progresses


def facts(progress):
    return {name: value for name, value in vars(progress).items() if name not in OF_ALL}


def log_of(seeds, rng, damage=0.3):
    """Dense logs as partitions 3, 7, ... of one log, and the share of them that is damaged."""
    files = {}
    for number, seed in enumerate(seeds):
        one = dense_log(seed, 12)
        one = damaged(one, rng) if rng.random() < damage else one
        files |= {f"__consumer_offsets-{3 + 4 * number}/{path.rsplit('/', 1)[1]}": data for path, data in one.items()}
    return files


@pytest.mark.parametrize("together", [1 << 22, 1])
def test_ranges_decoded_together_equal_each_alone(together, chosen, monkeypatch):
    """Together, or as soon as one has been read."""
    monkeypatch.setattr(range_decoder, "JOINED_BYTES", together)
    for _ in range(40 if chosen.every else 4):
        seeds = [chosen.random.randrange(1 << 32) for _ in range(chosen.random.randint(2, 4))]
        files, release = log_of(seeds, chosen.random), chosen.one(("4.4", "4.0.0", "3.9", "2.8"))
        ranges = whole_ranges(files)
        try:
            rows, progresses = decoded(files, ranges, release)
        except KgroupsError as error:  # by a damaged base offset
            assert "which no broker writes" in str(error)
            continue
        alone = [decoded(files, [log_range], release) for log_range in ranges]
        assert rows == sum((each for each, _ in alone), Rows()), seeds
        assert list(map(facts, progresses)) == [facts(of) for _, (of,) in alone], seeds
        names = sorted(name for _, (of,) in alone for name in of.topics)
        earliest = {topic_id: (topic, *rest) for topic_id, topic, *rest in progresses[0].topics}
        assert earliest.keys() == {name[0] for name in names}


def test_a_partition_that_cannot_be_read_leaves_the_others(chosen):
    files = log_of([chosen.random.randrange(1 << 32) for _ in range(3)], chosen.random, damage=0)
    ranges = whole_ranges(files)
    left = {path: data for path, data in files.items() if not path.startswith("__consumer_offsets-7/")}
    rows, progresses = decoded(left, ranges, "4.3")
    others = [each for each in ranges if each.offsets_partition != 7]
    assert rows == sum((decoded(left, [each], "4.3")[0] for each in others), Rows())
    assert [each.given_up is None for each in progresses] == [True, False, True]
    assert progresses[1].records == 0


def test_small_ranges_of_files_are_read_by_one_decoder():
    files = {f"__consumer_offsets-{number}/{0:020}.log": bytes(number) for number in range(4)}
    small = whole_ranges(files)
    large = [LogRange(9, number, 0, small[3].pieces) for number in range(2)]
    found = list(readings([*large, *small], ReadContext(1, "4.3", lambda path: MemoryFile(files[path]))))
    assert [[each.offsets_partition for each in reading.ranges] for reading in found] == [[0], [9, 9]]
    of_each = [[len(decoder.progresses) for decoder in reading.decoders()] for reading in found]
    assert of_each == [[4], [1, 1]]


# Records of quarantine decoded again: their transactions are those that quarantine has.


@pytest.mark.parametrize(
    ("producer_id", "said", "expected"), [(7, True, True), (7, False, False), (None, False, False)]
)
def test_a_commit_is_of_a_transaction_as_quarantine_says(producer_id, said, expected):
    ((key, value),) = commits(1)
    place = {"offsets_partition": 3, "log_offset": 5, "log_timestamp": None, "producer_id": producer_id}
    rows = rows_of("quarantine", {**place, "is_transactional": said, "raw_key": key, "raw_value": value})
    found = {name: table.to_pylist() for name, table in decoded_again(rows, 3, audit_id=2)}
    (commit,) = found["offset_commits"]
    names = ("log_offset", "is_transactional", "producer_id", "producer_epoch")
    assert tuple(commit[name] for name in names) == (5, expected, producer_id, None)
    (traffic,) = found["group_traffic"]
    assert (traffic["commits"], traffic["transactional_commits"]) == (1, int(expected))


def test_records_keep_their_times_and_come_in_log_order():
    ((key, value),) = commits(1)
    at = datetime(2026, 11, 16, 6, 30, 15, 123_000, UTC)
    record = {"producer_id": None, "is_transactional": False, "raw_key": key}
    rows = rows_of(
        "quarantine",
        {**record, "log_offset": 7, "log_timestamp": at, "raw_value": value},
        {**record, "log_offset": 5, "log_timestamp": None, "raw_value": None},
    )
    names = ("offsets_partition", "log_offset", "log_timestamp", "committed_offset")
    found = [table.to_pylist() for name, table in decoded_again(rows, 3, audit_id=2) if name == "offset_commits"]
    assert [[tuple(row[name] for name in names) for row in lot] for lot in found] == [
        [(3, 5, None, None), (3, 7, at, 5)]
    ]


def test_only_unresolved_single_records_with_a_key_may_be_decoded_again():
    one = {"record_count": 1, "raw_key": b"k", "reason": "unknown_record_type"}
    others = ({"reason": "corrupt_batch"}, {"record_count": 0}, {"raw_key": None}, {"resolved_by": 3})
    rows = rows_of("quarantine", *({**one, "log_offset": at, **other} for at, other in enumerate((*others, {}))))
    assert decodable(rows)["log_offset"].to_pylist() == [len(others)]
