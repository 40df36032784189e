"""The state that Kafka's own coordinator classes held after loading logs: generated ones, and scenarios."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from kgroups_spark.coordinator.groups import Groups
from kgroups_spark.coordinator.releases import ReplayFailure, release
from kgroups_spark.messages.coordinator_records import CoordinatorRecord, GroupRecordDecoder
from kgroups_spark.offsets.state import OffsetState
from kgroups_spark.replay.state import LogState, ShardGroups, loaded, saved
from tests.chosen import one_of
from tests.coordinator.generated_logs import JAVA, answers, raw_records, replayed
from tests.coordinator.oracle_answers import fails, reported_otherwise
from tests.coordinator.records import (
    Log,
    T,
    classic,
    classic_member,
    consumer_member,
    current,
    epoch,
    share_member,
    streams_member,
    target_epoch,
)
from tests.messages.compared import changed


@pytest.mark.parametrize("version", [*JAVA, "3.9.2"])
def test_coordinators_have_the_same_state_after_the_same_failures(version):
    (tables, _), found = replayed(version), []
    for log, answer in answers(version):
        lines = reported_otherwise(answer, tables[log, answer["partition"]])
        found += [f"{log}-{answer['partition']} {line}" for line in lines]
    assert not found, "\n".join(found[:20])
    assert len(answers(version)) == 79
    assert sum(not fails(answer) for _, answer in answers(version)) >= 50


# Records with flipped, cut and added bytes: whatever decodes is replayed, or fails as a record that Kafka fails on.
VERSIONS = ("4.3", "4.1", "4.0.0", "3.7-java", "3.9", "2.8")


class NoOffsets:
    held = staticmethod(lambda group_id: (False, False))


@pytest.mark.parametrize("version", one_of(*VERSIONS))
def test_noise_in_group_records_never_breaks_the_replay(version):
    choice = random.Random(version)
    groups, decoder, applied, failed = Groups(release(version), 0, NoOffsets()), GroupRecordDecoder(), 0, 0
    for offset, (key, value) in enumerate(raw_records()):
        record = decoder.decode(key, None if value is None else changed(choice, value))
        if isinstance(record, CoordinatorRecord):
            names = record.group_id, record.member_id, record.regular_expression
            try:
                groups.replay_group_record(offset, 0, record.record_type, *names, record.value)
                applied += 1
            except ReplayFailure:
                failed += 1
        if offset % 500 == 0:
            rows = saved(LogState(OffsetState.empty(), [ShardGroups(groups.groups, {})]))
            assert saved(loaded(rows, groups.release)).equals(rows)
            assert len(list(groups.group_rows())) == len(groups.groups)
            list(groups.member_rows())
    assert applied > 200
    assert failed > 10 or version == "3.9"
    assert groups.take_changes()


# The replay scenarios of `data/coordinator-replay-oracle.txt`: what Kafka's replay classes printed, line by line.
#
# A scenario's records are below, by the title that the text prints before the state they lead to; a title of GO_ON goes
# on with the log before it. Lines of a clean-up list the tombstones it wrote, which were replayed, too.
TEXT = (Path(__file__).parent / "data" / "coordinator-replay-oracle.txt").read_text()
DAY = 86_400_000
STABLE = classic([classic_member("m1")], leader="m1")
COMMITTED, ABORTED = "committed", "aborted"


class Block(NamedTuple):
    title: str
    # Failures and tombstones were printed between the previous title and this one; the state follows this title.
    failures: dict[int, str]
    tombstones: list[str]
    state: list[str]


def blocks(version):
    """The titled blocks of a release's section."""
    section = re.split(r"\n=== Kafka ", TEXT)[1 if version == "4.3.1" else 2]
    found = []
    failures = {}
    tombstones = []
    for line in section.splitlines()[1:]:
        failure = re.match(r" +!! offset (\d+) \w+: (.*)", line)
        if failure:
            failures[int(failure[1])] = failure[2]
        elif line.strip().startswith("cleanup@"):
            tombstones += re.findall(r"(\w+)Key\(([^)]*)\)=null", line)
        elif line.startswith("* "):
            found.append(Block(line[2:], failures, tombstones, []))
            failures, tombstones = {}, []
        elif line.strip():
            found[-1].state.append(line.strip())
    return found


