"""The share coordinator's replay against Kafka's own classes, every cut, and recordings of brokers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kgroups_spark.audit.state_log_plan import complete_shares
from kgroups_spark.coordinator import share_shard
from kgroups_spark.coordinator.releases import ReplayFailure, release
from kgroups_spark.coordinator.share_shard import (
    EVENTS,
    ShareCoordinatorShard,
    ShareEvent,
    StateBatch,
    as_written,
    combine,
    listed_share_partitions,
    listed_topics,
    share_rules,
)
from kgroups_spark.lake.lake import Lake
from kgroups_spark.lake.writer import LakeWriter
from kgroups_spark.messages.coordinator_records import (
    REASONS,
    SHARE_LOG,
    CoordinatorRecord,
    CoordinatorRecordDecoder,
    GroupRecordDecoder,
)
from tests.chosen import some_of
from tests.lake.table_rows import rows_of
from tests.recorded_state_logs import answers, decoded, records
from tests.share_coordinator.histories import KEYS, Record, batch, history, key_bytes, snapshot, update, value_bytes
from tests.slow_messages import offsets_partition
from tests.views.lag_cases import share_lag

# The state of the share partition in ShareCoordinatorShard of 4.3.1 and 4.4.0 after each record (4.4.0 if it differs).
KAFKA = json.loads((Path(__file__).parent / "data" / "kafka-share-state.json").read_text())
VERSIONS = {"4.3": 3, "4.4": 4}


def shard_of(version, **arguments):
    return ShareCoordinatorShard(share_rules(release(version)), 0, **arguments)


def replay(shard, offset, record, *, early=False):
    """One record by way of its bytes; whether a coordinator's load goes on."""
    found = CoordinatorRecordDecoder(SHARE_LOG).decode(key_bytes(record), value_bytes(record, early=early))
    return replay_decoded(shard, offset, found)


def replay_decoded(shard, offset, found, log_timestamp=None):
    key = (found.key["groupId"], found.key["topicId"], found.key["partition"])
    try:
        shard.replay(offset, log_timestamp, found.record_type, *key, found.value, found.layout)
    except ReplayFailure:
        return False
    return True


def text_of(state):
    """A state as the data file has it."""
    if state is None:
        return "-"
    numbers = [state.snapshot_epoch, state.state_epoch, state.leader_epoch, state.start_offset]
    numbers += [state.delivery_complete_count, state.create_timestamp, state.write_timestamp]
    batches = (
        f"{b.first_offset}-{b.last_offset}-{b.delivery_state}-{b.delivery_count};" for b in state.batches.batches
    )
    return ",".join(map(str, numbers)) + "," + "".join(batches)


@pytest.mark.parametrize("version", VERSIONS)
def test_after_every_record_the_state_is_that_of_kafkas_own_class(version):
    decoder = CoordinatorRecordDecoder(SHARE_LOG)
    for number, rows in enumerate(KAFKA):
        shard = shard_of(version)
        for offset, row in enumerate(rows):
            record_type, key, value = row[:3]
            found = decoder.decode(
                key_bytes(Record(record_type, *KEYS[key], None)), None if value is None else bytes.fromhex(value)
            )
            went_on = replay_decoded(shard, offset, found)
            expected = row[min(VERSIONS[version], len(row) - 1)]
            held = text_of(shard.share_partitions.get(KEYS[key]))
            assert f"{'ok' if went_on else 'fail'} {held}" == expected, (number, offset)


@pytest.mark.parametrize("version", ["4.0", "4.1", "4.2", "4.3", "4.4"])
@pytest.mark.parametrize("seed", some_of(3, *range(10)))
def test_a_history_cut_anywhere_gives_the_whole(seed, version):
    log = history(seed, tidy=seed % 2 == 0)
    whole = shard_of(version, reporting=True)
    for offset, record in enumerate(log):
        replay(whole, offset, record, early=version == "4.0")
    cut = shard_of(version, reporting=True)
    events = []
    for offset, record in enumerate(log):
        cut = ShareCoordinatorShard.load(cut.rules, 0, list(cut.save()), reporting=True)
        replay(cut, offset, record, early=version == "4.0")
        events += cut.take_events()
    assert list(cut.share_partition_rows()) == list(whole.share_partition_rows())
    assert list(cut.share_batch_rows()) == list(whole.share_batch_rows())
    assert cut.share_partitions == whole.share_partitions
    assert events == whole.take_events() and {one.event for one in events} <= set(EVENTS)


