"""Log directories: their partitions, the files of a log, which copy is read, the high watermark."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroups_spark.audit.plan import plan_audit
from kgroups_spark.errors import NotReadable, UsageError
from kgroups_spark.records.columns import CorruptBatch, RecordColumns
from kgroups_spark.sources.files import FolderNotFound
from kgroups_spark.sources.segment_log import SegmentLog, SegmentReading, Span, choose_copies
from kgroups_spark.sources.segments import NoPartitions, committed_offsets, find_partitions, parse_checkpoint
from tests.chosen import some_of
from tests.logs.segment_logs import segment_logs
from tests.nights.changing_segments import Broker, Lake
from tests.records.build import batch
from tests.sources.fake_cluster import write_checkpoint

TOPIC = "__consumer_offsets"


def put(path, content=b""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def log_name(base_offset):
    return f"{base_offset:020}.log"


def segment(*offsets, leader_epoch=3):
    return b"".join(batch(offset, [(b"k", b"v")], leader_epoch=leader_epoch) for offset in offsets)


def base_offsets(copy):
    return [file.base_offset for file in copy.segments]


def test_the_partitions_of_a_log_directory(tmp_path):
    put(tmp_path / "meta.properties", "#comment\nversion=1\ncluster.id=kVbQz1\nbroker.id=0\n")
    put(tmp_path / f"{TOPIC}-12" / log_name(0), segment(0, 1))
    put(tmp_path / f"{TOPIC}-12" / log_name(2), segment(2))
    put(tmp_path / f"{TOPIC}-12" / "partition.metadata", "version: 0\ntopic_id: ASNFZ4mrze8RIjNEVWZ3iA")
    put(tmp_path / f"{TOPIC}-3" / log_name(7), b"")
    for other in (f"{TOPIC}-3.0123abcd-delete", f"{TOPIC}-3-future", f"{TOPIC}-4.0a-stray", "orders-0", f"{TOPIC}-x"):
        put(tmp_path / other / log_name(0), segment(0))
    three, twelve = find_partitions([str(tmp_path)])
    assert (three.partition, base_offsets(three), three.size, three.topic_id) == (3, [7], 0, None)
    assert (twelve.partition, base_offsets(twelve), twelve.cluster_id) == (12, [0, 2], "kVbQz1")
    assert twelve.topic_id == "ASNFZ4mrze8RIjNEVWZ3iA"
    assert twelve.segments[1].path == str(tmp_path / f"{TOPIC}-12" / log_name(2))
    assert twelve.segments[1].size == len(segment(2))


def test_a_cluster_id_is_read_as_java_writes_it(tmp_path):
    put(tmp_path / "meta.properties", "#\n#Wed Nov 25 23:26:51 UTC 2026\ncluster.id=ciWo7IWazngRchmPES6q5A\\=\\=\n")
    put(tmp_path / f"{TOPIC}-0" / log_name(0), segment(0))
    (copy,) = find_partitions([str(tmp_path)])
    assert copy.cluster_id == "ciWo7IWazngRchmPES6q5A=="


def test_a_number_with_leading_zeros_is_no_partition(tmp_path):
    put(tmp_path / f"{TOPIC}-002" / log_name(0), segment(0))
    for folder in (tmp_path, tmp_path / f"{TOPIC}-002"):
        with pytest.raises(NoPartitions):
            find_partitions([str(folder)])


def test_a_uri_gives_uris(tmp_path):
    put(tmp_path / f"{TOPIC}-0" / log_name(0), segment(0, 1, 2, 3, 4))
    (copy,) = find_partitions([tmp_path.as_uri()])
    assert copy.segments[0].path == f"{tmp_path.as_uri()}/{TOPIC}-0/{log_name(0)}"
    assert SegmentLog(copy).last_batch.last_offset.tolist() == [4]


SOUND = {log_name(base): segment(base, base + 1) for base in (0, 10, 20, 30)}
OTHERS = (f"{9:020}.log.deleted", f"{9:020}.log.cleaned", f"{0:020}.index", "9.log", f"{0:020}.timeindex")
SPLIT = {log_name(0): segment(0), log_name(10): segment(10, 11, 12, 13), f"{log_name(12)}.swap": segment(12, 13)}


@pytest.mark.parametrize(
    ("files", "read"),
    [
        ({log_name(0): segment(0)} | dict.fromkeys(OTHERS, segment(9)), [log_name(0)]),
        # A swap file replaces the segments that it covers, an empty one only its own.
        (SOUND | {f"{log_name(10)}.swap": segment(11, 21)}, [log_name(0), f"{log_name(10)}.swap", log_name(30)]),
        (
            {log_name(0): segment(0), f"{log_name(0)}.swap": b"", log_name(5): segment(5)},
            [f"{log_name(0)}.swap", log_name(5)],
        ),
        # KAFKA-6264: a broker splits a segment into `.cleaned` files, which it renames to `.swap`, the last one first.
        (SPLIT | {f"{log_name(10)}.cleaned": segment(10, 11)}, [log_name(0), log_name(10)]),
        (
            SPLIT | {f"{log_name(10)}.swap": segment(10, 11)},
            [log_name(0), f"{log_name(10)}.swap", f"{log_name(12)}.swap"],
        ),
    ],
    ids=["no part of the log", "swap file", "empty swap file", "half of a split", "split"],
)
def test_the_files_of_a_log(tmp_path, files, read):
    for name, content in files.items():
        put(tmp_path / f"{TOPIC}-0" / name, content)
    (copy,) = find_partitions([str(tmp_path)])
    assert [Path(file.path).name for file in copy.segments] == read


@pytest.mark.parametrize(
    ("first", "start", "is_refused"),
    [
        (range(20), 15, True),  # 10.log is what an earlier copy had of it: 15 to 19 are in 0.log alone
        (range(0, 20, 19), 15, True),
        (range(20), 22, False),  # read on in the last segment, which no cleaner touches
        (range(10), 15, False),
        ([*range(9), 17], 15, False),  # one wrong offset: no segment begins at 18
    ],
)
def test_a_segment_that_the_broker_has_merged_into_the_one_before_it_is_not_read_on_from(
    tmp_path, first, start, is_refused
):
    """`rsync` without `--delete` keeps it, and replaces the others."""
    for base, offsets in ((0, first), (10, range(10, 15)), (20, range(20, 25))):
        put(tmp_path / f"{TOPIC}-0" / log_name(base), segment(*offsets))
    (copy,) = find_partitions([str(tmp_path)])
    if is_refused:
        with pytest.raises(NotReadable, match=r"10\.log is left over: .*/0+\.log goes on to offset 19, .*--delete"):
            SegmentLog(copy).new_pieces(start, ())
    else:
        assert SegmentLog(copy).new_pieces(start, ())


@pytest.mark.parametrize(
    ("first", "left_over", "bad"),
    [
        (range(0, 20, 3), range(10, 20), 0),  # 10.log has what 0.log has of it, and more
        ([2, 12], range(10, 20), 0),
        ([2, 12, 19], range(10, 15), None),  # as an earlier copy had it: 19 is in 0.log alone
        ([2, 5, 25], range(10, 20), 1),  # no segment begins at 26: a damaged offset
        (range(10), range(10, 20), 0),
    ],
)
def test_the_first_reading_of_a_segment_that_the_broker_has_merged_into_the_one_before_it(
    tmp_path, first, left_over, bad
):
    for base, offsets in ((0, first), (10, left_over), (20, range(20, 25))):
        put(tmp_path / f"{TOPIC}-0" / log_name(base), segment(*offsets))
    (copy,) = find_partitions([str(tmp_path)])
    reading = SegmentReading(Span(TOPIC, 0, SegmentLog(copy).new_pieces(0, ())))
    if bad is None:
        with pytest.raises(NotReadable, match=r"10\.log is left over: .*/0+\.log goes on to offset 19, .*--delete"):
            list(reading.items())
        return
    items = [item for _, item in reading.items()]
    read = [offset for item in items if isinstance(item, RecordColumns) for offset in item.offset.tolist()]
    assert read == [*(offset for offset in first if offset < 10), *left_over, *range(20, 25)]
    assert len([item for item in items if isinstance(item, CorruptBatch)]) == bad


@pytest.mark.parametrize(("cleaned", "is_used"), [(0, False), (10, True)])
@pytest.mark.parametrize("kind", ["timeindex", "index", "txnindex"])
def test_an_index_that_is_not_renamed_yet_leaves_the_swap_file_out(tmp_path, kind, cleaned, is_used):
    """On Windows the cleaner renames the log, and fails at an index that is still open: the broker's next start deletes
    the swap file (LogLoader.removeTempFilesAndCollectSwapFiles of 4.3.1 takes every `.cleaned` file)."""
    folder = tmp_path / f"{TOPIC}-0"
    put(folder / log_name(0), segment(0, 1, 2))
    put(folder / f"{log_name(0)}.swap", segment(2))
    put(folder / f"{cleaned:020}.{kind}.cleaned")
    (copy,) = find_partitions([str(tmp_path)])
    assert [Path(file.path).name for file in copy.segments] == [f"{log_name(0)}.swap" if is_used else log_name(0)]


def brokers(tmp_path, **logs):
    for broker, log in logs.items():
        put(tmp_path / broker / f"{TOPIC}-0" / log_name(0), log)
    return find_partitions([str(tmp_path / broker) for broker in logs])


def test_the_copy_with_the_highest_leader_epoch_is_read_even_if_another_is_longer(tmp_path):
    two = segment(0) + b"".join(batch(offset, [(b"other", b"v")], leader_epoch=4) for offset in (1, 2))
    copies = brokers(tmp_path, one=segment(0, 1, 2, 3), two=two, three=b"")
    choice = choose_copies(copies)
    assert [copy.folder for copy in choice.copies] == [str(tmp_path / "two" / f"{TOPIC}-0")]
    (note,) = choice.notes
    assert note.startswith(
        f"{TOPIC}-0 is read from {tmp_path}/two/{TOPIC}-0 (leader epoch 4, ends before offset 3); not"
    )
    assert f"{tmp_path}/one/{TOPIC}-0 (leader epoch 3, ends before offset 4)" in note


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_last_leader_epoch_counts_if_a_neighbour_or_the_checkpoint_has_it(tmp_path, checkpoint):
    two = segment(0) + batch(1, [(b"other", b"v")], leader_epoch=4)
    copies = brokers(tmp_path, one=segment(0, 1, 2, 3), two=two)
    if checkpoint:
        put(tmp_path / "two" / f"{TOPIC}-0" / "leader-epoch-checkpoint", "0\n2\n3 0\n4 1\n")
    read = "two" if checkpoint else "one"
    assert [copy.folder for copy in choose_copies(copies).copies] == [str(tmp_path / read / f"{TOPIC}-0")]


@pytest.mark.parametrize("bit", [*range(57, 64), *range(121, 128)])
def test_a_copy_that_lags_and_has_a_damaged_last_header_is_not_read(tmp_path, bit):
    """Its last batch, by offset and checksum, or the one before it, is in the other copy, which goes on."""
    stale, at = bytearray(segment(*range(20), leader_epoch=5)), len(segment(*range(19)))
    stale[at + bit // 8] ^= 0x80 >> bit % 8
    copies = brokers(tmp_path, stale=bytes(stale), good=segment(*range(40), leader_epoch=5))
    assert [copy.folder for copy in choose_copies(copies).copies] == [str(tmp_path / "good" / f"{TOPIC}-0")]


def test_equal_copies_are_one_sentence(tmp_path):
    for broker in ("one", "two", "three"):
        for number in range(4):
            put(tmp_path / broker / f"{TOPIC}-{number}" / log_name(0), segment(0, 1) if number % 2 else b"")
    put(tmp_path / "two" / f"{TOPIC}-3" / log_name(0), segment(0))
    copies = find_partitions([str(tmp_path / broker) for broker in ("one", "two", "three")])
    different, *equal = choose_copies(copies).notes
    assert different.startswith(f"{TOPIC}-3 is read from {tmp_path}/one/") and "/three/" not in different
    assert equal == [
        f"{TOPIC}: partitions 0-2 in {tmp_path}/one and in {tmp_path}/two end with the same batch: read from "
        f"{tmp_path}/one",
        f"{TOPIC}: partitions 0-3 in {tmp_path}/one and in {tmp_path}/three end with the same batch: read from "
        f"{tmp_path}/one",
    ]


@pytest.mark.parametrize("broken", [None, "a folder"])
def test_a_copy_that_cannot_be_read_is_left_out_and_named(tmp_path, broken):
    copies = brokers(tmp_path, one=segment(0, 1), two=segment(0))
    path = tmp_path / "one" / f"{TOPIC}-0" / log_name(0)
    path.unlink()
    if broken:
        path.mkdir()
    choice = choose_copies(find_partitions([str(tmp_path / "one"), str(tmp_path / "two")]))
    assert [copy.folder for copy in choice.copies] == [copies[1].folder]
    assert ("is not a file" if broken else "no segment file (*.log)") in choice.notes[0]


def test_a_file_in_place_of_a_folder(tmp_path):
    put(tmp_path / "file", b"1")
    with pytest.raises(FolderNotFound, match="file is a file, not a folder"):
        find_partitions([str(tmp_path / "file")])


def test_an_empty_name_is_not_the_current_folder(tmp_path, monkeypatch):
    put(tmp_path / f"{TOPIC}-0" / log_name(0), segment(0))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FolderNotFound, match="an empty name is no folder"):
        find_partitions([""])


def test_a_compressed_segment_is_refused_and_not_left_out(tmp_path):
    folder = tmp_path / f"{TOPIC}-0"
    put(folder / log_name(0), segment(0))
    put(folder / f"{log_name(5)}.gz", b"\x1f\x8b")
    (copy,) = find_partitions([str(tmp_path)])
    assert f"{log_name(5)}.gz is a compressed segment, and there is no {log_name(5)}" in (copy.unreadable or "")
    put(folder / log_name(5), segment(5))
    (copy,) = find_partitions([str(tmp_path)])
    assert base_offsets(copy) == [0, 5]


def test_a_link_to_a_segment_or_a_partition_is_followed_and_other_links_are_ignored(tmp_path):
    put(tmp_path / "elsewhere" / "1", segment(0))
    put(tmp_path / "logs" / f"{TOPIC}-0" / "keep")
    (tmp_path / "logs" / f"{TOPIC}-0" / log_name(0)).symlink_to(tmp_path / "elsewhere" / "1")
    (tmp_path / "logs" / f"{TOPIC}-1").symlink_to(tmp_path / "logs" / f"{TOPIC}-0")
    (tmp_path / "logs" / "orders-0").symlink_to(tmp_path / "gone")
    copies = find_partitions([str(tmp_path / "logs")])
    assert [(copy.partition, base_offsets(copy)) for copy in copies] == [(0, [0]), (1, [0])]
    assert SegmentLog(copies[0]).last_batch.last_offset.tolist() == [0]


def test_a_partition_whose_target_is_gone_is_refused_and_not_left_out(tmp_path):
    put(tmp_path / f"{TOPIC}-0" / log_name(0), segment(0))
    (tmp_path / f"{TOPIC}-1").symlink_to(tmp_path / "gone")
    sound, gone = find_partitions([str(tmp_path)])
    assert sound.unreadable is None and f"{TOPIC}-1 does not exist" in (gone.unreadable or "")


def test_a_folder_without_partitions_says_what_it_has(tmp_path):
    with pytest.raises(NoPartitions, match=r"no folder named __consumer_offsets-<partition>; it is empty"):
        find_partitions([str(tmp_path)])
    for name in "abcdefg":
        put(tmp_path / name, b"")
    with pytest.raises(NoPartitions, match="it has a, b, c, d, e and 2 more"):
        find_partitions([str(tmp_path)])


def test_folders_of_two_clusters_are_refused(tmp_path):
    for broker in ("one", "two"):
        put(tmp_path / broker / "meta.properties", f"cluster.id=cluster-{broker}\n")
        put(tmp_path / broker / f"{TOPIC}-0" / log_name(0), segment(0))
    with pytest.raises(UsageError, match=r"cluster id cluster-one in .*one.*, cluster-two in .*two"):
        find_partitions([str(tmp_path / "one"), str(tmp_path / "two")])


def test_folders_of_a_topic_that_was_created_again_are_refused(tmp_path):
    for broker, topic_id in (("one", "AAAAAAAAAAAAAAAAAAAAAQ"), ("two", "AAAAAAAAAAAAAAAAAAAAAg")):
        put(tmp_path / broker / f"{TOPIC}-0" / "partition.metadata", f"version: 0\ntopic_id: {topic_id}\n")
        put(tmp_path / broker / f"{TOPIC}-0" / log_name(0), segment(0))
    with pytest.raises(UsageError, match="topic id AAAAAAAAAAAAAAAAAAAAAQ in"):
        find_partitions([str(tmp_path / "one"), str(tmp_path / "two")])


# Nothing is read at or above the high watermark that a log directory has for a partition.
@pytest.mark.parametrize("text", ["", "\n"])
def test_an_empty_checkpoint_counts_as_none(text, tmp_path):
    (tmp_path / "replication-offset-checkpoint").write_text(text)
    assert parse_checkpoint(text, "") is None
    assert committed_offsets(str(tmp_path)) is None
    write_checkpoint(tmp_path, 21)
    (tmp_path / "cleaner-offset-checkpoint").write_text(text)
    assert committed_offsets(str(tmp_path)) == {(TOPIC, 0): 21}


def test_offsets_that_the_cleaner_has_cleaned_are_committed(tmp_path):
    write_checkpoint(tmp_path, 21, 30)
    write_checkpoint(tmp_path, 25, 7, 9, name="cleaner-offset-checkpoint")
    assert committed_offsets(str(tmp_path)) == {(TOPIC, 0): 25, (TOPIC, 1): 30}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1\n0\n", "line 1 is '1', version 0 is known"),
        ("0\n", "it ends early"),
        ("0\nmany\n", "line 2 is 'many', not a number of entries"),
        ("0\n2\na 0 5\n", "it has 1 entries, of 1 partitions, and says 2"),
        ("0\n2\na 0 5\na 0 5\n", "it has 2 entries, of 1 partitions, and says 2"),
        ("0\n1\na 0 -5\n", "line 3 is 'a 0 -5', not a topic, a partition and an offset"),
    ],
)
def test_a_damaged_checkpoint_is_refused(text, why):
    with pytest.raises(UsageError, match=f"/log/checkpoint is damaged: {why}.*copy it again"):
        parse_checkpoint(text, "/log/checkpoint")


@pytest.mark.parametrize("committed", some_of(5, *range(4, 22)))
def test_nothing_is_read_above_the_high_watermark(committed, tmp_path):
    lake = Lake(Broker(tmp_path))
    write_checkpoint(tmp_path, committed)
    for uncommitted in (21 - committed, 21 - committed):
        lake.audit()
        assert (sorted(lake.offsets), lake.next_offset, lake.uncommitted) == (
            [*range(committed)],
            committed,
            uncommitted,
        )
    write_checkpoint(tmp_path, 21)
    lake.audit()
    assert (sorted(lake.offsets), lake.next_offset, lake.uncommitted) == ([*range(21)], 21, 0)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_the_high_watermark_counts_if_a_partitions_folder_is_given_with_a_slash_at_its_end(tmp_path, scheme):
    broker = Broker(tmp_path)
    write_checkpoint(tmp_path, 8)
    (partition,) = plan_audit(segment_logs([f"{scheme}{broker.log}/"]), None).partitions
    assert partition.new.end_offset == 8


def test_reading_goes_beyond_the_planned_end_while_files_change(tmp_path):
    """The cleaner may have removed a record because of a newer one above the high watermark at planning."""
    broker = Broker(tmp_path)
    write_checkpoint(tmp_path, 21)
    plan = plan_audit(segment_logs([str(tmp_path)]), None)
    for _ in broker.merges():
        pass
    write_checkpoint(tmp_path, broker.written)
    lake = Lake(broker)
    lake.offsets = []
    for log_range in plan.new_ranges:
        lake.read(log_range)
    assert {offset % 5: offset for offset in lake.offsets} == {number % 5: number for number in range(30)}
