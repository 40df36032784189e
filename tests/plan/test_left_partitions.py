"""A partition that is refused or cannot be read is left to the next audit; all others, of all three logs, go on."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import pytest

from kgroups_spark.audit.same_log import AnotherLog
from kgroups_spark.errors import KgroupsError
from kgroups_spark.lake.replaced import ReplacedRange
from kgroups_spark.sources import segment_log
from tests.chosen import one_of, some_of
from tests.logs.planned_batches import OTHER_TOPIC_ID, TOPIC_ID, commits
from tests.nights.nights_here import Audited, How, audit
from tests.records.build import batch
from tests.share_coordinator import histories as shares
from tests.transaction_coordinator import histories as transactions

HOW = How("4.4", offsets_partitions=3, as_of=2 * 10**12)
ACCEPT = replace(HOW, accept_log_change=True)
TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
GROUPS, TRANSACTIONS, SHARES = TOPICS


def path(topic, partition):
    return f"{topic}-{partition}/{0:020d}.log"


def log_of(topic, count, made="a"):
    """A log of `count` batches."""
    if topic == GROUPS:
        return b"".join(batch(n, commits(1, 100 * ord(made[0]) + n)) for n in range(count))
    if topic == TRANSACTIONS:
        value = transactions.value_bytes(transactions.value(1, [("orders", [0])]), 1)
        pairs = [(transactions.key_bytes(f"{made}{n}"), value) for n in range(count)]
    else:
        records = [shares.Record(0, f"{made}{n}", TOPIC_ID, 0, shares.snapshot(start=n)) for n in range(count)]
        pairs = [(shares.key_bytes(each), shares.value_bytes(each)) for each in records]
    return b"".join(batch(n, [pair]) for n, pair in enumerate(pairs))


def all_logs(count):
    """Two partitions of each log, and an empty one."""
    files = {path(topic, number): log_of(topic, count, "-ac"[number]) for topic in TOPICS for number in (1, 2)}
    files[path(GROUPS, 0)] = b""
    files[f"{GROUPS}-1/partition.metadata"] = f"topic_id: {TOPIC_ID}\n".encode()
    return files


@cache
def audited_log(count):
    """A lake of one night, to be read or copied."""
    return audit(all_logs(count), HOW)


def progress(audited, topic, partition):
    entries = audited.newest.partitions if topic == GROUPS else audited.newest.state_partitions
    name = None if topic == GROUPS else topic
    (entry,) = [each for each in entries or () if (each.topic, each.offsets_partition) == (name, partition)]
    return entry


def is_shut(files, topic):
    del files[path(topic, 1)]
    files[f"{topic}-1/leader-epoch-checkpoint"] = b"0\n0\n"
    files["x/y"] = b""


def loses_its_tail(files, topic):
    files[path(topic, 1)] = log_of(topic, 2)


def is_another(files, topic):
    files[path(topic, 1)] = log_of(topic, 9, "b")


def is_compressed(files, topic):
    files[path(topic, 1) + ".gz"] = files.pop(path(topic, 1))


REASONS = {
    "no segment file": is_shut,
    "ends at offset 2, the lake has read it up to 5": loses_its_tail,
    "has checksum": is_another,
    "is a compressed segment": is_compressed,
}


@pytest.mark.parametrize("case", some_of(5, *itertools.product(TOPICS, REASONS)), ids=" ".join)
def test_one_partition_is_left_and_the_others_go_on(case):
    topic, reason = case
    audited, files = Audited(audited_log(5)), all_logs(8)
    REASONS[reason](files, topic)
    before = progress(audited, topic, 1)
    for _ in range(2):
        night = audited.night(files, HOW)
        (note,) = [note for note in night.audit.notes or () if "left to the next audit" in note]
        assert "partition 1 is left to the next audit: " in note and reason in note
        assert note.startswith("partition" if topic == GROUPS else topic)
        assert night.lacks_records
        entry = progress(audited, topic, 1)
        assert (entry.end_offset, entry.last_batch_crc, entry.records) == (5, before.last_batch_crc, 0)
        for other in TOPICS:
            assert progress(audited, other, 2).end_offset == 8
            assert other == topic or progress(audited, other, 1).end_offset == 8
    assert rows_of_partition_1(audited, topic) == rows_of_partition_1(audited_log(5), topic)
    assert not audited.night(all_logs(8), HOW).lacks_records
    assert progress(audited, topic, 1).end_offset == 8
    assert now(audited) == now(audited_log(8))


@pytest.mark.parametrize("while_it_is", ["planned", "read"])
@pytest.mark.parametrize("topic", one_of(GROUPS, TRANSACTIONS))
def test_a_file_that_cannot_be_read_leaves_its_partition(topic, while_it_is, monkeypatch):
    audited = Audited(audited_log(5))
    with monkeypatch.context() as broken:
        fail_on(broken, while_it_is, f"{topic}-1/")
        night = audited.night(all_logs(8), HOW)
    (note,) = [note for note in night.audit.notes or () if "left to the next audit" in note]
    assert "cannot be read: [Errno 5] noise" in note and night.lacks_records
    assert (progress(audited, topic, 1).end_offset, progress(audited, topic, 2).end_offset) == (5, 8)
    audited.night(all_logs(8), HOW)
    assert now(audited) == now(audited_log(8))


def fail_on(broken, while_it_is, folder):
    if while_it_is == "planned":
        real_scan = segment_log.scan_segment

        def scan(segment, *first):
            if folder in segment.path:
                raise segment_log.NotReadable(f"{segment.path} cannot be read: [Errno 5] noise")
            return real_scan(segment, *first)

        broken.setattr(segment_log, "scan_segment", scan)
        return
    real_read = segment_log.read_segment

    def read(file, **more):
        if folder in file._segment.path:
            raise OSError(5, "noise")
        return real_read(file, **more)

    broken.setattr(segment_log, "read_segment", read)


def test_the_audit_fails_if_no_partition_of_any_log_can_be_read(tmp_path):
    audited = Audited(audited_log(5))
    files = {name.replace(".log", ".txt"): data for name, data in all_logs(8).items()}
    with pytest.raises(KgroupsError, match=r"no partition can be read now: partitions 0-2 are left .*: no seg"):
        audited.night(files, HOW)
    groups = {path(GROUPS, number): log_of(GROUPS, 5, "-ac"[number]) for number in (1, 2)}
    audited = audit(groups, HOW)
    with pytest.raises(AnotherLog, match="ends at offset 2, the lake has read it up to 5"):
        audited.night({path(GROUPS, 1): log_of(GROUPS, 2), path(GROUPS, 2): log_of(GROUPS, 2, "c")}, HOW)
    # Another log goes on.
    audited = Audited(audited_log(5))
    files = all_logs(8)
    del files[path(GROUPS, 0)]
    for number in (1, 2):
        files[path(GROUPS, number)] = log_of(GROUPS, 2, "-ac"[number])
    assert audited.night(files, HOW).shortfall.left == (0, 1, 2)  # the folder of partition 0 is still there
    assert progress(audited, TRANSACTIONS, 1).end_offset == 8


@pytest.mark.parametrize("change", [loses_its_tail, is_another])
@pytest.mark.parametrize("topic", one_of(*TOPICS))
def test_an_accepted_change_replaces_what_was_read_of_the_partition(topic, change):
    audited, files = Audited(audited_log(5)), all_logs(8)
    change(files, topic)
    refused = audited.night(files, HOW)
    (note,) = [note for note in refused.audit.notes or () if "left to the next audit" in note]
    assert "--accept-log-change replaces what the lake has of it" in note
    done = audited.night(files, ACCEPT)
    name = None if topic == GROUPS else topic
    first = 2 if topic == GROUPS and change is loses_its_tail else 0
    assert done.audit.replaced_ranges == (ReplacedRange(1, first, 5, done.audit.audit_id, name),)
    assert not done.lacks_records
    fresh = audit(files, HOW)
    for lake in (audited, audited.rebuilt(HOW)):
        assert now(lake) == now(fresh)
        assert read(lake) == read(fresh)
    files[path(topic, 2)] = log_of(topic, 11, "c")
    audited.night(files, HOW)
    fresh = audit(files, HOW)
    assert (now(audited), read(audited)) == (now(fresh), read(fresh))


STATE_RECORDS = ("share_group_state_records", "transaction_state_records", "state_events")


def read(audited):
    """The rows of history that count."""
    left_out = {"audit_id", "state_since", "outcome", "marker_offset"}
    return {
        name: sorted(repr({k: v for k, v in row.items() if k not in left_out}) for row in audited.rows(name))
        for name in ("offset_commits", *STATE_RECORDS)
    }


def now(audited):
    names = ("committed_offsets", "groups", "transactional_ids", "share_partitions", "share_batches")
    return {name: [{k: v for k, v in row.items() if k != "audit_id"} for row in audited.rows(name)] for name in names}


def rows_of_partition_1(audited, topic):
    table = {GROUPS: "committed_offsets", TRANSACTIONS: "transactional_ids", SHARES: "share_partitions"}[topic]
    of = "offsets_partition" if topic == GROUPS else "state_partition"
    return [{k: v for k, v in row.items() if k != "audit_id"} for row in audited.rows(table) if row[of] == 1]


def test_no_note_tells_of_a_partition_of_which_nothing_is_replaced():
    files = all_logs(5)
    for number in (0, 1, 2):
        files[f"{GROUPS}-{number}/partition.metadata"] = f"topic_id: {TOPIC_ID}\n".encode()
    audited = audit(files, HOW)
    for number in (0, 1, 2):
        files[f"{GROUPS}-{number}/partition.metadata"] = f"topic_id: {OTHER_TOPIC_ID}\n".encode()
    notes = audited.night(files, ACCEPT).audit.notes or ()
    assert [note[:26] for note in notes if "read again" in note] == [
        "partition 1 is read again ",
        "partition 2 is read again ",
    ]