def of(key, record_type, value):
    return Record(record_type, *KEYS[key], value)


def test_an_update_keeps_fields_that_it_lacks_but_takes_the_count_even_if_unknown():
    shard = shard_of("4.4")
    replay(shard, 0, of(0, 0, snapshot([batch(7, 9)], 5, epoch=3, state_epoch=2, leader_epoch=4, complete=6)))
    replay(shard, 1, of(0, 1, update([batch(9, 9, 2)], epoch=9)))
    row = next(shard.share_partition_rows())
    assert (row.start_offset, row.state_epoch, row.leader_epoch, row.snapshot_epoch) == (5, 2, 4, 3)
    assert (row.delivery_complete_count, row.create_timestamp, row.log_offset) == (None, 1, 1)
    assert [tuple(row[4:10]) for row in shard.share_batch_rows(lambda group_id: 5)] == [
        (7, 8, "available", 1, 4, None),
        (9, 9, "acknowledged", 1, None, None),
    ]


def test_releases_differ_in_counts_tombstones_and_updates_without_a_snapshot():
    lone, gone = of(0, 1, update([batch(1, 2)], 0, complete=3)), of(0, 0, None)
    found = {}
    for version in ("4.0", "4.1", "4.2", "4.3", "4.4"):
        shard = shard_of(version)
        assert replay(shard, 0, lone, early=version == "4.0")
        row = next(shard.share_partition_rows())
        found[version] = (row.state_epoch, row.delivery_complete_count, replay(shard, 1, gone))
    assert found == {
        "4.0": (None, None, False),
        "4.1": (0, None, True),
        "4.2": (0, 3, True),
        "4.3": (0, 3, True),
        "4.4": (0, 3, True),
    }


def test_a_value_in_the_layout_of_another_release_fails_the_load_and_changes_nothing():
    record = of(0, 0, snapshot([batch(1, 2)], 5))
    new, old = shard_of("4.4"), shard_of("4.0")
    assert not replay(new, 0, record, early=True) and not new.share_partitions
    assert not replay(old, 0, record) and not old.share_partitions
    assert replay(old, 0, record, early=True) and replay(new, 0, record)


def test_an_unknown_type_is_all_that_a_load_skips():
    reasons = {reason: share_rules(release("4.4")).fails_at(reason) for reason in REASONS}
    assert [reason for reason, fails in reasons.items() if not fails] == ["unknown_record_type"]


def test_a_release_before_4_0_has_no_share_coordinator():
    assert share_rules(release("3.9")) is None and share_rules(release("3.9-java")) is None
    assert share_rules(release("4.0.0")) == share_rules(release("4.0"))


def test_events_say_when_a_share_partition_was_initialized_reset_and_deleted():
    shard = shard_of("4.4", reporting=True)
    first = snapshot(start=-1, state_epoch=1)
    reset = snapshot(start=7, epoch=1, state_epoch=2)
    log = [(0, first), (1, update(start=3)), (0, snapshot(start=3, epoch=1, state_epoch=1)), (0, reset), (0, None)]
    for offset, (record_type, value) in enumerate(log):
        replay(shard, offset, of(0, record_type, value))
    replay(shard, 5, of(1, 0, reset))  # its first snapshot is not in the log: it is unknown when it began
    replay(shard, 6, of(2, 0, None))
    key = KEYS[0]
    assert shard.take_events() == [
        ShareEvent(0, None, *key, "share_partition_initialized", None, None, None, 1),
        ShareEvent(3, None, *key, "share_offset_reset", 3, 7, 1, 2),
        ShareEvent(4, None, *key, "share_offsets_deleted", 7, None, 2, None),
        ShareEvent(6, None, *KEYS[2], "share_offsets_deleted", None, None, None, None),
    ]
    assert shard.take_events() == []