def clean_up(log, tombstones):
    """Replays the tombstones that a clean-up wrote."""
    types = {"GroupMetadata": 2, "ConsumerGroupMetadata": 3, "ConsumerGroupPartitionMetadata": 4}
    types["ConsumerGroupTargetAssignmentMetadata"] = 6
    for name, fields in tombstones:
        if name == "OffsetCommit":
            log.tombstone(re.search(r"topic='(\w+)'", fields)[1])
        else:
            log.record(types[name], None)


def member_of_epoch(log, member_epoch, state=0):
    return log.record(8, current(member_epoch, state=state), "m")


START = {
    "txn@0 then plain@1 then COMMIT: plain newer wins": lambda log: (
        log.commit(30, producer=1).commit(40).end(1, COMMITTED)
    ),
    "plain@0 then txn@1 commit: txn wins even if committed offset smaller": lambda log: (
        log.commit(40).commit(30, producer=1).end(1, COMMITTED)
    ),
    "open txn creates simple group": lambda log: log.commit(1, producer=1),
    "txn, plain tombstone, COMMIT (new: gone)": lambda log: log.commit(30, producer=1).tombstone().end(1, COMMITTED),
    "tombstone inside txn applied at once, before marker": lambda log: log.commit(1).tombstone(producer=1),
    "two producers, later record commits first": lambda log: (
        log.commit(50, producer=1).commit(60, producer=2).end(2, COMMITTED)
    ),
    "marker without pending: no-op": lambda log: log.end(1, COMMITTED),
    "group tombstone keeps offsets; group gone": lambda log: log.record(2, classic()).commit(1).record(2, None),
    "simple group + consumer tombstone -> becomes CONSUMER group": lambda log: log.commit(1).record(5, None, "m"),
    "with target-metadata tombstone: group removed, offset orphaned": lambda log: (
        log.commit(1).record(6, None).record(3, None)
    ),
    "consumer record over non-simple classic group": lambda log: log.record(2, STABLE).record(3, epoch(1)),
    "empty-protocolType GroupMetadata is a simple group": lambda log: log.record(
        2, classic(protocol_type="", generation=0)
    ),
    "only member metadata": lambda log: log.record(5, consumer_member(), "m"),
    "epoch 5, no target": lambda log: log.record(5, consumer_member(), "m").record(3, epoch(5)),
    "classic Empty: base=state timestamp even if commit is fresher; >=": lambda log: log.record(
        2, classic(timestamp=T)
    ).commit(1),
    "classic Empty with timestamp -1: base=commit timestamp": lambda log: log.record(2, classic()).commit(1),
    "classic Stable consumer: only unsubscribed topic u expires": lambda log: (
        log.record(2, STABLE).commit(1).commit(1, "u")
    ),
    "classic Stable non-consumer type: never": lambda log: log.record(
        2, classic([classic_member("m1")], protocol_type="connect", leader="m1")
    ).commit(1, "u"),
    "simple: t expires, group kept because of open txn": lambda log: log.commit(1).commit(1, "u", producer=1),
    "pending txn on same partition spares committed offset": lambda log: log.commit(1).commit(2, producer=1),
    "v1 expireTimestamp: now >= expire": lambda log: log.commit(1, expire_timestamp=T + 10, value_version=1),
    "explicit expire still spared while subscribed": lambda log: log.record(2, STABLE).commit(
        1, expire_timestamp=T + 10, value_version=1
    ),
    "empty consumer group: base=commit ts; group tombstones": lambda log: log.record(3, epoch(5)).commit(1),
    "empty consumer group without offsets": lambda log: log.record(3, epoch(5)),
    "share group never expires": lambda log: log.record(11, epoch(2), group="s"),
    "streams replaces simple group (4.2.1+)": lambda log: log.commit(1).record(17, epoch(2)),
    "share record over simple group": lambda log: log.commit(1).record(10, share_member(), "m"),
    "unparsable subscription: nothing expires": lambda log: log.record(
        2, classic([classic_member("m1", subscriptionRaw="AAAAAA==")], leader="m1")
    ).commit(1, "u"),
    "future consumer-protocol version 9 parsed as v0 prefix": lambda log: log.record(
        2, classic([classic_member("m1", subscriptionRaw="AAkAAAABAAF0/////w==")], leader="m1")
    ),
}
GO_ON = {
    "after ABORT group stays": lambda log: log.end(1, ABORTED),
    "..after ABORT": lambda log: log.end(1, ABORTED),
    "earlier record commits later -> skipped": lambda log: log.end(1, COMMITTED),
    "new commit re-creates simple group": lambda log: log.commit(9, "u"),
    "epoch tombstone without target-metadata tombstone": lambda log: log.record(3, None),
    "consumer record replaces it": lambda log: log.record(5, consumer_member(), "m"),
    "GroupMetadata value overrides any type": lambda log: log.record(2, {**STABLE, "generation": 1}),
    "target 5, member epoch 0": lambda log: log.record(6, target_epoch(5)),
    "member epoch 5 STABLE": lambda log: member_of_epoch(log, 5),
    "member UNRELEASED": lambda log: member_of_epoch(log, 5, state=2),
    "static left -2": lambda log: member_of_epoch(log, -2),
    "unknown member state 99": lambda log: member_of_epoch(log, 5, state=99),
    "member tombstone w/o current tombstone": lambda log: log.record(5, None, "m"),
    "proper order": lambda log: log.record(8, None, "m").record(5, None, "m"),
    "value after tombstone: ghost member": lambda log: member_of_epoch(log, 6),
    "no topology -> NotReady": lambda log: log.record(19, streams_member(), "m"),
}
AFTER_CLEAN_UP = {
    "after cleanup",
    "classic Empty: base=state timestamp even if commit is fresher; >=",
    "classic Empty with timestamp -1: base=commit timestamp",
    "classic Stable consumer: only unsubscribed topic u expires",
    "simple: t expires, group kept because of open txn",
    "v1 expireTimestamp: now >= expire",
    "empty consumer group: base=commit ts; group tombstones",
    "deleted at next cycle",
    "offset of non-source topic expires while NotReady",
}
# These are of the decoder, or of a log with records that none of it can be known from: messages' tests have them.
OF_THE_DECODER = {"serde", "type 0 key, v0 value", "type 0 key, v1 value (4.1+)", "trailing garbage bytes tolerated"}
OF_THE_DECODER |= {"duplicate group.instance.id"}


