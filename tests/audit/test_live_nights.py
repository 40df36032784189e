"""Audits of fake brokers that have logs, from the claim to the ledger."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from kgroups_spark.audit import run
from kgroups_spark.audit.log_source import AuditSettings, LogSource, open_source
from kgroups_spark.audit.options import AuditOptions
from kgroups_spark.audit.result import Shortfall, StateLogsResult
from kgroups_spark.cli.demo import SEGMENTS
from kgroups_spark.errors import KgroupsError, UsageError
from kgroups_spark.lake.lake import Lake
from kgroups_spark.replay.range_decoder import MOST_ROUNDS
from kgroups_spark.replay.ranges import RangeProgress
from kgroups_spark.replay.state_logs import ClusterFact, Settings, StateShardRead
from tests.chosen import one_of
from tests.logs.planned_batches import commits
from tests.nights.live_nights import OFFSETS, LiveNights, Log, LogBrokers
from tests.nights.nights_here import in_memory
from tests.records.build import batch
from tests.share_coordinator import histories as shares
from tests.sources.fake_broker import CLOSE
from tests.sources.fake_cluster import base_of
from tests.transaction_coordinator import histories as transactions


def commit_batches(count, start=0):
    """Batches of three commits each."""
    return [batch(start + 3 * number, commits(3), leader_epoch=1) for number in range(count)]


def transaction_batch(offset, name):
    value = transactions.value_bytes(transactions.value(1, [("orders", [0])]), 1)
    return batch(offset, [(transactions.key_bytes(name), value)], leader_epoch=1)


def share_batch(offset, key, start, epoch=0):
    record = shares.Record(0, *shares.KEYS[key], shares.snapshot(start=start, epoch=epoch))
    return batch(offset, [(shares.key_bytes(record), shares.value_bytes(record))], leader_epoch=1)


@pytest.fixture
def live():
    with ExitStack() as stack:

        def start(nodes=1, **topics):
            return LiveNights(stack.enter_context(LogBrokers(topics, nodes)))

        yield start


def two_share_logs():
    return [Log([share_batch(0, 0, start=3)]), Log([share_batch(0, 1, start=3)])]


def two_logs(**of_second):
    return [Log(commit_batches(3)), Log(commit_batches(3), **of_second)]


@pytest.mark.parametrize("is_first", [True, False])
def test_share_state_that_brokers_delete_during_the_read_is_no_loss(live, is_first):
    """They delete what newer snapshots replace, every five minutes."""
    share = Log([share_batch(0, 0, start=3), share_batch(1, 1, start=3)])
    nights = live(**{OFFSETS: two_logs(), "__share_group_state": [share]})
    if not is_first:
        nights.night(["share-state"])
    share.batches += [share_batch(2, 0, start=5, epoch=1), share_batch(3, 1, start=6, epoch=1)]
    share.batches.append(share_batch(4, 0, start=9, epoch=2))
    tasks = []

    def delete(_, request):
        topic, log = nights.brokers.log_of(request)
        # The first fetches of this log are of planning.
        if log is share and request.topics[0].partitions[0].partition_max_bytes > 4096:
            tasks.append(topic)
            share.start, share.batches = 3, share.batches[-2:]

    nights.brokers.instead["Fetch"] = delete
    audit = nights.night(["share-state"])
    assert len(tasks) > 1
    assert [row["start_offset"] for row in nights.lake.rows("share_partitions")] == [9, 6]
    assert {row["log_offset"] for row in nights.lake.rows("share_group_state_records")} >= {3, 4}
    assert not audit.lacks_records
    assert nights.lake.rebuilt().rows("share_partitions") == nights.lake.rows("share_partitions")


CORRUPT_MESSAGE = 2


def cannot_read(brokers, wanted):
    """Fetches of a log whose leader cannot read it from its disk."""

    def answer(node, request):
        if brokers.log_of(request)[1] is not wanted:
            return None
        usual = brokers.Fetch(node, request)
        (partition,) = usual["responses"][0].partitions
        partition.error_code, partition.records = CORRUPT_MESSAGE, b""
        return usual

    return answer


def dies(brokers, wanted):
    """Fetches of a log whose leader has died."""
    return lambda _, request: CLOSE if brokers.log_of(request)[1] is wanted else None


def is_cut_back(brokers, wanted):
    """Fetches of a log whose leader has lost its end, and with it the batches that were planned."""

    def answer(_, request):
        if brokers.log_of(request)[1] is wanted and request.topics[0].partitions[0].partition_max_bytes > 4096:
            wanted.batches, wanted.epoch = wanted.batches[:2], 2

    return answer


@pytest.mark.parametrize("is_first", one_of(True, False))
@pytest.mark.parametrize(
    ("happens", "why"),
    [(cannot_read, "CORRUPT_MESSAGE"), (dies, "closed the connection"), (is_cut_back, "was truncated")],
)
def test_a_partition_that_cannot_be_read_costs_no_other_one(happens, why, is_first, live):
    first, second = two_logs(leader=2)
    nights = live(nodes=2, **{OFFSETS: [second, first]})
    ends = {} if is_first else {0: 9}
    if not is_first:
        nights.night()
        for log in (first, second):
            log.batches += commit_batches(2, start=9)
    nights.brokers.instead["Fetch"] = happens(nights.brokers, second)
    audit = nights.night()
    (note,) = (note for note in audit.audit.notes or () if "left to the next audit" in note)
    assert "partition 0" in note and why in note
    assert (audit.shortfall.left, audit.shortfall.missing, audit.lacks_records) == ((0,), (), True)
    assert nights.ends() == {**ends, 1: first.high_watermark}
    del nights.brokers.instead["Fetch"]
    assert not nights.night().lacks_records
    assert nights.ends() == {0: second.high_watermark, 1: first.high_watermark}
    for number, log in enumerate((second, first)):
        read = [row for row in nights.lake.rows("offset_commits") if row["offsets_partition"] == number]
        assert {row["log_offset"] for row in read} >= set(range(log.high_watermark))


@pytest.mark.parametrize("topic", [OFFSETS, "__transaction_state"])
def test_a_partition_whose_first_records_are_deleted_during_the_read_costs_no_other_one(topic, live):
    """By retention, if the topic is not only compacted, or by DeleteRecords."""
    deleted, other = Log(commit_batches(3)), Log(commit_batches(3))
    if topic != OFFSETS:
        deleted = Log([transaction_batch(0, "a"), transaction_batch(1, "b")])
    nights = live(**({OFFSETS: [deleted, other]} if topic == OFFSETS else {OFFSETS: [other], topic: [deleted]}))

    def delete(_, request):
        log = nights.brokers.log_of(request)[1]
        if log is deleted and request.topics[0].partitions[0].partition_max_bytes > 4096:
            log.start, log.batches = base_of(log.batches[-1]), log.batches[-1:]

    nights.brokers.instead["Fetch"] = delete
    audit = nights.night(["transaction-state"])
    (note,) = (note for note in audit.audit.notes or () if "partition 0 is left to the next audit" in note)
    assert "the records to read from offset 0 on have been deleted" in note
    assert audit.lacks_records
    assert nights.ends() == ({1: 9} if topic == OFFSETS else {0: 9})
    nights.night(["transaction-state"])
    read = [*(nights.lake.newest.partitions or ()), *nights.lake.newest.state_partitions]
    assert [each.end_offset for each in read] == ([9, 9] if topic == OFFSETS else [9, 2])


@pytest.mark.parametrize("is_first", [True, False])
def test_a_partition_of_another_log_that_cannot_be_read_is_a_shortfall(is_first, live):
    """Whether planning shows it, or the read."""
    log = Log([transaction_batch(0, "a")])
    nights = live(**{OFFSETS: two_logs(), "__transaction_state": [log]})
    if not is_first:
        nights.night(["transaction-state"])
    nights.brokers.instead["Fetch"] = cannot_read(nights.brokers, log)
    audit = nights.night(["transaction-state"])
    (note,) = (note for note in audit.audit.notes or () if "CORRUPT_MESSAGE" in note)
    assert note.startswith("__transaction_state: partition 0 is left to the next audit: ")
    assert (audit.shortfall, audit.lacks_records) == (Shortfall(others=("__transaction_state-0",)), True)
    del nights.brokers.instead["Fetch"]
    assert not nights.night(["transaction-state"]).lacks_records
    assert len(nights.lake.rows("transactional_ids")) == 1


def test_a_partition_of_another_log_without_a_leader_is_a_shortfall(live):
    nights = live(**{OFFSETS: two_logs(), "__transaction_state": [Log([transaction_batch(0, "a")]), Log(leader=-1)]})
    audit = nights.night(["transaction-state"])
    assert (audit.shortfall, audit.lacks_records) == (Shortfall(others=("__transaction_state-1",)), True)
    assert any("their leaders did not answer: partition 1" in note for note in audit.audit.notes or ())


def test_another_log_that_was_deleted_is_noted_and_no_shortfall(live):
    topics = ("__share_group_state", "__transaction_state")
    nights = live(**{OFFSETS: two_logs(), topics[0]: two_share_logs(), topics[1]: [Log([transaction_batch(0, "a")])]})
    nights.night(["share-state", "transaction-state"])
    del nights.brokers.topics[topics[0]][1:], nights.brokers.topics[topics[1]]
    audit = nights.night(["share-state", "transaction-state"])
    gone = {note for note in audit.audit.notes or () if "is no longer in the cluster" in note}
    assert gone == {
        "__share_group_state: partition 1 is no longer in the cluster: rows stay as they were last read",
        "__transaction_state: partition 0 is no longer in the cluster: rows stay as they were last read",
    }
    assert not audit.lacks_records
    assert not any("no longer" in note for note in nights.night(["share-state"]).audit.notes or () if "__tr" in note)


def test_a_night_without_new_records_repeats_no_counts_of_the_other_logs(live):
    nights = live(**{OFFSETS: two_logs(), "__transaction_state": [Log([transaction_batch(0, "a")])]})
    read = [nights.night(include) for include in (["transaction-state"], ["transaction-state"], [])]
    assert [[each.records for each in night.audit.state_partitions] for night in read] == [[1], [0], [0]]
    assert [each.end_offset for each in read[-1].audit.state_partitions] == [1]
    assert "__transaction_state: 1 new record from 1 partition" not in "".join(read[1].lines())


@pytest.mark.parametrize(
    ("progress", "note"),
    [
        ({"number": 0, "unconfirmed": "a gap"}, "the last batch of partition 3 was not read (a gap)"),
        ({"number": MOST_ROUNDS}, "partition 3: cleaned faster than the audit could read, 20 times in a row"),
    ],
)
def test_another_log_that_is_not_read_to_its_end_is_a_shortfall(progress, note, live, monkeypatch):
    read = StateShardRead("__transaction_state", [RangeProgress(3, start_offset=0, next_offset=9, **progress)])
    monkeypatch.setattr(run, "audit_state_logs", lambda *_, **__: StateLogsResult(reads=(read,)))
    audit = live(**{OFFSETS: two_logs(), "__transaction_state": [Log([])]}).night(["transaction-state"])
    assert audit.shortfall == Shortfall(others=("__transaction_state-3",))
    assert any(each.startswith(f"__transaction_state: {note}") for each in audit.audit.notes or ())


def test_an_audit_that_can_read_no_partition_is_refused_before_its_claim(live):
    nights = live(**{OFFSETS: two_logs()})
    nights.night()
    nights.brokers.instead["Fetch"] = lambda *_: CLOSE
    with pytest.raises(KgroupsError, match="no partition can be read now: partitions 0-1 are left to the next audit"):
        nights.night()
    del nights.brokers.instead["Fetch"]
    assert nights.night().audit.audit_id == 2


def test_partitions_that_the_topic_no_longer_has_are_named(live):
    nights = live(**{OFFSETS: [*two_logs(), Log(commit_batches(1))]})
    nights.night()
    del nights.brokers.topics[OFFSETS][1:]
    audit = nights.night()
    assert "partitions 1-2 are no longer in the topic, which has 1: rows stay as they were last read" in (
        audit.audit.notes or ()
    )
    assert not audit.lacks_records  # all that there is was read


def test_a_partition_count_below_the_logs_own_is_refused(live):
    """A typo, with which nearly all groups would be in the wrong partition."""
    with pytest.raises(UsageError, match="--offsets-partitions 1: there is a partition 1, so there are 2 at least"):
        live(**{OFFSETS: two_logs()}).night(offsets_partitions=1, partitions=[0])
    segments = AuditOptions("lake", [str(SEGMENTS)], offsets_partitions=5)
    with pytest.raises(UsageError, match="--offsets-partitions 5: there is a partition 7"), open_source(segments):
        pass


def test_what_is_asked_after_the_read_does_not_fail_the_audit(live):
    """Such as with credentials that have expired meanwhile."""
    nights = live(**{OFFSETS: two_logs(), "t": [Log()]})

    def expired(_, request):
        return b"\0\0\0\0" if any(each.name == "t" for each in request.topics) else None

    nights.brokers.instead["ListOffsets"] = expired
    audit = nights.night().audit
    assert nights.ends() == {0: 9, 1: 9}
    (note,) = (note for note in audit.notes or () if note.startswith("could not fetch log start and end"))
    assert "sent an invalid answer to ListOffsetsRequest" in note


LIMIT = "group.share.delivery.count.limit"


def test_the_facts_of_the_cluster_are_rows_and_stay_known_to_audits_without_one(live):
    delivered = shares.batch(0, 2, 0, 5)
    key = shares.KEYS[0]
    record = shares.Record(0, *key, shares.snapshot([delivered]))
    share = Log([batch(0, [(shares.key_bytes(record), shares.value_bytes(record))], leader_epoch=1)])
    nights = live(**{OFFSETS: two_logs(), "__share_group_state": [share]})
    nights.brokers.configs = {"1": {LIMIT: "7"}, key[0]: {"share.delivery.count.limit": "9"}}
    notes = nights.night(["share-state"]).audit.notes or ()
    assert not any("group config" in note for note in notes)

    def attempts(lake):
        return [row["attempts_left"] for row in lake.rows("share_batches")]

    facts = [tuple(row[name] for name in ClusterFact._fields) for row in nights.lake.rows("cluster_facts")]
    assert facts == [
        ("broker_config", LIMIT, "7", "set", 1, None),
        ("group_config", "share.delivery.count.limit", "9", "set", None, key[0]),
        *(("leader", str(number), nights.brokers.address, None, 1, None) for number in (0, 1)),
    ]
    assert attempts(nights.lake) == attempts(nights.lake.rebuilt()) == [4]
    # Segments know no cluster: an option stands for the brokers', and groups keep their own.
    option = ClusterFact("broker_config", LIMIT, "12", "option")
    settings = AuditSettings("4.4", 1, "option", 1, 0)
    with in_memory():
        lake = Lake.open(nights.lake.session, nights.lake.lake)
        known = [
            run._known_facts(lake, {"cluster_facts": 1}, LogSource("segments", [], settings, facts=facts))
            for facts in ((), (option,))
        ]
    assert [Settings.of(each) for each in known] == [Settings(limit, None, {key[0]: 9}) for limit in (7, 12)]
    assert len(known[0]) == len(known[1]) == len(facts)