@pytest.mark.parametrize(
    ("before", "after", "is_reset"),
    [
        ([(0, snapshot(start=11))], (0, snapshot(start=4, epoch=1, complete=0)), True),
        ([(0, snapshot(start=4))], (0, snapshot(start=11, epoch=1, complete=0)), True),
        ([(0, snapshot([batch(5, 6)], 4))], (0, snapshot(start=4, epoch=1, complete=0)), True),
        ([(0, snapshot(start=4, complete=0))], (0, snapshot(start=4, epoch=1, complete=0)), False),
        # Snapshots that the coordinator writes on its own: after many updates, and when a share partition is idle.
        ([(0, snapshot(start=4)), (1, update(start=9))], (0, snapshot(start=11, epoch=1, complete=0)), False),
        ([(0, snapshot(start=4))], (0, snapshot(start=11, epoch=1, leader_epoch=2, complete=0)), False),
        ([(0, snapshot(start=4))], (0, snapshot([batch(12, 13)], 11, epoch=1, complete=2)), False),
        ([(0, snapshot([batch(5, 6)], 4))], (0, snapshot([batch(5, 6)], 4, epoch=1, complete=0, times=(1, 9))), False),
    ],
)
def test_a_second_reset_keeps_the_state_epoch_and_is_recognised_by_its_form(before, after, is_reset):
    shard = shard_of("4.4", reporting=True)
    for offset, (record_type, value) in enumerate([*before, after]):
        replay(shard, offset, of(0, record_type, value))
    assert ("share_offset_reset" in {one.event for one in shard.take_events()}) == is_reset


def test_an_archived_batch_says_whether_its_attempts_were_used_up():
    shard = shard_of("4.4")
    replay(shard, 0, of(0, 0, snapshot([batch(0, 1, 4, 5), batch(2, 3, 4, 1), batch(4, 5, 0, 4), batch(6, 6, 3, 1)])))
    rows = [row[6:10] for row in shard.share_batch_rows(lambda group_id: 5)]
    assert rows == [
        ("archived", 5, None, "attempts_used_up"),
        ("archived", 1, None, "rejected_or_gap"),
        ("available", 4, 1, None),
        ("archiving", 1, None, "rejected_or_gap"),
    ]
    assert [row[6:10] for row in shard.share_batch_rows(lambda group_id: 3)][2] == ("available", 4, 0, None)
    assert {row[8:10] for row in shard.share_batch_rows()} == {(None, None)}  # the limit is unknown


def listed(recording):
    """The topics, with their names, that the newest records of type 15 list."""
    decoder, newest = GroupRecordDecoder(), {}
    for *_, key, value in records(recording, "__consumer_offsets"):
        if key is not None and key[:2] == b"\0\x0f":
            found = decoder.decode(key, value)
            assert isinstance(found, CoordinatorRecord)
            newest[found.group_id] = found.value
    return [topic for group_id, value in newest.items() for topic in listed_topics(group_id, value)]


@pytest.mark.parametrize("recording", ["share-4.3", "share-4.4"])
def test_the_brokers_admin_api_lists_the_same_offsets_epochs_and_lags(recording):
    reported = answers()[recording]
    rows, shards = [], {}
    for partition, offset, log_timestamp, record in decoded(recording, SHARE_LOG):
        shard = shards.setdefault(partition, shard_of(reported["release"], reporting=True))
        assert offsets_partition("{groupId}:{topicId}:{partition}".format(**record.key), 2) == partition
        assert replay_decoded(shard, offset, record, log_timestamp)
    rows = [row for shard in shards.values() for row in shard.share_partition_rows()]
    mine, ends = {}, reported["topic_end_offsets"]
    for row in listed_share_partitions(rows, listed(recording), {}):
        assert row.init_state == "initialized" and row.state_partition is not None
        lag = share_lag(row.start_offset, row.delivery_complete_count, ends[row.topic][str(row.partition)])
        numbers = (row.start_offset, None if row.start_offset is None else row.leader_epoch, lag)
        mine[row.group_id, row.topic, row.partition] = numbers
    expected = {
        (group_id, one["topic"], one["partition"]): (one.get("start_offset"), one.get("leader_epoch"), one.get("lag"))
        for group_id, offsets in reported["share_offsets"].items()
        for one in offsets
    }
    assert mine == expected and len(mine) == 10