@pytest.mark.parametrize("version", ["4.3.1", "4.2.0"])
def test_every_scenario_leads_to_what_kafka_printed(version):
    log = Log(version)
    seen = set()
    for block in blocks(version):
        if block.title in OF_THE_DECODER:
            continue
        seen.add(block.title)
        if block.title in START:
            log = Log(version)
        before = set(log.failed)
        (START.get(block.title) or GO_ON.get(block.title) or (lambda log: None))(log)
        assert log.failed.keys() - before == block.failures.keys(), block.title
        if block.title in AFTER_CLEAN_UP:
            clean_up(log, block.tombstones)
        assert state(log, block.state) == block.state, block.title
    assert seen >= START.keys() | GO_ON.keys() | AFTER_CLEAN_UP


def state(log, printed):
    """The lines for the groups, and for the slots that `printed` names."""
    lines = [line for row in log.tables.groups() for line in group_lines(log, row, printed)]
    for slot in re.findall(r"offset (\w+)/(\w+)/(\d+)", "\n".join(printed)):
        lines.append(offset_line(log, (slot[0], slot[1], int(slot[2]))))
    return lines


def group_lines(log, row, printed):
    members = sorted(log.members(row.group_id))
    if row.group_type != "classic":
        epochs = f"epoch={row.group_epoch} assignEpoch={row.assignment_epoch}"
        return [f"group {row.group_id} type={row.group_type} state={row.state} {epochs} members=[{', '.join(members)}]"]
    topics = [member.subscribed_topics for member in log.members(row.group_id).values()]
    known = row.protocol_type == "consumer" and topics and None not in topics
    subscribed = f"Optional[[{', '.join(sorted(topics[0]))}]]" if known else "Optional.empty"
    protocol_type = "Optional.empty" if row.protocol_type is None else f"Optional[{row.protocol_type}]"
    line = f"group {row.group_id} type=classic state={row.state} protocolType={protocol_type} gen={row.generation} "
    return [f"{line}simple={str(row.is_simple).lower()} subscribed={subscribed}"]


def offset_line(log, slot):
    committed, is_pending = (
        next((row for row in log.tables.offsets(name) if (row.group_id, row.topic, row.partition) == slot), None)
        for name in ("committed_offsets", "pending_offsets")
    )
    said = "none" if committed is None else f"{committed.committed_offset} (rec {committed.log_offset})"
    return f"offset {'/'.join(map(str, slot))} = {said} pendingTxn={str(is_pending is not None).lower()}"