@pytest.mark.parametrize("recording", ["share-4.3", "share-4.4"])
def test_resets_and_deletions_by_admin_are_events(recording):
    names = {topic_id: name for name, topic_id in answers()[recording]["topic_ids"].items()}
    shards = {}
    for partition, offset, log_timestamp, record in decoded(recording, SHARE_LOG):
        shard = shards.setdefault(partition, shard_of("4.4", reporting=True))
        replay_decoded(shard, offset, record, log_timestamp)
    events = [one for shard in shards.values() for one in shard.take_events()]
    resets = {
        (one.group_id, names[one.topic_id].split(".")[0], one.partition): one for one in events if "reset" in one.event
    }
    # capture.json: "jobs-0=11 then 4", "then jobs-1 reset to 2"
    assert sorted(one.offset_after for one in resets.values()) == [2, 4]
    assert {names[one.topic_id].split(".")[0] for one in events if one.event == "share_offsets_deleted"}


# Batches of delivery states: combined by intervals, with Kafka's own answers where its releases differ.
V43, V44 = share_rules(release("4.3")), share_rules(release("4.4"))
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4
BOTH = pytest.mark.parametrize("rules", [V43, V44], ids=["4.3", "4.4"])
LONG_MAX = (1 << 63) - 1


def b(first, last, state=AVAILABLE, count=1):
    return StateBatch(first, last, count, state)


def combined(there, update, start_offset=-1, rules=V44):
    return list(combine(as_written(there), update, start_offset, rules).batches)


def test_equal_batches_that_touch_stay_apart_until_the_next_update_before_4_4():
    there, update = [b(0, 5, ACKNOWLEDGED), b(6, 10)], [b(6, 10, ACKNOWLEDGED)]
    # The answers of PersisterStateBatchCombiner of 4.3.1 and of 4.4.0.
    assert combined(there, update, rules=V43) == [b(0, 5, ACKNOWLEDGED), b(6, 10, ACKNOWLEDGED)]
    assert combined(there, update, rules=V44) == [b(0, 10, ACKNOWLEDGED)]
    apart = combine(as_written(there), update, -1, V43)
    assert list(combine(apart, [], -1, V43).batches) == [b(0, 10, ACKNOWLEDGED)]


@BOTH
def test_a_single_batch_is_not_checked(rules):
    assert combined([], [b(5, 3)], rules=rules) == [b(5, 3)]
    assert combined([b(0, LONG_MAX)], [], rules=rules) == [b(0, LONG_MAX)]


@BOTH
def test_a_batch_that_ends_before_it_begins_fails_the_load_and_never_loops(rules):
    for there, more in (([b(0, 10)], [b(5, 3, ACKNOWLEDGED)]), ([b(5, 3)], [b(0, 10)]), ([b(5, 3), b(0, 10)], [])):
        with pytest.raises(ReplayFailure, match="A state batch ends at 3, before it begins at 5"):
            combined(there, more, rules=rules)


def test_a_batch_up_to_the_greatest_offset_fails_only_in_4_4():
    there, update = [b(0, 9)], [b(10, LONG_MAX, ACKNOWLEDGED)]
    assert combined(there, update, rules=V43) == [*there, *update]
    for arguments in ((there, update), ([*there, *update], []), ([*there, *update], [b(3, 4)])):
        with pytest.raises(ReplayFailure, match="no offset after it"):
            combined(*arguments, rules=V44)


@BOTH
@pytest.mark.parametrize("width", [10, 10**12])
def test_the_size_of_batches_costs_nothing(rules, width):
    there = [b(i * width, i * width + width - 1, count=1 + i % 2) for i in range(20)]
    update = [b(width // 2, 15 * width, ACKNOWLEDGED, 2)]
    assert calls(lambda: combined(there, update, rules=rules)) == calls(
        lambda: combined([b(i * 10, i * 10 + 9, count=1 + i % 2) for i in range(20)], [b(5, 150, 2, 2)], rules=rules)
    )


@BOTH
def test_the_cost_of_an_update_depends_on_overlaps_not_on_the_number_of_batches(rules):
    costs = []
    for many in (1_000, 100_000):
        there = as_written([b(i * 10, i * 10 + 5, count=1 + i % 2) for i in range(many)])
        costs.append(calls(lambda there=there: combine(there, [b(5_004, 5_011, ACKNOWLEDGED, 3)], 3, rules)))
    assert costs[1] - costs[0] < 30, costs  # the depth of two searches


def calls(work):
    """How many functions of the module were entered."""
    count = 0

    def seen(frame, event, _):
        nonlocal count
        count += event == "call" and frame.f_code.co_filename == share_shard.__file__

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


# `share_partitions` of a lake: what is stored, completed by the newest listing of each group.
Row = dict[str, Any]


def listing(**topics):
    """A value of record type 15 with these topics initialized."""
    listed = [{"topicId": f"id of {name}", "topicName": name, "partitions": of} for name, of in topics.items()]
    return json.dumps({"initializingTopics": [], "initializedTopics": listed, "deletingTopics": []})


def completed(session, folder, records, stored, versions=None):
    """Group, topic, partition, init_state and state epoch of the rows written."""
    lake = Lake.create(session, str(folder))
    writer = LakeWriter(lake, 3, lambda: None)
    topics = {"topic_id": "id of gone", "topic": "gone"}
    of_lake = {"group_records": records, "group_versions": versions or [], "topics": [topics]}
    for name, rows in of_lake.items():
        parts = writer.lake.write(name, [rows_of(name, *rows)], writer.audit_id)
        lake.table(name).commit(parts, by="t", transaction=("t", 1))
    batches = [{**row, "first_offset": 1, "last_offset": 2} for row in stored]
    complete_shares(writer, [rows_of("share_partitions", *stored), rows_of("share_batches", *batches)])
    topics_of = {row["topic_id"]: row["topic"] for row in lake.rows("share_partitions").to_pylist()}
    named = {row["topic_id"]: row["topic"] for row in lake.rows("share_batches").to_pylist()}
    assert named == {row["topic_id"]: topics_of[row["topic_id"]] for row in stored}
    names = ("group_id", "topic", "partition", "init_state", "state_epoch")
    return [tuple(row[name] for name in names) for row in lake.rows("share_partitions").to_pylist()]


def test_the_newest_listing_of_each_group_completes_the_stored_rows(session, tmp_path):
    records = [
        {"log_offset": at, "group_id": group_id, "record_type": record_type, "value": value}
        for at, group_id, record_type, value in (
            (4, "g", 15, listing(orders=[0, 1])),
            (2, "g", 15, listing(clicks=[0])),
            (5, "h", 15, listing(orders=[7])),
            (6, "h", 15, None),
            (7, "g", 14, "{}"),
        )
    ]
    stored = [
        {"group_id": "g", "topic_id": topic_id, "partition": 0, "state_epoch": 9}
        for topic_id in ("id of orders", "id of gone")
    ]
    assert completed(session, tmp_path / "lake", records, stored) == [
        ("g", "gone", 0, None, 9),
        ("g", "orders", 0, "initialized", 9),
        ("g", "orders", 1, "initialized", None),
    ]


def test_the_listing_of_a_group_that_was_no_share_group_later_does_not_count(session, tmp_path):
    """The cleaner removed the listing's tombstone before an audit read it, and a correction (R6) the group, or made it
    one of another type."""
    records = [
        {"offsets_partition": partition, "log_offset": 4, "group_id": group_id, "record_type": 15, "value": value}
        for partition, group_id, value in (
            (0, "gone", listing(a=[0])),
            (1, "new", listing(b=[0])),
            (1, "classic", listing(c=[0])),
        )
    ]
    removed = [
        {"offsets_partition": partition, "group_id": group_id, "log_offset": at, "is_removed": True}
        for partition, group_id, at in ((0, "gone", 4), (1, "new", 3), (0, "new", 9))
    ]
    removed = [{"group_type": "share", **row} for row in removed]
    there = {"offsets_partition": 1, "is_removed": False}
    removed.append(there | {"group_id": "new", "log_offset": 9, "group_type": "share"})
    removed.append(there | {"group_id": "classic", "log_offset": 8, "group_type": "classic"})
    stored = [{"group_id": "gone", "topic_id": "id of a", "partition": 0, "state_epoch": 9}]
    assert completed(session, tmp_path / "lake", records, stored, removed) == [
        ("gone", None, 0, None, 9),
        ("new", "b", 0, "initialized", None),
    ]


def test_where_nothing_is_listed_or_stored_the_table_is_empty(session, tmp_path):
    assert completed(session, tmp_path / "lake", [], []) == []
